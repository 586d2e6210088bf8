"""Watches that fault rules cut, repeat or expire, over every transport."""

from __future__ import annotations

import pytest

from rewound.gateway.watch.frames import SEGMENT
from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map
from tests.gateway.watch.watching import watching
from tests.testing.faults.injecting import PATH, injecting, on_config_maps

transports = pytest.mark.parametrize("transport", ["plain", "ws", "h2"])


async def written(api: Api, count: int) -> str:
    """The version before as many changes of one object."""
    version = str((await api.create("configmaps", config_map("a", text="0")))["metadata"]["resourceVersion"])
    for number in range(1, count):
        await api.replace("configmaps", config_map("a", text=str(number)))
    return version


def texts(events: list[Document]) -> list[str]:
    return [event["object"]["data"]["text"] for event in events]


@transports
async def test_watch_ends_cleanly_after_some_events(transport: str) -> None:
    rule = on_config_maps({"cutWatch": {"afterEvents": 2}}, name="cut", first=1)
    async with injecting(rule) as api:
        version = await written(api, 2)
        async with watching(api, PATH, transport, resourceVersion=version) as watch:
            await api.replace("configmaps", config_map("a", text="2"))
            await api.replace("configmaps", config_map("a", text="3"))
            events = await watch.end()
            assert texts(events) == ["1", "2"]
        resumed = events[-1]["object"]["metadata"]["resourceVersion"]
        async with watching(api, PATH, transport, resourceVersion=resumed) as watch:
            assert texts(await watch.take(1)) == ["3"]


async def test_events_before_the_version_of_a_watch_do_not_count() -> None:
    async with injecting(on_config_maps({"cutWatch": {"afterEvents": 2}})) as api:
        first = int(await written(api, 3 * SEGMENT))
        version = (
            first + SEGMENT - first % SEGMENT + SEGMENT // 2
        )  # in the middle of a segment that is complete
        async with watching(api, PATH, resourceVersion=str(version)) as watch:
            assert texts(await watch.end()) == [str(version + 1 - first), str(version + 2 - first)]


@transports
@pytest.mark.parametrize("end", ["reset", "truncated"])
async def test_watch_ends_without_the_end_of_its_stream(transport: str, end: str) -> None:
    rule = on_config_maps({"cutWatch": {"afterEvents": 2, "end": end}})
    async with injecting(rule) as api:
        version = await written(api, 6)
        async with watching(api, PATH, transport, resourceVersion=version) as watch:
            await watch.wait_over()
            assert watch.broken is not None
            assert texts(watch.events) == ["1", "2"]


async def test_initial_events_count() -> None:
    rule = on_config_maps({"cutWatch": {"afterEvents": 2}})
    async with injecting(rule) as api:
        for name in ("a", "b", "c"):
            await api.create("configmaps", config_map(name))
        async with watching(api, PATH) as watch:
            assert [one["object"]["metadata"]["name"] for one in await watch.end()] == ["a", "b"]


@pytest.mark.parametrize("transport", ["plain", "h2"])
async def test_watch_ends_at_once(transport: str) -> None:
    async with injecting(on_config_maps({"cutWatch": {"afterEvents": 0}})) as api:
        await api.create("configmaps", config_map("a"))
        async with watching(api, PATH, transport) as watch:
            assert await watch.end() == []


async def test_number_of_events_is_chosen_by_the_seed() -> None:
    async def counts(seed: int) -> list[int]:
        found = []
        rule = on_config_maps({"cutWatch": {"afterEvents": 1, "upToEvents": 9}})
        async with injecting(rule, seed=seed) as api:
            version = await written(api, 10)
            for _ in range(6):
                async with watching(api, PATH, resourceVersion=version) as watch:
                    found.append(len(await watch.end()))
        return found

    first = await counts(1)
    assert first == await counts(1)
    assert len(set(first)) > 1
    assert first != await counts(2)


async def test_other_watches_continue() -> None:
    rule = {"match": {"userAgent": "operator/*"}, "fault": {"cutWatch": {"afterEvents": 1}}}
    async with (
        injecting(rule) as api,
        watching(api, PATH, resourceVersion=await written(api, 1)) as other,
        watching(api, PATH, resourceVersion=await api.head(), headers={"user-agent": "operator/1"}) as watch,
    ):
        assert watch.headers[b"rewound-fault"] == b"0"
        assert b"rewound-fault" not in other.headers
        for text in ("1", "2", "3"):
            await api.replace("configmaps", config_map("a", text=text))
        assert texts(await watch.end()) == ["1"]
        assert texts(await other.take(3)) == ["1", "2", "3"]


@transports
async def test_version_of_a_watch_is_expired(transport: str) -> None:
    async with injecting(on_config_maps({"expired": {}}, first=1)) as api:
        version = await written(api, 2)
        async with watching(api, PATH, transport, resourceVersion=version) as watch:
            (event,) = await watch.end()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
            assert event["object"]["message"].startswith(f"too old resource version: {version} (")
        async with watching(api, PATH, transport, resourceVersion=version) as watch:
            assert texts(await watch.take(1)) == ["1"]


async def test_lists_that_name_a_version_are_expired() -> None:
    async with injecting(on_config_maps({"expired": {}})) as api:
        version = await written(api, 2)
        await api.create("configmaps", config_map("b"))
        assert (await api.ask("GET", PATH, resourceVersion=version)).expect(410)["reason"] == "Expired"
        first = (await api.ask("GET", PATH, limit=1)).expect(200)  # names none
        assert (await api.ask("GET", PATH, resourceVersion=0)).status == 200
        token = first["metadata"]["continue"]
        expired = (await api.ask("GET", PATH, **{"limit": 1, "continue": token})).expect(410)
        assert expired["message"].startswith("The provided continue parameter is too old")
        assert expired["metadata"]["continue"]


async def test_watch_repeats_events() -> None:
    async with injecting(on_config_maps({"repeatEvents": {"events": 2}}, first=1)) as api:
        await written(api, 4)
        for _ in range(2):
            await api.create("secrets", {"metadata": {"generateName": "other-"}})
        version = await api.head()
        async with watching(api, PATH, resourceVersion=version) as watch:
            await api.replace("configmaps", config_map("a", text="new"))
            assert texts(await watch.take(3)) == ["2", "3", "new"]
        async with watching(api, PATH, resourceVersion=version) as watch:
            assert texts(await watch.take(1)) == ["new"]
