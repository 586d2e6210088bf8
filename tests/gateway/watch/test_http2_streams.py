"""Watches as HTTP/2 streams: many on one connection, each at its own pace."""

from __future__ import annotations

import gc

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.http2.frame_reader import FrameReader
from rewound.gateway.connections.http2.stream import Stream
from rewound.gateway.connections.transport import Transport
from rewound.gateway.watch import group
from tests.gateway.api import Api, config_map, labelled, served
from tests.gateway.watch.http2_watches import StreamBody, connection
from tests.gateway.watch.watching import assert_ascending, type_and_name, version
from tests.settling import advance, eventually, settled

PATH = "/api/v1/namespaces/default/configmaps"
TABLE = {"Accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.cluster.io;v=v1"}


async def test_many_watches_share_one_connection() -> None:
    async with served() as api, connection(api) as client:
        at = await api.head()
        watches = [await client.watch(PATH, resourceVersion=at) for _ in range(40)]
        watches += [await client.watch(PATH, resourceVersion=at, labelSelector=f"app={n}") for n in range(10)]
        for number in range(30):
            await api.create("configmaps", labelled(f"c-{number:02}", app=str(number % 10)))
        for watch in watches[:40]:
            events = await watch.take(30)
            assert [type_and_name(event) for event in events] == [("ADDED", f"c-{n:02}") for n in range(30)]
            assert_ascending(events)
        for watch in watches[40:]:
            assert len(await watch.take(3)) == 3


async def test_events_of_ten_watches_leave_in_few_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = 0
    transmit = Transport.transmit

    def counted(transport: Transport, data: bytes | memoryview) -> int:
        nonlocal writes
        writes += 1
        return transmit(transport, data)

    async with served() as api, connection(api) as client:
        monkeypatch.setattr(Transport, "transmit", counted)
        at = await api.head()
        watches = [
            await client.watch(PATH),
            await client.watch(PATH, resourceVersion=at),
            await client.watch(PATH, resourceVersion=at, allowWatchBookmarks="true"),
            await client.watch(PATH, resourceVersion=at, labelSelector="app=web"),
            await client.watch(PATH, resourceVersion=at, labelSelector="app"),
            await client.watch(PATH, resourceVersion=at, fieldSelector="metadata.name=a"),
            await client.watch(f"{PATH}/a", resourceVersion=at),
            await client.watch("/api/v1/configmaps", resourceVersion=at),
            await client.watch(PATH, resourceVersion=at, headers=TABLE),
            await client.watch(PATH, resourceVersion=at, headers=PARTIAL),
        ]
        await settled()
        writes = 0
        await api.create("configmaps", labelled("a", app="web"))
        for watch in watches:
            assert [event["type"] for event in await watch.take(1)] == ["ADDED"]
        assert writes <= 3


async def test_watches_of_one_connection_end_on_time(mock_clock: MockClock) -> None:
    """Each at its own timeout, also between two ticks of the watchdog."""
    async with served() as api, connection(api) as client:
        watches = []
        for _ in range(4):
            watches.append(await client.watch(PATH, timeoutSeconds=2))
            await advance(mock_clock, 0.2)
        await advance(mock_clock, 0.2)  # since the first one, a second has passed
        await advance(mock_clock, 0.9)
        assert not any(watch.over for watch in watches)
        for number, watch in enumerate(watches):
            await advance(mock_clock, 0.1)
            await eventually(lambda watch=watch: watch.over)  # type: ignore[misc]
            assert [one.over for one in watches] == [True] * (number + 1) + [False] * (3 - number)
            assert await watch.end() == []
            await advance(mock_clock, 0.1)


async def test_resets_during_sweeps_and_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member is a turn of the sweep, so streams end between the turns of one event."""
    monkeypatch.setattr(group, "TURN", 1)
    monkeypatch.setattr(group, "SMALLEST_TURN", 1)
    async with served() as api, connection(api) as client, connection(api) as other:
        at = await api.head()
        stays = [await client.watch(PATH, resourceVersion=at), await other.watch(PATH, resourceVersion=at)]
        stalls = await client.watch(PATH, reading=False, resourceVersion=at)
        gone = [
            await one.watch(PATH, reading=reading, resourceVersion=at)
            for one in (client, other)
            for reading in (True, False)
            for _ in range(5)
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, api, 30)
            for number, watch in enumerate(gone):
                await stays[0].take(1)
                one = client if number < 10 else other
                if not watch.reading:
                    nursery.start_soon(one.resume, watch)  # its catch-up is cut off
                await one.cancel(watch)
        assert len(await stays[0].take(10)) == 10
        assert len(await stays[1].take(30)) == 30
        await client.resume(stalls)
        events = await stalls.take(30)
        assert [type_and_name(event) for event in events] == [("ADDED", f"c-{n:02}") for n in range(30)]
        await settled()
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_sweeping{type="configmaps"} 3' in text
        assert 'rewound_watchers_lagging{type="configmaps"} 0' in text


async def write(api: Api, count: int) -> None:
    for number in range(count):
        await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 10_000))


async def test_connections_that_break_during_a_burst_affect_no_other() -> None:
    async with served() as api, connection(api) as healthy:
        at = await api.head()
        watch = await healthy.watch(PATH, resourceVersion=at)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                async with connection(api) as broken:
                    for number in range(6):
                        await broken.watch(PATH, reading=number % 2 == 0, resourceVersion=at)
                    if not watch.events:
                        nursery.start_soon(write, api, 40)
                    await watch.take(5)
                    broken.reset_on_close()
        assert len(await watch.take(20)) == 20
        await settled()
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_sweeping{type="configmaps"} 1' in text
        assert 'rewound_watchers_lagging{type="configmaps"} 0' in text


async def test_watches_that_end_while_they_wait_are_freed(mock_clock: MockClock) -> None:
    """The window of the connection is used up, and never opens again."""
    async with served() as api, connection(api, shared=65_535) as client:
        filler = await client.watch(PATH, resourceVersion=await api.head())
        await api.create("configmaps", config_map("filler", big="x" * 80_000))
        await eventually(lambda: filler.received == 65_535)
        for _ in range(3):
            watches = [await client.watch(PATH, timeoutSeconds=1) for _ in range(10)]
            for _ in range(6):
                await advance(mock_clock, 1)
            await eventually(lambda watches=watches: all(watch.over for watch in watches))  # type: ignore[misc]
        gc.collect()
        assert sum(isinstance(one, Stream) for one in gc.get_objects()) <= 5


async def test_watches_of_a_connection_that_fails_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if another task than the first one reads, because a request had to wait."""
    async with served() as api, connection(api) as client:
        watch = await client.watch(PATH)
        document = await client.request("/openapi/v2", kind=StreamBody)
        await document.wait_over()
        await settled()
        assert 'rewound_watchers_sweeping{type="configmaps"} 1' in (await api.ask("GET", "/metrics")).text
        monkeypatch.setattr(FrameReader, "next", lambda _: 1 / 0)
        await client.widen(1, watch)
        await watch.wait_over()
        await settled()
        assert 'rewound_watchers_sweeping{type="configmaps"} 0' in (await api.ask("GET", "/metrics")).text


async def test_stalled_stream_does_not_delay_other_streams() -> None:
    big = "x" * 20_000
    async with served() as api, connection(api) as client:
        at = await api.head()
        stalled = await client.watch(PATH, reading=False, resourceVersion=at)
        healthy = await client.watch(PATH, resourceVersion=at)
        for number in range(30):
            await api.create("configmaps", config_map(f"c-{number:02}", big=big))
        assert len(await healthy.take(30)) == 30
        assert len(stalled.events) < 5
        await client.resume(stalled)
        events = await stalled.take(30)
        assert [type_and_name(event) for event in events] == [("ADDED", f"c-{n:02}") for n in range(30)]
        assert all(event["object"]["data"]["big"] == big for event in events)


async def test_initial_events_precede_later_events() -> None:
    async with served() as api, connection(api) as client:
        for number in range(120):
            await api.create("configmaps", config_map(f"c-{number:03}", big="x" * 2_000))
        watch = await client.watch(PATH)
        await api.delete("configmaps", "c-000")
        told_first = await watch.types_and_names(121)
        assert told_first[:120] == [("ADDED", f"c-{number:03}") for number in range(120)]
        assert told_first[120] == ("DELETED", "c-000")


async def test_stream_reset_affects_no_other_stream() -> None:
    async with served() as api, connection(api) as client:
        gone, stays = await client.watch(PATH), await client.watch(PATH)
        await client.cancel(gone)
        await settled()
        await api.create("configmaps", config_map("a"))
        assert await stays.types_and_names(1) == [("ADDED", "a")]
        assert gone.events == []
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_sweeping{type="configmaps"} 1' in text


async def test_watch_ends_after_its_timeout(mock_clock: MockClock) -> None:
    async with served() as api, connection(api) as client:
        watch = await client.watch(PATH, timeoutSeconds=5, allowWatchBookmarks="true")
        longer = await client.watch(PATH, timeoutSeconds=50)
        await api.create("configmaps", config_map("a"))
        await advance(mock_clock, 6)
        assert [event["type"] for event in await watch.end()] == ["ADDED", "BOOKMARK"]
        await api.create("configmaps", config_map("b"))
        assert await longer.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_stalled_stream_ends_after_its_timeout(mock_clock: MockClock) -> None:
    async with served() as api, connection(api) as client:
        at = await api.head()
        stalled = await client.watch(PATH, reading=False, resourceVersion=at, timeoutSeconds=5)
        beginning = await client.watch(PATH, reading=False, timeoutSeconds=5)
        for number in range(30):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 50_000))
        for _ in range(14):
            await advance(mock_clock, 1)
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_lagging{type="configmaps"} 0' in text
        # A truncated event has ended in a reset.
        neighbour = await client.watch(PATH, labelSelector="none")
        for watch in (stalled, beginning):
            if not watch.over:
                await client.resume(watch)
            await watch.wait_over()
            assert len(watch.events) < 5
        assert not neighbour.over


async def test_watch_beyond_the_history_gets_410() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        api.clock.advance(400)
        await api.create("configmaps", config_map("b"))
        async with connection(api) as client:
            watch = await client.watch(PATH, resourceVersion=1)
            [event] = await watch.end()
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_stopping_server_ends_the_streams() -> None:
    async with served() as api, connection(api) as client:
        watches = [await client.watch(PATH, allowWatchBookmarks="true") for _ in range(10)]
        await api.create("configmaps", config_map("a"))
        await api.restart()
        for watch in watches:
            event, mark = await watch.end()
            assert (event["type"], mark["type"]) == ("ADDED", "BOOKMARK")
            assert version(mark) == version(event)
