"""A replay delivers the recorded events to watches, byte for byte, and ends the watches when it moves back."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from rewound.recording.replay.player import FULL_SPEED, Moment
from rewound.recording.replay.replay import Plan
from tests.api.custom.kinds import GROUP, define, definition, widget
from tests.gateway.api import Api, config_map, names
from tests.gateway.journal_commands import put, write_history
from tests.gateway.watch.watching import watching
from tests.recording.replay.replaying import Replay, lines, recorded, replayed
from tests.settling import settled

WIDGETS = f"/apis/{GROUP}/v1/widgets"
WATCHED = (
    "/api/v1/configmaps",
    "/api/v1/namespaces/default/configmaps?labelSelector=app",
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
    WIDGETS,
)


async def watched(api: Api, start: str, counts: dict[str, int]) -> dict[str, list[bytes]]:
    """The events of some watches after a version, read at the same time."""
    found: dict[str, list[bytes]] = {}

    async def read(path: str) -> None:
        plain, _, selector = path.partition("?labelSelector=")
        selected = {"labelSelector": selector} if selector else {}
        found[path] = await lines(api, plain, counts[path], resourceVersion=start, **selected)

    async with trio.open_nursery() as nursery:
        for path in counts:
            nursery.start_soon(read, path)
    return found


async def record(api: Api) -> tuple[str, dict[str, int]]:
    """Write objects of several kinds; returns the version before, and how many events each watch got."""
    await define(api, definition())
    start = await api.head()
    await api.create("namespaces", {"metadata": {"name": "shop"}})
    for number in range(20):
        api.clock.advance(0.5)
        labels = {"labels": {"app": "web"}} if number % 3 else {}
        body = config_map(f"c{number % 4}", n=str(number))
        body["metadata"].update(labels)
        if number < 4:
            await api.create("configmaps", body)
        else:
            await api.replace("configmaps", body)
        await api.ask("POST", f"/apis/{GROUP}/v1/namespaces/shop/widgets", widget(f"w{number}"))
    await api.delete("configmaps", "c1")
    return start, {WATCHED[0]: 21, WATCHED[1]: 19, WATCHED[2]: 1, WATCHED[3]: 1, WIDGETS: 20}


async def test_every_replay_delivers_the_same_bytes(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        start, counts = await record(api)
        original = await watched(api, start, counts)
    for speed in (FULL_SPEED, 1000.0):
        plan = Plan(at=Moment(int(start), 0), speed=speed)
        async with replayed(tmp_path, plan) as replay, trio.open_nursery() as nursery:
            results: list[dict[str, list[bytes]]] = []

            async def read(api: Api = replay.api, into: list[dict[str, list[bytes]]] = results) -> None:
                into.append(await watched(api, start, counts))

            nursery.start_soon(read)
            await settled()
            await replay.move(action="play")
        assert results == [original]


async def test_steps_deliver_one_event_each(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        start = await api.head()
        for name in "abc":
            await api.create("configmaps", config_map(name))
            api.clock.advance(60)
    async with (
        replayed(tmp_path, Plan(at=Moment(int(start), 0))) as replay,
        watching(replay.api, api.path("configmaps"), resourceVersion=start) as watch,
    ):
        state = await replay.move(action="step")
        assert await watch.types_and_names(1) == [("ADDED", "a")]
        assert int(state["version"]) == int(start) + 1
        await replay.move(action="step", count=2)
        assert await watch.types_and_names(2) == [("ADDED", "b"), ("ADDED", "c")]
        end = await replay.move(action="step", count=5)
        assert end["version"] == end["end"]["version"]


@pytest.mark.parametrize("transport", ["plain", "h2", "ws"])
async def test_going_back_ends_watches_with_410(tmp_path: Path, transport: str) -> None:
    async with recorded(tmp_path) as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
    async with replayed(tmp_path) as replay:
        head = await replay.api.head()
        path = api.path("configmaps")
        async with watching(replay.api, path, transport, resourceVersion=head) as watch:
            await replay.move(action="back", count=2)
            (event,) = await watch.end()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
        listed = await replay.api.list("configmaps")
        assert names(listed)[-1] == "a"
        version = listed["metadata"]["resourceVersion"]
        async with watching(replay.api, path, transport, resourceVersion=version) as watch:
            await replay.move(action="step", count=2)
            assert await watch.types_and_names(2) == [("ADDED", "b"), ("ADDED", "c")]


async def test_watch_without_a_version_begins_with_the_objects_of_the_moment(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
        await api.delete("configmaps", "a")
    async with replayed(tmp_path) as replay:
        await replay.move(action="back", count=2)
        async with watching(replay.api, api.path("configmaps")) as watch:
            assert [name for _, name in await watch.types_and_names(2)] == ["a", "b"]
            await replay.move(action="step", count=2)
            assert await watch.types_and_names(2) == [("ADDED", "c"), ("DELETED", "a")]


async def test_server_is_healthy_after_going_back(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a", {"n": str(number)}) for number in range(5)])
    async with replayed(tmp_path) as replay:
        for _ in range(3):
            await replay.move(action="back")
            assert (await replay.api.ask("GET", "/readyz")).text == "ok"
            assert "rewound_connections 1" in (await replay.api.ask("GET", "/metrics")).text


async def test_watch_of_a_version_in_the_future_ends_too(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        for name in "abc":
            await api.create("configmaps", config_map(name))
        head = int(await api.head())
    async with (
        replayed(tmp_path) as replay,
        watching(replay.api, api.path("configmaps"), resourceVersion=head + 5) as watch,
    ):
        await replay.move(action="back")
        assert [event["object"]["code"] for event in await watch.end()] == [410]


async def played(folder: Path, plan: Plan) -> float:
    """How long it plays, in virtual time."""
    async with replayed(folder, plan) as replay:
        began = trio.current_time()
        assert replay.api.player is not None
        await replay.api.player.wait_stopped()
        return trio.current_time() - began


async def test_intervals_are_those_of_the_recording(tmp_path: Path, autojump_clock: object) -> None:
    write_history(tmp_path, [put("a", {"n": str(number)}) for number in range(91)])  # a second apart
    for speed, expected in ((1.0, 90), (10.0, 9), (0.5, 180), (FULL_SPEED, 0)):
        seconds = await played(tmp_path, Plan(at=Moment(1, 0), speed=speed, play=True))
        assert seconds == pytest.approx(expected, abs=0.1), speed


async def test_clock_follows_the_recording(tmp_path: Path, autojump_clock: object) -> None:
    created = {"metadata": {"creationTimestamp": "2024-05-01T12:00:00Z", "uid": "u"}}
    steps = [put("a", {"n": str(number)}, **created) for number in range(1200)]
    write_history(tmp_path, [*steps[:100], *steps[100:]])

    async def age(replay: Replay) -> str:
        table = {"accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
        path = "/api/v1/namespaces/default/configmaps/a"
        rows = (await replay.api.ask("GET", path, headers=table)).expect(200)
        return str(rows["rows"][0]["cells"][-1])

    async with replayed(tmp_path, Plan(at=Moment(600, 0))) as replay:
        assert await age(replay) == "10m"
        await replay.move(action="play", speed="60x")
        await trio.sleep(2)
        assert await age(replay) == "12m"
        await replay.stopped()
        assert await age(replay) == "20m"
