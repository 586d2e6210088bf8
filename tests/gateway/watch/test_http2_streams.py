"""Watches as HTTP/2 streams: many on one connection, each at its own pace."""

from __future__ import annotations

from trio.testing import MockClock

from tests.gateway.api import config_map, labelled, served
from tests.gateway.idle import advance, until_idle
from tests.gateway.watch.http2_watches import connection
from tests.gateway.watch.watching import assert_ascending, type_and_name, version

PATH = "/api/v1/namespaces/default/configmaps"


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


async def test_stalled_stream_does_not_delay_other_streams() -> None:
    big = "x" * 20_000
    async with served() as api, connection(api) as client:
        at = await api.head()
        stalled = await client.watch(PATH, reading=False, resourceVersion=at)
        healthy = await client.watch(PATH, resourceVersion=at)
        for number in range(60):
            await api.create("configmaps", config_map(f"c-{number:02}", big=big))
        assert len(await healthy.take(60)) == 60
        assert len(stalled.events) < 5
        await client.resume(stalled)
        events = await stalled.take(60)
        assert [type_and_name(event) for event in events] == [("ADDED", f"c-{n:02}") for n in range(60)]
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
        await until_idle()
        await api.create("configmaps", config_map("a"))
        assert await stays.types_and_names(1) == [("ADDED", "a")]
        assert gone.events == []
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_sweeping{type="configmaps"} 1.0' in text


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
        assert 'rewound_watchers_lagging{type="configmaps"} 0.0' in text
        # What Hypercorn has buffered still arrives whole; a truncated event ends in a reset.
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
