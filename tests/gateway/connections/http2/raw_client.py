"""A client of HTTP/2 that builds and parses frames by struct, and so can also send what no HTTP/2 library would.

It works on any trio stream and keeps no state machine: of the protocol it does the opening (preface, SETTINGS and its
acknowledgement) and decodes header blocks, because these depend on each other. It grants no windows by itself.

Every frame that arrives goes into `frames`. Methods that wait for one take it out, so that the next call returns the
next one; they end with an AssertionError that lists the frames at hand when the server closes first, or, as the last
resort, when it sends nothing for `PATIENCE` seconds (without a bound under a virtual clock, which may jump).

    async with served() as host, raw_client(host) as client:
        stream = await client.request("/path", method="PUT", body=b"content")
        assert (await client.response(stream)).status == 200
        await client.send(frame(PING, b"short"))
        assert await client.goaway() == (ErrorCode.FRAME_SIZE_ERROR, stream)
        await client.closed()
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import NamedTuple

import trio
from hpack import Decoder, Encoder
from trio.testing import MockClock

from tests.gateway.connections.http_server import Host, authority

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATIENCE = 30

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
KINDS = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS"),
    *("PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"),
)

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Setting(IntEnum):
    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6
    ENABLE_CONNECT_PROTOCOL = 8


Field = tuple[bytes, bytes]
Fields = Iterable[tuple[str | bytes, str | bytes]]


def frame(
    kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0, length: int | None = None
) -> bytes:
    """Any frame; `length` overrides the true one, and a `stream` of 2**31 or more sets the reserved bit."""
    announced = len(payload) if length is None else length
    return struct.pack(">BHBBI", announced >> 16, announced & 0xFFFF, kind, flags, stream) + payload


def data(stream: int, body: bytes = b"", *, end: bool = False, pad: int | None = None) -> bytes:
    flags = (END_STREAM if end else 0) | (0 if pad is None else PADDED)
    return frame(DATA, _padded(body, pad), flags=flags, stream=stream)


def headers(
    stream: int,
    block: bytes,
    *,
    end: bool = True,
    done: bool = True,
    pad: int | None = None,
    priority: bytes = b"",
) -> bytes:
    """HEADERS; `end` ends the stream, `done` the header block, `priority` is the five bytes of priority fields."""
    flags = (END_STREAM if end else 0) | (END_HEADERS if done else 0) | (0 if pad is None else PADDED)
    flags |= PRIORITIZED if priority else 0
    return frame(HEADERS, _padded(priority + block, pad), flags=flags, stream=stream)


def _padded(payload: bytes, pad: int | None) -> bytes:
    return payload if pad is None else bytes([pad]) + payload + bytes(pad)


def continuation(stream: int, block: bytes, *, done: bool = True) -> bytes:
    return frame(CONTINUATION, block, flags=END_HEADERS if done else 0, stream=stream)


def settings(values: dict[int, int] | Iterable[tuple[int, int]] = (), *, ack: bool = False) -> bytes:
    pairs = values.items() if isinstance(values, dict) else values
    payload = b"".join(struct.pack(">HI", *pair) for pair in pairs)
    return frame(SETTINGS, payload, flags=ACK if ack else 0)


def ping(payload: bytes = b"pingpong", *, ack: bool = False) -> bytes:
    return frame(PING, payload, flags=ACK if ack else 0)


def goaway(last: int = 0, code: int = 0, debug: bytes = b"") -> bytes:
    return frame(GOAWAY, struct.pack(">II", last, code) + debug)


def rst_stream(stream: int, code: int = ErrorCode.CANCEL) -> bytes:
    return frame(RST_STREAM, struct.pack(">I", code), stream=stream)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, struct.pack(">I", increment), stream=stream)


def priority(stream: int, depends_on: int = 0, *, weight: int = 16, exclusive: bool = False) -> bytes:
    return frame(PRIORITY, priority_fields(depends_on, weight=weight, exclusive=exclusive), stream=stream)


def priority_fields(depends_on: int = 0, *, weight: int = 16, exclusive: bool = False) -> bytes:
    return struct.pack(">IB", depends_on | (exclusive << 31), weight - 1)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it arrived; a HEADERS frame that ends its block has the decoded fields."""

    kind: int
    flags: int
    stream: int
    payload: bytes
    fields: tuple[Field, ...] = ()

    @property
    def ends_stream(self) -> bool:
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)

    @property
    def ack(self) -> bool:
        return self.kind in (SETTINGS, PING) and bool(self.flags & ACK)

    @property
    def content(self) -> bytes:
        """The payload of DATA without padding."""
        if self.flags & PADDED:
            return self.payload[1 : len(self.payload) - self.payload[0]]
        return self.payload

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(int.from_bytes(self.payload[4:8] if self.kind == GOAWAY else self.payload))

    @property
    def settings(self) -> dict[int, int]:
        return dict(struct.iter_unpack(">HI", self.payload))

    def __str__(self) -> str:
        kind = KINDS[self.kind] if self.kind < len(KINDS) else f"type {self.kind}"
        detail = f" {self.code.name}" if self.kind in (RST_STREAM, GOAWAY) else ""
        return f"{kind}{detail} on {self.stream}, flags {self.flags:#x}, {len(self.payload)} bytes"


class Response(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class RawClient:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.frames: list[Frame] = []  # arrived, and not taken by a method yet
        self.server_settings: dict[int, int] = {}
        self.ended = False  # the server has closed
        self.encoder = Encoder()
        self.decoder = Decoder()
        self._next_stream = 1
        self._patience = inf if isinstance(trio.lowlevel.current_clock(), MockClock) else PATIENCE
        self._buffer = bytearray()
        self._partial: Frame | None = None  # HEADERS whose block goes on in CONTINUATION

    async def open(self, values: dict[int, int] | None = None) -> None:
        """Send preface and SETTINGS, acknowledge the server's, and wait for its acknowledgement of ours."""
        await self.send(PREFACE, settings(values or {}), settings(ack=True))
        first = await self.take(lambda frame: frame.kind == SETTINGS and not frame.ack)
        self.server_settings = first.settings
        await self.settings_ack()

    async def send(self, *parts: bytes) -> None:
        """Send any bytes in one write; that the server has closed shows when reading."""
        try:
            await self.stream.send_all(b"".join(parts))
        except trio.BrokenResourceError:
            pass

    def block(
        self,
        path: str | bytes = "/",
        *,
        method: str | bytes = "GET",
        fields: Fields = (),
        huffman: bool = True,
    ) -> bytes:
        """The header block of a request, with these further fields."""
        pseudo = ((":method", method), (":scheme", "http"), (":authority", "test"), (":path", path))
        return self.encode((*pseudo, *fields), huffman=huffman)

    def encode(self, fields: Fields, *, huffman: bool = True) -> bytes:
        return self.encoder.encode(list(fields), huffman=huffman)

    def new_stream(self) -> int:
        number = self._next_stream
        self._next_stream += 2
        return number

    async def request(
        self,
        path: str | bytes = "/",
        *,
        method: str | bytes = "GET",
        fields: Fields = (),
        body: bytes | None = None,
        end: bool = True,
        stream: int | None = None,
    ) -> int:
        """Send a request in one write, whatever the windows are, and return its stream; `end` ends the stream."""
        number = self.new_stream() if stream is None else stream
        parts = [headers(number, self.block(path, method=method, fields=fields), end=end and body is None)]
        if body is not None:
            pieces = [body[at : at + 16384] for at in range(0, len(body), 16384)] or [b""]
            parts += [data(number, piece) for piece in pieces[:-1]]
            parts.append(data(number, pieces[-1], end=end))
        await self.send(*parts)
        return number

    async def response(self, stream: int) -> Response:
        """The whole response on this stream, after any interim ones."""
        head = await self.head(stream)
        while int(dict(head.fields)[b":status"]) < 200:
            head = await self.head(stream)
        body = bytearray()
        last = head
        while not last.ends_stream:
            last = await self._next_on(stream)
            body += last.content if last.kind == DATA else b""
        fields = dict(head.fields)
        return Response(int(fields.pop(b":status")), fields, bytes(body))

    async def head(self, stream: int) -> Frame:
        """The next HEADERS on this stream."""
        head = await self._next_on(stream)
        assert head.kind == HEADERS, f"no HEADERS but {head}"
        return head

    async def data(self, stream: int) -> Frame:
        """The next DATA frame on this stream."""
        part = await self._next_on(stream)
        assert part.kind == DATA, f"no DATA but {part}"
        return part

    async def _next_on(self, stream: int) -> Frame:
        taken = await self.take(
            lambda frame: frame.stream == stream and frame.kind in (HEADERS, DATA, RST_STREAM)
        )
        assert taken.kind != RST_STREAM, f"the server reset the stream: {taken}"
        return taken

    async def goaway(self) -> tuple[ErrorCode, int]:
        """The error code of the next GOAWAY, and the last stream that the server handles."""
        taken = await self.take(lambda frame: frame.kind == GOAWAY)
        return taken.code, int.from_bytes(taken.payload[:4])

    async def reset_of(self, stream: int) -> ErrorCode:
        """The error code of the server's RST_STREAM on this stream."""
        return (await self.take(lambda frame: frame.kind == RST_STREAM and frame.stream == stream)).code

    async def connection_error(self) -> ErrorCode:
        """The error code of GOAWAY, after which the server must close."""
        code, _ = await self.goaway()
        await self.closed()
        return code

    async def error_on(self, stream: int) -> ErrorCode:
        """The error code of RST_STREAM on this stream or of GOAWAY, where the RFC permits either."""
        either = await self.take(
            lambda frame: frame.kind == GOAWAY or (frame.kind == RST_STREAM and frame.stream == stream)
        )
        return either.code

    async def settings_ack(self) -> None:
        await self.take(lambda frame: frame.kind == SETTINGS and frame.ack)

    async def alive(self, payload: bytes = b"alive???") -> list[Frame]:
        """Exchange a PING and return the frames at hand: what the server sent in response to earlier frames.

        Responses of handlers that had to wait may come later.
        """
        await self.send(ping(payload))
        await self.take(lambda frame: frame.kind == PING and frame.ack and frame.payload == payload)
        return self.frames

    async def closed(self) -> None:
        """Read to the end of the connection; the frames before it stay in `frames`."""
        while await self._receive():
            pass

    async def take(self, matches: Callable[[Frame], bool]) -> Frame:
        """Take out the first frame that matches, arrived already or later."""
        seen = 0
        while True:
            for index in range(seen, len(self.frames)):
                if matches(self.frames[index]):
                    return self.frames.pop(index)
            seen = len(self.frames)
            assert await self._receive(), f"the server closed; there were {self._listing()}"

    async def _receive(self) -> bool:
        """Read and parse what the server sends next; False when it has closed."""
        received = b""
        if not self.ended:
            with trio.move_on_after(self._patience) as scope:
                try:
                    received = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:
                    pass
            assert not scope.cancelled_caught, f"the server sends nothing; there were {self._listing()}"
        self.ended = not received
        self._buffer += received
        while len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3])
            if len(self._buffer) < 9 + length:
                break
            self._parse(bytes(self._buffer[: 9 + length]))
            del self._buffer[: 9 + length]
        return not self.ended

    def _parse(self, raw: bytes) -> None:
        kind, flags, number = struct.unpack_from(">BBI", raw, 3)
        arrived = Frame(kind, flags, number, raw[9:])
        if kind == CONTINUATION:
            assert self._partial is not None and self._partial.stream == number, f"unexpected {arrived}"
            first, self._partial = self._partial, None
            arrived = Frame(HEADERS, first.flags | flags, number, first.payload + raw[9:])
        assert self._partial is None, f"{arrived} amid a header block"
        if arrived.kind == HEADERS:
            if not arrived.flags & END_HEADERS:
                self._partial = arrived
                return
            fields = tuple(self.decoder.decode(arrived.payload, raw=True))
            arrived = Frame(HEADERS, arrived.flags, number, arrived.payload, fields)
        self.frames.append(arrived)

    def _listing(self) -> str:
        return "; ".join(str(frame) for frame in self.frames) or "no frames"


@asynccontextmanager
async def raw_client(
    host: Host,
    *,
    tls: bool = False,
    handshake: bool = True,
    values: dict[int, int] | None = None,
) -> AsyncIterator[RawClient]:
    """Connect by prior knowledge, or with TLS and ALPN; `values` are the client's SETTINGS."""
    stream: trio.abc.Stream = await trio.open_tcp_stream(*(host.secure if tls else host.insecure))
    if tls:
        context = authority().client_context(alpn=("h2",))
        stream = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
    client = RawClient(stream)
    try:
        if handshake:
            await client.open(values)
        yield client
    finally:
        await trio.aclose_forcefully(stream)
