"""A stopping server ends every watch cleanly, and does not wait for clients that never read."""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio
from trio.testing import MockClock

from rewound.gateway.watch.member import CLOSE_TIMEOUT
from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.watching import (
    connect,
    ports,
    request,
    stalling_transports,
    transports,
    version,
    watching,
)
from tests.settling import seconds_to_stop, settled

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}
GOING_AWAY = bytes([0x88, 2]) + (1001).to_bytes(2)  # a close frame


@transports
async def test_stopping_server_ends_every_watch_cleanly(transport: str) -> None:
    async with served(**ports(transport)) as api, AsyncExitStack() as stack:
        path, at = api.path("configmaps"), await api.head()
        watches = [
            await stack.enter_async_context(watching(api, path, transport, **query))
            for query in (
                {},
                {"resourceVersion": at},
                {"resourceVersion": at, "labelSelector": "none"},
                {"resourceVersion": 999999},
            )
        ]
        await api.create("configmaps", config_map("a"))
        await watches[0].take(1)
        await api.close_idle()
        api.stop.set()
        for watch in watches:
            assert len(await watch.end()) <= 1
            assert watch.close_code in (None, 1001)
        await api.stopped.wait()
        await api.start()


async def test_last_bookmark_of_a_stopping_server_can_be_resumed() -> None:
    async with served() as api:
        path = api.path("configmaps")
        async with watching(api, path, allowWatchBookmarks="true") as watch:
            await api.create("leases", {"metadata": {"name": "l"}})
            head = int(await api.head())
            await api.restart()
            [mark] = await watch.end()
            assert (mark["type"], version(mark)) == ("BOOKMARK", head)


async def test_stopping_server_ends_hundreds_of_watches() -> None:
    async with served() as api:
        streams = []
        for number in range(300):
            stream = await connect(api)
            await stream.send_all(
                request(f"{api.path('configmaps')}?watch=1&labelSelector=app%3D{number % 7}")
            )
            streams.append(stream)
        await settled()
        await api.restart()
        for stream in streams:
            data = b""
            while part := await stream.receive_some(65536):
                data += part
            assert data.endswith(b"\r\n\r\n0\r\n\r\n")
            await stream.aclose()


async def test_server_stops_during_a_burst() -> None:
    async with served() as api, AsyncExitStack() as stack:
        path, at = api.path("configmaps"), await api.head()
        watches = [
            await stack.enter_async_context(watching(api, path, resourceVersion=at)) for _ in range(20)
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_until_refused, api)
            await watches[0].take(30)
            api.stop.set()
        for watch in watches:
            events = await watch.end()
            names = [event["object"]["metadata"]["name"] for event in events]
            skipped = 30 if watch is watches[0] else 0
            assert names == [f"c-{number:04}" for number in range(skipped, skipped + len(names))]
        await api.stopped.wait()
        await api.start()


async def write_until_refused(api: Api) -> None:
    try:
        for number in range(10_000):
            await api.create("configmaps", config_map(f"c-{number:04}", big="x" * 5_000))
    except Exception:
        await api.close_idle()


@stalling_transports
async def test_clients_that_never_read_are_disconnected_within_seconds(
    transport: str, mock_clock: MockClock
) -> None:
    async with served(**ports(transport)) as api:
        path, at = api.path("configmaps"), await api.head()
        async with (
            watching(api, path, transport, stalled=True, resourceVersion=at),
            watching(api, path, transport, resourceVersion=at) as healthy,
        ):
            for number in range(12):
                await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
            await healthy.take(12)
            async with watching(api, path, transport, stalled=True):
                await settled()
                await api.close_idle()
                assert CLOSE_TIMEOUT <= await seconds_to_stop(api, mock_clock) < 5
                assert await healthy.end() == []
        await api.start()


async def test_client_that_keeps_its_connection_after_a_watch_delays_the_stop_by_seconds(
    mock_clock: MockClock,
) -> None:
    async with served() as api, watching(api, api.path("configmaps"), resourceVersion=await api.head()):
        await api.close_idle()
        assert await seconds_to_stop(api, mock_clock) < 5


async def test_websocket_client_that_sends_no_close_frame_delays_the_stop_by_seconds(
    mock_clock: MockClock,
) -> None:
    async with served() as api, await connect(api) as stream:
        await stream.send_all(request(f"{api.path('configmaps')}?watch=1", headers=UPGRADE))
        assert b" 101 " in await stream.receive_some(65536)
        await api.close_idle()
        assert await seconds_to_stop(api, mock_clock) < 5
        assert (await stream.receive_some(65536)).endswith(GOING_AWAY)
