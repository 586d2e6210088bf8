"""The HTTP/2 connection of the etcd client, with a peer that a test controls frame by frame."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import hpack
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.etcd.api import EtcdRefused
from rewound.cluster.etcd.connection import PING_SECONDS, STREAM_WINDOW, Connection, header_block
from rewound.cluster.etcd.replies import Lost, NotDone
from tests.cases import cases

DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
HEAD = header_block("/etcdserverpb.KV/Range", "etcd:2379", False, {"token": "t" * 300})
OK = [(":status", "200"), ("content-type", "application/grpc")]
DONE = [("grpc-status", "0"), ("grpc-message", "")]

Frame = tuple[int, int, int, bytes]  # type, flags, stream, body


class Peer:
    """The `ByteStream` of a connection, and its other side."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[bytes](inf)
        self._sent = b""
        self._encoder = hpack.Encoder()
        self.closed = False

    async def send(self, data: bytes) -> None:
        self._sent += data

    async def receive(self) -> bytes:
        return await self._receive.receive()

    def readable(self) -> bool:
        return False

    def expire(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def write(self, *frames: Frame) -> None:
        for kind, flags, number, body in frames:
            self._send.send_nowait(len(body).to_bytes(3) + bytes((kind, flags)) + number.to_bytes(4) + body)

    def write_bytes(self, data: bytes) -> None:
        self._send.send_nowait(data)

    def head(self, fields: list[tuple[str, str]]) -> bytes:
        return self._encoder.encode(fields)

    async def written(self) -> list[Frame]:
        """The frames that the client has sent since the last call, without the preface."""
        await trio.testing.wait_all_tasks_blocked()
        data, self._sent, found = self._sent.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), b"", []
        while data:
            size = int.from_bytes(data[:3])
            found.append((data[3], data[4], int.from_bytes(data[5:9]), data[9 : 9 + size]))
            data = data[9 + size :]
        return found


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Peer, Connection]]:
    peer = Peer()
    connection = Connection(peer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        yield peer, connection
        nursery.cancel_scope.cancel()
    assert peer.closed


def message(data: bytes) -> bytes:
    return b"\0" + len(data).to_bytes(4) + data


async def test_call_sends_a_request_and_reads_its_reply(autojump_clock: MockClock) -> None:
    """The head is split and padded, the reply is in two frames, with a ping in between, which is answered later."""
    async with connected() as (peer, connection):
        exchange = connection.start(HEAD, b"question", ends=True)
        settings, window, head, data = await peer.written()
        assert (settings[0], window[0]) == (SETTINGS, WINDOW)
        fields = dict(hpack.Decoder().decode(head[3]))
        assert (fields[":path"], fields[":authority"]) == ("/etcdserverpb.KV/Range", "etcd:2379")
        assert (fields["te"], fields["token"]) == ("trailers", "t" * 300)
        assert data == (DATA, 1, 1, message(b"question"))
        block = peer.head(OK)
        peer.write(
            (SETTINGS, 0, 0, b""),
            (HEADERS, 8 | 32, 1, b"\x03" + bytes(5) + block[:2] + bytes(3)),
            (CONTINUATION, 4, 1, block[2:]),
            (DATA, 8, 1, b"\x02" + message(b"answer")[:7] + bytes(2)),
            (PING, 0, 0, b"12345678"),
            (DATA, 0, 1, message(b"answer")[7:]),
            (HEADERS, 4 | 1, 1, peer.head(DONE)),
        )
        assert await exchange.reply() == b"answer"
        assert await peer.written() == [(SETTINGS, 1, 0, b"")]
        await trio.sleep(PING_SECONDS * 1.5)
        assert await peer.written() == [(PING, 1, 0, b"12345678")]
        for number in (3, 5):  # heads that refer to the table
            again = connection.start(HEAD, b"", ends=True)
            peer.write(
                (HEADERS, 4, number, peer.head(OK)),
                (DATA, 0, number, message(b"%d" % number)),
                (HEADERS, 4 | 1, number, peer.head(DONE)),
            )
            assert await again.reply() == b"%d" % number


async def test_many_pings_get_their_replies_at_once() -> None:
    async with connected() as (peer, _):
        await peer.written()
        peer.write(*((PING, 0, 0, b"%08d" % number) for number in range(20)))
        assert await peer.written() == [(PING, 1, 0, b"%08d" % number) for number in range(17)]


@cases(
    "frames, kind, text",
    [
        ([(RESET, 0, 1, (7).to_bytes(4))], NotDone, "reset the stream"),
        ([(RESET, 0, 1, (2).to_bytes(4))], Lost, "reset the stream"),
        ([(GO_AWAY, 0, 0, bytes(8))], NotDone, "it closes the connection"),
        ([(DATA, 1, 1, message(b""))], Lost, "its reply has no status"),
        ([(CONTINUATION, 4, 1, b"")], Lost, "where none begins"),
        ([(HEADERS, 4, 1, b"\xff\xff\xff\xff\x0f")], Lost, "cannot be decoded"),
        ([(HEADERS, 5, 1, hpack.Encoder().encode([(":status", "502")]))], Lost, "status 502"),
        ([(HEADERS, 5, 1, hpack.Encoder().encode([*OK, ("grpc-status", "x")]))], Lost, "no status"),
        (
            [
                (
                    HEADERS,
                    5,
                    1,
                    hpack.Encoder().encode([*OK, ("grpc-status", "3"), ("grpc-message", "it%20is%20%C3%A9")]),
                )
            ],
            EtcdRefused,
            "etcd refused: it is é",
        ),
        ([(HEADERS, 5, 1, hpack.Encoder().encode([*OK, *DONE]))], Lost, "its reply is incomplete"),
        ([(99, 0, 0, bytes(1 << 15))], Lost, "it does not speak HTTP/2"),
    ],
)
async def test_failed_call_raises_an_error_for_its_cause(
    frames: list[Frame], kind: type[Exception], text: str
) -> None:
    async with connected() as (peer, connection):
        exchange = connection.start(HEAD, b"", ends=True)
        await peer.written()
        peer.write(*frames)
        with pytest.raises(kind, match=text):
            await exchange.reply()


async def test_end_of_the_connection() -> None:
    """A call that was not sent has not been applied; one that was sent may have been."""
    async with connected() as (peer, connection):
        sent = connection.start(HEAD, b"", ends=True)
        await peer.written()
        peer.write_bytes(b"")
        unsent = connection.start(HEAD, b"", ends=True)
        unsent.sent = False
        connection.fail("cut")
        with pytest.raises(Lost, match="cut"):
            await sent.reply()
        with pytest.raises(NotDone, match="cut"):
            await unsent.reply()
        assert not connection.usable


async def test_requests_wait_for_windows() -> None:
    """The windows of the connection and of the stream; a request that is refused meanwhile is not sent completely."""
    async with connected() as (peer, connection):
        large = connection.start(HEAD, bytes(100_000), ends=True)
        small = connection.start(HEAD, b"small", ends=True)
        assert sum(len(body) for kind, *_, body in await peer.written() if kind == DATA) == 65535
        peer.write((SETTINGS, 0, 0, struct.pack(">HI", 4, 80_000)), (WINDOW, 0, 0, (20_000).to_bytes(4)))
        sent = await peer.written()
        assert [(number, len(body)) for kind, _, number, body in sent if kind == DATA] == [
            (1, 14_465),
            (3, 10),
        ]
        peer.write((HEADERS, 5, 1, peer.head([*OK, ("grpc-status", "8"), ("grpc-message", "too large")])))
        with pytest.raises(EtcdRefused, match="too large"):
            await large.reply()
        assert (RESET, 0, 1, (8).to_bytes(4)) in await peer.written()
        peer.write((WINDOW, 0, 1, (1 << 20).to_bytes(4)))
        third = connection.start(HEAD, b"third", ends=True)
        assert [(number, flags) for kind, flags, number, _ in await peer.written() if kind == DATA] == [
            (5, 1)
        ]
        small.close()
        third.close()


async def test_unread_watch_gets_no_window() -> None:
    """So much waits for its reader; what is read, and a message that is larger than the window, open it again."""
    async with connected() as (peer, connection):
        watch = connection.start(HEAD, b"", ends=False)
        await peer.written()
        part = bytes(16_000)
        for _ in range(STREAM_WINDOW // len(message(part))):
            peer.write((DATA, 0, 1, message(part)))
        assert await peer.written() == []
        for _ in range(STREAM_WINDOW // len(message(part))):
            assert await watch.message() == part
        with trio.move_on_after(0):
            await watch.message()
        ((kind, _, number, size),) = await peer.written()
        assert (kind, number) == (WINDOW, 1)
        assert int.from_bytes(size) == STREAM_WINDOW // len(message(part)) * len(message(part))
        peer.write((DATA, 0, 1, b"\0" + (1 << 25).to_bytes(4)))
        for _ in range(200):
            peer.write((DATA, 0, 1, part))
        assert [kind for kind, *_ in await peer.written()] == [WINDOW]


async def test_caller_that_leaves_resets_its_stream() -> None:
    async with connected() as (peer, connection):
        exchange = connection.start(HEAD, b"", ends=False)
        await peer.written()
        exchange.close()
        exchange.close()
        assert await peer.written() == [(RESET, 0, 1, (8).to_bytes(4))]
        peer.write((DATA, 0, 1, message(b"late")), (HEADERS, 5, 1, peer.head(DONE)))
        assert await peer.written() == []
