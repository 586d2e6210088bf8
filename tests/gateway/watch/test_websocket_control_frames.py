"""Pings, closes and violations on a WebSocket; whatever a client sends, no event is truncated."""

from __future__ import annotations

import struct

import pytest
from trio.testing import MockClock

from rewound.gateway.connections.websocket.connection import PING_AFTER, PONG_TIMEOUT
from tests.gateway.api import config_map, served
from tests.gateway.watch.websocket_client import CLOSE, PING, PONG, TEXT, Frame, masked, websocket_client
from tests.settling import advance, settled

PATH = "/api/v1/namespaces/default/configmaps"
WATCH = f"{PATH}?watch=1"


async def test_pong_has_the_payload_of_the_ping() -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        for payload in (b"", b"hello", b"x" * 125):
            await raw.send(masked(PING, payload))
            assert await raw.frame() == Frame(PONG, payload)


async def test_ping_may_arrive_in_pieces() -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        for byte in masked(PING, b"hello"):
            await raw.send(bytes((byte,)))
            await settled()
        assert await raw.frame() == Frame(PONG, b"hello")


async def test_messages_are_ignored() -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        await raw.send(
            masked(TEXT, b"x" * 100_000),
            masked(2, b"\xff" * 70_000, fin=False),
            masked(PING, b"between"),
            masked(0, b"", fin=False),
            masked(0, b"end"),
            masked(PONG, b"unasked"),
        )
        assert await raw.frame() == Frame(PONG, b"between")
        await api.create("configmaps", config_map("a"))
        assert (await raw.frame()).event["type"] == "ADDED"


@pytest.mark.parametrize("payload", [b"", b"\x03\xe8", b"\x03\xe9bye", b"\x0f\xa0mine"])
async def test_close_frame_is_echoed_with_its_code(payload: bytes) -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        await raw.send(masked(CLOSE, payload))
        assert await raw.frame() == Frame(CLOSE, payload[:2])
        assert await raw.ended()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\x05hello", 1002),  # no mask
        (b"\xc1" + masked(TEXT)[1:], 1002),  # a reserved bit
        (masked(3), 1002),
        (masked(11), 1002),
        (masked(PING, fin=False), 1002),
        (bytes((0x89, 0x80 | 126)) + struct.pack("!H", 126) + b"\0" * 130, 1002),
        (bytes((0x82, 0x80 | 126)) + struct.pack("!H", 125) + b"\0" * 129, 1002),
        (bytes((0x82, 0x80 | 127)) + struct.pack("!Q", 65535) + b"\0" * 4, 1002),
        (bytes((0x82, 0x80 | 127)) + struct.pack("!Q", 1 << 63) + b"\0" * 4, 1002),
        (masked(0, b"no beginning"), 1002),
        (masked(TEXT, b"a", fin=False) + masked(TEXT, b"b"), 1002),
        (masked(CLOSE, b"\x03"), 1002),
        (masked(CLOSE, struct.pack("!H", 1005)), 1002),
        (masked(CLOSE, struct.pack("!H", 999)), 1002),
        (masked(CLOSE, struct.pack("!H", 5000)), 1002),
        (masked(CLOSE, b"\x03\xe8\xff\xfe"), 1007),
        (masked(TEXT, b"\xff\xfe"), 1007),
    ],
)
async def test_violations_close_the_connection(sent: bytes, code: int) -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        await raw.send(sent)
        assert (await raw.frame()).code == code
        assert await raw.ended()
        await api.create("configmaps", config_map("a"))


async def test_idle_client_is_pinged_and_stays_if_it_sends_pong(mock_clock: MockClock) -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        for _ in range(5):
            await advance(mock_clock, PING_AFTER + 1)
            assert await raw.frame() == Frame(PING, b"")
            await raw.send(masked(PONG))
            await advance(mock_clock, PONG_TIMEOUT - 2)
        await api.create("configmaps", config_map("a"))
        assert (await raw.frame()).event["type"] == "ADDED"


async def test_any_frame_counts_as_pong(mock_clock: MockClock) -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        for _ in range(10):
            await advance(mock_clock, PING_AFTER - 2)
            await raw.send(masked(TEXT, b"I am here"))
        await api.create("configmaps", config_map("a"))
        assert (await raw.frame()).event["type"] == "ADDED"


async def test_client_without_pong_is_disconnected(mock_clock: MockClock) -> None:
    async with served() as api, websocket_client(api, WATCH) as raw:
        await advance(mock_clock, PING_AFTER + 1)
        assert (await raw.frame()).opcode == PING
        await advance(mock_clock, PONG_TIMEOUT + 2)
        assert await raw.ended()


async def test_slow_client_without_pong_stays(mock_clock: MockClock) -> None:
    """It has unread bytes before the ping, so it could not have sent a pong."""
    async with served() as api, websocket_client(api, WATCH, small=True) as raw:
        for number in range(12):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
        for _ in range(10):
            await advance(mock_clock, PING_AFTER + 1)
        events = [frame for frame in await raw.frames(12) if frame.opcode == TEXT]
        events += [await raw.frame() for _ in range(12 - len(events))]
        assert [frame.event["object"]["metadata"]["name"] for frame in events] == [
            f"c-{number:02}" for number in range(12)
        ]


async def test_pong_to_a_slow_client_is_sent_between_events() -> None:
    async with served() as api, websocket_client(api, WATCH, small=True) as raw:
        for number in range(12):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
            await raw.send(masked(PING, str(number).encode()))
        frames = []
        while sum(frame.opcode == TEXT for frame in frames) < 12 or Frame(PONG, b"11") not in frames:
            frames.append(await raw.frame())
        names = [frame.event["object"]["metadata"]["name"] for frame in frames if frame.opcode == TEXT]
        assert names == [f"c-{number:02}" for number in range(12)]
        pongs = [int(frame.payload) for frame in frames if frame.opcode == PONG]
        assert pongs == sorted(set(pongs))


async def test_close_frame_to_a_slow_client_follows_the_current_event() -> None:
    async with served() as api, websocket_client(api, WATCH, small=True) as raw:
        for number in range(12):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
        await raw.send(masked(CLOSE, b"\x03\xe8"))
        await settled()
        frames = [await raw.frame()]
        while frames[-1].opcode != CLOSE:
            frames.append(await raw.frame())
        assert frames[-1].code == 1000
        assert 1 < len(frames) < 13
        assert await raw.ended()


async def test_client_that_closes_and_never_reads_is_disconnected(mock_clock: MockClock) -> None:
    async with served() as api, websocket_client(api, WATCH, small=True) as raw:
        for number in range(12):
            await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
        await raw.send(masked(CLOSE, b"\x03\xe8"))
        for _ in range(8):
            await advance(mock_clock, 1)
        text = (await api.ask("GET", "/metrics")).text
        assert 'rewound_watchers_lagging{type="configmaps"} 0' in text
