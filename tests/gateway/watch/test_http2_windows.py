"""Watches over HTTP/2 send exactly what their windows allow, and continue as soon as the client opens them.

The client's library raises if a window is exceeded.
"""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.watch import changes, frames
from rewound.gateway.watch.member import CLOSE_TIMEOUT
from rewound.server.extensions import Extensions
from tests.gateway.api import Api, config_map, served
from tests.gateway.observing import Observer
from tests.gateway.watch.http2_watches import WIDE, StreamBody, StreamWatch, connection
from tests.gateway.watch.watching import type_and_name, versions
from tests.settling import advance, eventually, settled

PATH = "/api/v1/namespaces/default/configmaps"
MANY = 1 << 20


async def lagging(api: Api) -> float:
    for line in (await api.ask("GET", "/metrics")).text.splitlines():
        if line.startswith('rewound_watchers_lagging{type="configmaps"}'):
            return float(line.rpartition(" ")[2])
    return 0


async def until_received(watch: StreamWatch, size: int) -> None:
    """Wait for this many bytes, and check that no more arrive."""
    await eventually(lambda: watch.received >= size)
    await settled()
    assert watch.received == size


async def test_stream_whose_window_opens_byte_by_byte() -> None:
    async with served() as api, connection(api, window=0) as client:
        watch = await client.watch(PATH, reading=False, resourceVersion=await api.head())
        await api.create("configmaps", config_map("a"))
        await api.create("configmaps", config_map("b"))
        await until_received(watch, 0)
        for count in range(1, 40):
            await client.widen(1, watch)
            await until_received(watch, count)
        while len(watch.events) < 2:
            before = watch.received
            await client.widen(61, watch)
            await eventually(lambda before=before: watch.received > before)  # type: ignore[misc]
        assert [type_and_name(event) for event in watch.events] == [("ADDED", "a"), ("ADDED", "b")]
        # It is part of the sweep again.
        await client.widen(MANY, watch)
        await settled()
        assert await lagging(api) == 0
        await api.create("configmaps", config_map("c"))
        await eventually(lambda: len(watch.events) == 3)


async def test_initial_window_that_changes_while_a_watch_lags() -> None:
    async with served() as api, connection(api, window=100) as client:
        watch = await client.watch(PATH, reading=False, resourceVersion=await api.head())
        await api.create("configmaps", config_map("a", big="x" * 2_000))
        await until_received(watch, 100)
        await client.change_initial_window(150)
        await until_received(watch, 150)
        await client.change_initial_window(20)  # 130 bytes less than nothing
        await until_received(watch, 150)
        await client.widen(130, watch)
        await until_received(watch, 150)
        await client.widen(1, watch)
        await until_received(watch, 151)
        await client.change_initial_window(MANY)
        assert await watch.types_and_names(1) == [("ADDED", "a")]
        # A stream that starts now has the new window.
        later = await client.watch(PATH, reading=False)
        assert await later.types_and_names(1) == [("ADDED", "a")]


async def test_window_of_the_connection_that_one_stalled_stream_used_up() -> None:
    async with served() as api, connection(api, shared=65_535) as client:
        at = await api.head()
        stalled = await client.watch(PATH, reading=False, resourceVersion=at, labelSelector="!none")
        for number in range(4):
            await api.create("configmaps", config_map(f"c-{number}", big="x" * 20_000))
        await until_received(stalled, 65_535)
        healthy = [await client.watch(PATH, resourceVersion=at) for _ in range(3)]
        await settled()
        assert not any(watch.received for watch in healthy)
        # Each byte of the connection's window is used, by streams with an open window of their own.
        for total in (1, 1_000, 10_000):
            await client.widen(total - sum(watch.received for watch in healthy))
            await eventually(lambda total=total: sum(watch.received for watch in healthy) >= total)  # type: ignore[misc]
            await settled()
            assert sum(watch.received for watch in healthy) == total
        await client.widen(MANY)
        for watch in healthy:
            assert await watch.types_and_names(4) == [("ADDED", f"c-{number}") for number in range(4)]
        assert stalled.received == 65_535
        await client.resume(stalled)
        assert await stalled.types_and_names(4) == [("ADDED", f"c-{number}") for number in range(4)]


async def test_many_watches_share_a_small_window_of_the_connection() -> None:
    async with served() as api, connection(api, shared=65_535) as client:
        at = await api.head()
        filler = await client.watch(PATH, resourceVersion=at, labelSelector="!none")
        await api.create("configmaps", config_map("filler", big="x" * 80_000))
        await until_received(filler, 65_535)
        watches = [
            await client.watch(PATH, resourceVersion=at, fieldSelector="metadata.name=a") for _ in range(40)
        ]
        await api.create("configmaps", config_map("a"))
        everything = [*watches, filler]
        for _ in range(300):
            if all(watch.events for watch in everything):
                break
            before = sum(watch.received for watch in everything)
            await client.widen(777)
            await eventually(lambda before=before: sum(watch.received for watch in everything) > before)  # type: ignore[misc]
        for watch in watches:
            assert [type_and_name(event) for event in watch.events] == [("ADDED", "a")]


async def test_list_that_waits_for_the_connections_window_leaves_some_to_a_watch() -> None:
    async with served() as api:
        for number in range(10):
            await api.create("configmaps", config_map(f"c-{number}", big="x" * 60_000))
        async with connection(api, window=WIDE, shared=65_535) as client:
            watch = await client.watch(PATH, resourceVersion=await api.head())
            body = await client.request(PATH, kind=StreamBody)
            await until_received(body, 65_535)
            await api.create("configmaps", config_map("new"))
            for _ in range(4):
                before = watch.received + body.received
                await client.widen(5_000)
                await eventually(lambda before=before: watch.received + body.received == before + 5_000)  # type: ignore[misc]
            assert [type_and_name(event) for event in watch.events] == [("ADDED", "new")]
            assert body.received > 65_535 and not body.over
            await client.widen(WIDE - MANY)
            await eventually(lambda: body.over)


async def test_list_that_fills_the_socket_leaves_room_to_a_watch() -> None:
    async with served() as api:
        for number in range(12):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 200_000))
        async with connection(api, window=WIDE, reading=False) as client:
            watch = await client.request(f"{PATH}?watch=1&resourceVersion={await api.head()}")
            while not watch.status:
                await client.read_once(4096)
            body = await client.request(PATH, kind=StreamBody)
            await settled()  # the socket is full
            await api.create("configmaps", config_map("new"))
            while not watch.events:
                await client.read_once(65536)
            assert not body.over, "the whole list came before the event"
            while not body.over:
                await client.read_once(65536)
            assert len(body.body) > 2_400_000


async def test_initial_events_through_a_small_window() -> None:
    async with served() as api:
        for number in range(60):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 900))
        async with connection(api, window=1_500) as client:
            watch = await client.watch(PATH)
            await api.delete("configmaps", "c-00")
            expected = [("ADDED", f"c-{number:02}") for number in range(60)]
            assert await watch.types_and_names(61) == [*expected, ("DELETED", "c-00")]


async def test_stalled_stream_beyond_the_history_gets_410_beside_one_that_keeps_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "RETAINED_BYTES", 0)
    monkeypatch.setattr(changes, "HELD_EVENTS", 1)
    async with served() as api, connection(api) as client:
        at = await api.head()
        healthy = await client.watch(PATH, resourceVersion=at)
        stalled = await client.watch(PATH, reading=False, resourceVersion=at)
        for number in range(10):
            await api.create("configmaps", config_map(f"c-{number}", big="x" * 20_000))
        api.clock.advance(301)
        await api.create("configmaps", config_map("late"))
        await client.resume(stalled)
        *events, error = await stalled.end()
        assert 0 < len(events) < 10
        assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
        assert versions(await healthy.take(11))[: len(events)] == versions(events)
        assert not healthy.over


async def test_watch_that_stalls_in_an_event_is_reset_after_its_timeout(mock_clock: MockClock) -> None:
    """Nothing else is sent on the connection: the reset does not wait for it."""
    async with served() as api, connection(api, window=300) as client:
        at = await api.head()
        watch = await client.watch(PATH, reading=False, resourceVersion=at, timeoutSeconds=5)
        await api.create("configmaps", config_map("a", big="x" * 2_000))
        await until_received(watch, 300)
        for _ in range(int(CLOSE_TIMEOUT) + 7):
            await advance(mock_clock, 1)
        await eventually(lambda: watch.over)
        assert not watch.ended and not watch.events and watch.received == 300


async def test_watch_that_stalls_between_events_ends_cleanly(mock_clock: MockClock) -> None:
    async with served() as api, connection(api, window=0) as client:
        query = {"resourceVersion": await api.head(), "timeoutSeconds": 5}
        healthy = await client.watch(PATH, **query)
        stalled = await client.watch(PATH, reading=False, **query)
        await client.widen(MANY, healthy)
        await api.create("configmaps", config_map("a"))
        await healthy.take(1)
        await client.widen(healthy.received, stalled)
        await until_received(stalled, healthy.received)
        await api.create("configmaps", config_map("b"))
        await healthy.take(1)
        for _ in range(6):
            await advance(mock_clock, 1)
        await eventually(lambda: stalled.over)
        assert [type_and_name(event) for event in await stalled.end()] == [("ADDED", "a")]


async def test_bytes_of_a_stream_reset_in_an_event_are_counted() -> None:
    observer = Observer()
    async with (
        served(extensions=Extensions(observer=observer)) as api,
        connection(api, window=1_234) as client,
    ):
        watch = await client.watch(PATH, reading=False, resourceVersion=await api.head())
        await api.create("configmaps", config_map("a", big="x" * 5_000))
        await until_received(watch, 1_234)
        await client.cancel(watch)
        await settled()
        [record] = [one for one in observer.records if one.method == "GET" and one.path == PATH]
    assert record.end == (200, 1_234, True)
