"""Clients that disconnect, by close or reset, idle or in a burst, affect no other watch, and their memory is freed."""

from __future__ import annotations

import socket
import struct

import pytest
import trio

from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.watching import (
    connect,
    ports,
    request,
    stalling_plain_transports,
    stalling_transports,
    transports,
    type_and_name,
    watching,
)
from tests.settling import settled

RESET = struct.pack("ii", 1, 0)


async def watchers(api: Api) -> dict[str, float]:
    found = {}
    for line in (await api.ask("GET", "/metrics")).text.splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith("rewound_watch") and 'type="configmaps"' in name:
            found[name.partition("{")[0]] = float(value)
    return found


async def assert_no_watchers(api: Api) -> None:
    await settled()
    left = await watchers(api)
    assert left["rewound_watchers_sweeping"] == left["rewound_watchers_lagging"] == 0
    assert left["rewound_watch_groups"] == 0


@transports
async def test_disconnect_of_idle_watch_frees_it(transport: str) -> None:
    async with served(**ports(transport)) as api:
        for _ in range(3):
            async with watching(api, api.path("configmaps"), transport):
                await settled()
        await assert_no_watchers(api)


@stalling_transports
async def test_disconnect_of_lagging_watch_frees_it(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path, at = api.path("configmaps"), await api.head()
        async with watching(api, path, transport, resourceVersion=at) as healthy:
            for turn in range(2):
                async with watching(api, path, transport, stalled=True, resourceVersion=at):
                    for number in range(12):
                        name = f"c-{turn}-{number:02}"
                        await api.create("configmaps", config_map(name, big="x" * 100_000))
            events = await healthy.take(24)
            assert len({type_and_name(event) for event in events}) == 24
        await assert_no_watchers(api)


@pytest.mark.parametrize("reset", [True, False])
async def test_many_disconnects_during_a_burst_affect_no_other_watch(reset: bool) -> None:
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        async with watching(api, path, resourceVersion=at) as healthy:
            streams = []
            for _ in range(40):
                stream = await connect(api)
                await stream.send_all(request(f"{path}?watch=1&resourceVersion={at}"))
                streams.append(stream)
            await settled()
            async with trio.open_nursery() as nursery:

                async def write() -> None:
                    for number in range(60):
                        await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 10_000))

                nursery.start_soon(write)
                for stream in streams:
                    assert isinstance(stream, trio.SocketStream)
                    if reset:
                        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    stream.socket.close()
                    await trio.lowlevel.checkpoint()
            assert len(await healthy.take(60)) == 60
        await assert_no_watchers(api)


@stalling_plain_transports
async def test_disconnect_during_initial_events_frees_the_watch(transport: str) -> None:
    async with served() as api:
        for number in range(20):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
        async with watching(api, api.path("configmaps"), transport, stalled=True):
            await settled()
        await settled()
        async with watching(api, api.path("configmaps")) as watch:
            assert len(await watch.take(20)) == 20
        await assert_no_watchers(api)


async def test_half_closed_connection_ends_the_watch() -> None:
    """A client that closes its sending side can send no further request, and its stream ends."""
    async with served() as api:
        stream = await connect(api)
        assert isinstance(stream, trio.SocketStream)
        await stream.send_all(request(f"{api.path('configmaps')}?watch=1"))
        await settled()
        await stream.send_eof()
        await assert_no_watchers(api)
        await stream.aclose()


async def send_endlessly(stream: trio.abc.Stream) -> None:
    while True:
        await stream.send_all(b"x" * 65536)
        await settled()


async def test_client_that_sends_endlessly_is_disconnected() -> None:
    async with served() as api:
        stream = await connect(api)
        await stream.send_all(request(f"{api.path('configmaps')}?watch=1"))
        await settled()
        with pytest.raises(trio.BrokenResourceError):
            await send_endlessly(stream)
        await stream.aclose()
        await assert_no_watchers(api)
