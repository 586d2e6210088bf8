"""There is no gap and no repetition between the initial events and those after them."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio

from rewound.actors.store import committer as slow_disk
from rewound.gateway.watch import initial_events as state
from tests.gateway.api import Api, config_map, labelled, served
from tests.gateway.watch.watching import (
    Watch,
    assert_ascending,
    ports,
    stalling_plain_transports,
    transports,
    type_and_name,
    versions,
    watching,
)
from tests.settling import settled


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FIRST_PAGE", 3)
    monkeypatch.setattr(state, "LARGEST_PAGE", 3)


async def churn(api: Api, rounds: int) -> None:
    """Write objects before, on and after the page that the watch has reached."""
    for turn in range(rounds):
        await api.replace("configmaps", config_map(f"m-{turn % 40:02}", turn=str(turn)))
        await api.create("configmaps", config_map(f"a-{turn:03}"))
        await api.create("configmaps", config_map(f"z-{turn:03}"))
        await api.delete("configmaps", f"z-{turn:03}")


def folded(watch: Watch) -> dict[str, int]:
    held: dict[str, int] = {}
    for event in watch.events:
        kind, name = type_and_name(event)
        if kind == "ADDED":
            assert name not in held, f"{name} was added twice"
        else:
            assert name in held, f"{name} was {kind} without having been added"
        held[name] = versions([event])[0]
        if kind == "DELETED":
            del held[name]
    return held


@pytest.mark.usefixtures("small_pages")
@transports
async def test_writes_between_pages_are_neither_lost_nor_repeated(transport: str) -> None:
    async with served(**ports(transport)) as api:
        for number in range(40):
            await api.create("configmaps", config_map(f"m-{number:02}"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(churn, api, 30)
            async with watching(api, api.path("configmaps"), transport) as watch:
                with trio.fail_after(60):
                    while not any(name == "a-029" for _, name in map(type_and_name, watch.events)):
                        await trio.lowlevel.checkpoint()
                await settled()
                listed = await api.list("configmaps")
                expected = {
                    item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
                    for item in listed["items"]
                }
                assert folded(watch) == expected
                first = next(place for place, event in enumerate(watch.events) if event["type"] != "ADDED")
                synthetic = [type_and_name(event)[1] for event in watch.events[:first]]
                assert synthetic[:40] == sorted(synthetic[:40])


@pytest.mark.usefixtures("small_pages")
async def test_pages_have_one_version() -> None:
    """Writes between pages appear as later events only, all newer than the initial ones."""
    async with served() as api:
        for number in range(30):
            await api.create("configmaps", labelled(f"m-{number:02}", keep="yes"))
        async with watching(api, api.path("configmaps"), labelSelector="keep") as watch:
            events = await watch.take(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(churn, api, 10)
                events += await watch.take(29)
                assert [type_and_name(event) for event in events] == [
                    ("ADDED", f"m-{number:02}") for number in range(30)
                ]
                later = watch.untaken
                assert_ascending(later)
                assert all(version > max(versions(events)) for version in versions(later))


async def test_commits_in_a_thread_are_neither_lost_nor_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal then has a commit before the feed does: initial events may have a version that is not swept yet."""
    monkeypatch.setattr(slow_disk, "SLOW_COMMIT", -1.0)
    async with served() as api:
        for number in range(40):
            await api.create("configmaps", config_map(f"m-{number:02}"))
        written = trio.Event()

        async def write() -> None:
            await churn(api, 25)
            await api.create("configmaps", config_map("last"))
            written.set()

        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            nursery.start_soon(write)
            watches = [
                await stack.enter_async_context(watching(api, api.path("configmaps"))) for _ in range(25)
            ]
            await written.wait()
            listed = await api.list("configmaps")
            expected = {
                item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]
            }
            for watch in watches:
                while not any(name == "last" for _, name in map(type_and_name, watch.events)):
                    await watch.take(1)
                assert folded(watch) == expected


@stalling_plain_transports
async def test_client_that_stalls_during_initial_events_gets_all_of_them(transport: str) -> None:
    big = "x" * 20_000
    async with served() as api:
        for number in range(20):
            await api.create("configmaps", config_map(f"m-{number:02}", big=big))
        async with watching(api, api.path("configmaps"), transport, stalled=True) as watch:
            await settled()
            await api.replace("configmaps", config_map("m-00", big="gone"))
            await api.delete("configmaps", "m-19")
            await settled()
            watch.resume()  # type: ignore[attr-defined]
            events = await watch.take(22)
            assert [type_and_name(event) for event in events] == [
                *(("ADDED", f"m-{number:02}") for number in range(20)),
                ("MODIFIED", "m-00"),
                ("DELETED", "m-19"),
            ]
            assert all(event["object"]["data"]["big"] == big for event in events[:20])
