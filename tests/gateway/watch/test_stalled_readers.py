"""A client that does not read stays connected, loses nothing, uses no memory, and affects no other client."""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import AsyncExitStack

import pytest

from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.watching import (
    Watch,
    assert_ascending,
    ports,
    stalling_transports,
    type_and_name,
    watching,
)
from tests.settling import settled

BIG = "x" * 50_000
MANY = 16  # 800 kilobytes of events: far more than sockets hold


async def burst(api: Api, count: int = MANY) -> list[tuple[str, str]]:
    for number in range(count):
        await api.create("configmaps", config_map(f"c-{number:03}", big=BIG))
    return [("ADDED", f"c-{number:03}") for number in range(count)]


@stalling_transports
async def test_stalled_client_gets_every_event_in_order_when_it_reads(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path, at = api.path("configmaps"), await api.head()
        async with (
            watching(api, path, transport, stalled=True, resourceVersion=at) as stalled,
            watching(api, path, transport, resourceVersion=at) as healthy,
        ):
            expected = await burst(api)
            assert await healthy.types_and_names(MANY) == expected
            stalled.resume()  # type: ignore[attr-defined]
            events = await stalled.take(MANY)
            assert [type_and_name(event) for event in events] == expected
            assert_ascending(events)
            assert all(event["object"]["data"]["big"] == BIG for event in events)
            # It is part of the sweep again.
            await api.create("configmaps", config_map("last"))
            assert await stalled.types_and_names(1) == await healthy.types_and_names(1) == [("ADDED", "last")]


async def test_client_may_stall_repeatedly() -> None:
    async with served() as api:
        at = await api.head()
        async with watching(api, api.path("configmaps"), stalled=True, resourceVersion=at) as watch:
            expected = await burst(api, 10)
            reader = watch.reader  # type: ignore[attr-defined]
            await reader.read_head()
            while len(watch.events) < 10:
                # Single reads of a few bytes: frames are divided at many places.
                reader.buffer += await reader.stream.receive_some(10_007)
                await settled()
                take_whole_chunks(reader, watch)
            assert [type_and_name(event) for event in watch.events] == expected


def take_whole_chunks(reader: object, watch: Watch) -> None:
    buffer: bytes = reader.buffer  # type: ignore[attr-defined]
    while b"\r\n" in buffer:
        size, _, rest = buffer.partition(b"\r\n")
        length = int(size, 16)
        if len(rest) < length + 2:
            break
        watch.add(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        buffer = rest[length + 2 :]
    reader.buffer = buffer  # type: ignore[attr-defined]


@pytest.mark.parametrize("transport", ["plain", "h2"])
async def test_stalled_clients_use_little_memory(transport: str) -> None:
    """They share bytes and have one cursor each: unread events are only in the journal."""
    async with served() as api, AsyncExitStack() as stack:
        path, at = api.path("configmaps"), await api.head()
        healthy = await stack.enter_async_context(watching(api, path, resourceVersion=at))
        stalled = [
            await stack.enter_async_context(watching(api, path, transport, stalled=True, resourceVersion=at))
            for _ in range(12)
        ]
        await settled()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await burst(api, 60)
        events = await healthy.take(60)
        healthy.events.clear()
        del events
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        # Retained changes and frames (5 MiB) and the rest of a few shared frames; three megabytes each otherwise.
        assert held < 16 << 20
        assert all(not watch.over for watch in stalled)
        stalled[0].resume()  # type: ignore[attr-defined]
        stalled[11].resume()  # type: ignore[attr-defined]
        assert len(await stalled[0].take(60)) == len(await stalled[11].take(60)) == 60
