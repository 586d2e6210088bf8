"""A connection with 250 watches that read nothing: it holds a bounded amount, delays no write, and loses no event."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest
import trio
from trio.testing import MockClock

from tests.gateway.api import ADMIN, Api, config_map, served
from tests.gateway.connections.http2.attacks import counted_calls, outputs, shrink, small_buffers
from tests.gateway.connections.http2.raw_client import (
    DATA,
    RawClient,
    Setting,
    headers,
    rst_stream,
    settings,
    window_update,
)
from tests.settling import advance, settled

__all__ = ["small_buffers"]

WATCHES = 250
EVENTS = 4
BIG = "x" * 2_000
PATH = "/api/v1/namespaces/default/configmaps"
NO_WINDOW = {Setting.INITIAL_WINDOW_SIZE: 0}
ALL_WINDOWS = settings({Setting.INITIAL_WINDOW_SIZE: 1 << 30}) + window_update(0, 1 << 30)


@asynccontextmanager
async def watching(
    api: Api, values: dict[Setting, int] | None = None, *, small: bool = False
) -> AsyncIterator[RawClient]:
    """A client with 250 watches from the newest version."""
    assert api.addresses.insecure is not None
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    client = RawClient(stream)
    try:
        await client.open(values)
        if small:
            shrink(client)
        path = f"{PATH}?watch=1&resourceVersion={await api.head()}"
        block = client.block(path, fields=[("authorization", f"Bearer {ADMIN}")])
        await client.send(headers(client.new_stream(), block))
        again = client.block(path, fields=[("authorization", f"Bearer {ADMIN}")])  # all of it in the table
        await client.send(*(headers(client.new_stream(), again) for _ in range(WATCHES - 1)))
        for number in range(1, 2 * WATCHES, 2):
            assert dict((await client.head(number)).fields)[b":status"] == b"200"
        await settled()
        yield client
    finally:
        await trio.aclose_forcefully(stream)


async def write(api: Api, first: int = 0, count: int = EVENTS) -> None:
    for number in range(first, first + count):
        await api.create("configmaps", config_map(f"c-{number}", big=BIG))
    await settled()


async def received(client: RawClient, streams: int = WATCHES, count: int = EVENTS) -> None:
    """Every watch gets every event once, in order."""
    texts: dict[int, bytearray] = {}
    lines: Counter[int] = Counter()
    while len(texts) < streams or min(lines.values()) < count:
        for frame in client.frames:
            if frame.kind == DATA:
                texts.setdefault(frame.stream, bytearray()).extend(frame.payload)
                lines[frame.stream] += frame.payload.count(b"\n")
        client.frames.clear()
        if len(texts) < streams or min(lines.values()) < count:
            assert await client._receive()
    (text,) = {bytes(text) for text in texts.values()}
    names = [orjson.loads(line)["object"]["metadata"]["name"] for line in text.splitlines()]
    assert names == [f"c-{number}" for number in range(count)]


def held() -> int:
    """Bytes that all connections have in their queues."""
    return sum(sum(map(len, output.queue)) for output in outputs())


async def test_watches_without_windows_hold_nothing_and_get_everything() -> None:
    async with served() as api, watching(api, NO_WINDOW) as client:
        await write(api)
        assert held() == 0
        await client.send(ALL_WINDOWS)
        await received(client)


async def test_watches_without_a_window_of_the_connection_hold_nothing_and_get_everything() -> None:
    async with served() as api, watching(api) as client:
        await write(api)
        assert held() == 0
        await client.send(ALL_WINDOWS)
        await received(client)


async def test_watches_on_a_full_socket_hold_little_and_get_everything(small_buffers: None) -> None:
    async with served() as api, watching(api, small=True) as client:
        await client.send(ALL_WINDOWS)
        await client.settings_ack()
        await write(api)
        assert any(output.blocked for output in outputs())
        assert held() < 300_000
        await received(client)


async def test_windows_that_swing_lose_no_event() -> None:
    async with served() as api, watching(api, NO_WINDOW) as client:
        await client.send(window_update(0, 1 << 30))
        await write(api)
        for size in (1, 0, 700, 0, 3000, 10, 5000, 0):
            await client.send(settings({Setting.INITIAL_WINDOW_SIZE: size}))
            await settled()
        assert held() == 0
        await client.send(ALL_WINDOWS)
        await received(client)


@pytest.mark.parametrize("values", [NO_WINDOW, {}], ids=["streams", "connection"])
async def test_writes_do_no_work_for_stalled_watches(values: dict[Setting, int]) -> None:
    async with served() as api, watching(api, values) as client:
        await write(api, 0, 35)  # more than the window of the connection, and all watches are behind
        assert held() == 0
        with counted_calls() as calls:
            await write(api, 35, 1)
        assert sum(calls.values()) < WATCHES
        await client.alive()


async def test_reset_of_all_stalled_watches_releases_them(mock_clock: MockClock) -> None:
    async with served() as api, watching(api) as client:
        await write(api)
        (output,) = [output for output in outputs() if output.waiting]
        await advance(mock_clock, 3)  # earlier resets would be an attack
        await client.send(*(rst_stream(number) for number in range(1, 2 * WATCHES, 2)))
        await client.alive()
        await settled()
        assert (len(output.waiting), output.watches) == (0, 0)
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_lagging{type="configmaps"} 0' in text
