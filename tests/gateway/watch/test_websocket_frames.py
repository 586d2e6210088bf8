"""Frames that clients send on a WebSocket are read the same, however they are split."""

from __future__ import annotations

from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from rewound.gateway.connections.websocket.connection import WebSocket
from tests.gateway.watch.websocket_client import CLOSE, PING, PONG, masked

Sent = tuple[bytes, list[bytes]]  # a client's frame, and the payloads of the pongs to it

pings: st.SearchStrategy[Sent] = st.builds(
    lambda payload: (masked(PING, payload), [payload]), st.binary(max_size=125)
)
pongs: st.SearchStrategy[Sent] = st.builds(
    lambda payload: (masked(PONG, payload), []), st.binary(max_size=125)
)
messages: st.SearchStrategy[Sent] = st.builds(
    lambda payload, mask: (masked(2, payload, mask=mask), []),
    st.binary(max_size=200),
    st.binary(min_size=4, max_size=4),
)
LARGE: Sent = (masked(2, b"x" * 70_000), [])


class MemoryTransport:
    """A pipe that accepts everything."""

    def __init__(self) -> None:
        self.sent = b""

    def transmit(self, data: bytes) -> int:
        self.sent += data
        return len(data)


def replies(*pieces: bytes) -> bytes:
    """The frames that a watch sends to a client that sends these bytes."""
    transport: Any = MemoryTransport()

    async def receive() -> None:
        websocket = WebSocket(transport, b"")
        for piece in pieces:
            websocket._process(piece)

    trio.run(receive)
    sent: bytes = transport.sent
    return sent


def pong(payload: bytes) -> bytes:
    return bytes((0x80 | PONG, len(payload))) + payload


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(
    st.lists(st.one_of(pings, pongs, messages, st.just(LARGE)), max_size=8),
    st.lists(st.integers(1, 60), max_size=40),
)
def test_each_ping_gets_a_pong_in_whatever_pieces_it_arrives(frames: list[Sent], sizes: list[int]) -> None:
    data = b"".join(sent for sent, _ in frames)
    expected = b"".join(pong(payload) for _, payloads in frames for payload in payloads)
    assert replies(*cut(data, sizes)) == expected


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6), st.data())
def test_pings_between_fragments_of_a_message_get_pongs(parts: list[bytes], data: st.DataObject) -> None:
    sent, expected = b"", b""
    for place, part in enumerate(parts):
        sent += masked(0 if place else 2, part, fin=place == len(parts) - 1)
        if data.draw(st.booleans()):
            sent += masked(PING, b"%d" % place)
            expected += pong(b"%d" % place)
    assert replies(sent, masked(2, b"another")) == expected


@given(st.binary(max_size=300))
def test_arbitrary_bytes_get_pongs_or_a_close_frame(data: bytes) -> None:
    sent = replies(*cut(data, [7] * (len(data) // 7)))
    while sent:
        opcode, size = sent[0], sent[1]
        assert opcode in (0x80 | PONG, 0x80 | CLOSE)
        assert len(sent) >= 2 + size
        sent = sent[2 + size :]


def test_close_frame_names_the_violation_within_its_size() -> None:
    sent = replies(b"\x81\x05hello")
    assert sent[:4] == bytes((0x80 | CLOSE, len(sent) - 2)) + (1002).to_bytes(2, "big")
    assert len(sent) <= 127
