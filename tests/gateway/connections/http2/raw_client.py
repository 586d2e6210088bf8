"""A client of HTTP/2 that sends frames of `raw_frames`, and so also what no HTTP/2 library would send.

It works on any trio stream and has no state machine: it only opens the connection (preface, SETTINGS and its
acknowledgement) and decodes header blocks, which depend on each other. It never opens windows on its own.

Every frame that arrives goes into `frames`. Methods that wait for one take it out, so that the next call returns the
next one; they raise an AssertionError that lists the received frames if the server closes first, or if it sends
nothing for `PATIENCE` seconds (without a bound under a virtual clock, which may jump).

    async with served() as host, raw_client(host) as client:
        stream = await client.request("/path", method="PUT", body=b"content")
        assert (await client.response(stream)).status == 200
        await client.send(frame(PING, b"short"))
        assert await client.goaway() == (ErrorCode.FRAME_SIZE_ERROR, stream)
        await client.closed()
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Any, NamedTuple

import trio
from hpack import Decoder, Encoder
from trio.testing import MockClock

from tests.gateway.connections.http2.raw_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Field,
    Fields,
    Frame,
    Setting,
    continuation,
    data,
    frame,
    goaway,
    headers,
    ping,
    priority,
    priority_fields,
    rst_stream,
    settings,
    window_update,
)
from tests.gateway.connections.http_server import Host, authority

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "ErrorCode",
    "Field",
    "Fields",
    "Frame",
    "GOAWAY",
    "HEADERS",
    "PADDED",
    "PING",
    "PREFACE",
    "PRIORITIZED",
    "PRIORITY",
    "PUSH_PROMISE",
    "RST_STREAM",
    "RawClient",
    "Response",
    "SETTINGS",
    "Setting",
    "WINDOW_UPDATE",
    "continuation",
    "data",
    "frame",
    "goaway",
    "headers",
    "ping",
    "priority",
    "priority_fields",
    "raw_client",
    "rst_stream",
    "settings",
    "window_update",
]

PATIENCE = 30


class Response(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class RawClient:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.frames: list[Frame] = []  # arrived, and not taken by a method yet
        self.server_settings: dict[int, int] = {}
        self.connection_window = 65535  # with what the server adds in its opening
        self._windows: dict[int, int] = {}  # of streams, for what `upload` sends
        self.ended = False  # the server has closed
        self.encoder = Encoder()
        self.decoder = Decoder()
        self._next_stream = 1
        self._patience = inf if isinstance(trio.lowlevel.current_clock(), MockClock) else PATIENCE
        self._buffer = bytearray()
        self._partial: Frame | None = None  # HEADERS whose block continues in CONTINUATION

    async def open(self, values: Mapping[Any, int] | None = None) -> None:
        """Send preface and SETTINGS, acknowledge the server's, and wait for its acknowledgement of ours."""
        await self.send(PREFACE, settings(values or {}), settings(ack=True))
        first = await self.take(lambda frame: frame.kind == SETTINGS and not frame.ack)
        self.server_settings = first.settings
        await self.settings_ack()
        self.connection_window += sum(self.increments(0))

    async def send(self, *parts: bytes) -> None:
        """Send any bytes in one write; whether the server has closed shows when reading."""
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
        """Send a request and return its stream; `end` ends the stream. A body above the first window is uploaded."""
        number = self.new_stream() if stream is None else stream
        parts = [headers(number, self.block(path, method=method, fields=fields), end=end and body is None)]
        if body is not None and len(body) > 65535:
            await self.send(*parts)
            await self.upload(number, body, end=end)
            return number
        if body is not None:
            pieces = [body[at : at + 16384] for at in range(0, len(body), 16384)] or [b""]
            parts += [data(number, piece) for piece in pieces[:-1]]
            parts.append(data(number, pieces[-1], end=end))
        await self.send(*parts)
        return number

    async def upload(self, stream: int, body: bytes, *, end: bool = False) -> None:
        """Send part of a body as far as the windows allow; ends early if the server responds or resets the stream."""
        left = memoryview(body)
        self._windows.setdefault(stream, self.server_settings.get(Setting.INITIAL_WINDOW_SIZE, 65535))
        while left:
            self._windows[stream] += sum(self.increments(stream))
            self.connection_window += sum(self.increments(0))
            if any(frame.stream == stream for frame in self.frames):
                return
            size = min(len(left), 16384, self._windows[stream], self.connection_window)
            if size <= 0:
                assert await self._receive(), f"the server closed; there were {self._listing()}"
                continue
            self._windows[stream] -= size
            self.connection_window -= size
            await self.send(data(stream, bytes(left[:size]), end=end and size == len(left)))
            left = left[size:]

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
        """Return the received frames, except WINDOW_UPDATE, once the server has reacted to everything sent before.

        Two PINGs, as the acknowledgement of the first may overtake what the server sends in response to frames before
        it. Responses of handlers that had to wait may come later.
        """
        for _ in range(2):
            await self.send(ping(payload))
            await self.take(lambda frame: frame.kind == PING and frame.ack and frame.payload == payload)
        return [frame for frame in self.frames if frame.kind != WINDOW_UPDATE]

    def increments(self, stream: int) -> list[int]:
        """Take out the received WINDOW_UPDATE frames of this stream (0: the connection) and return their increments."""
        updates = [frame for frame in self.frames if frame.kind == WINDOW_UPDATE and frame.stream == stream]
        for update in updates:
            self.frames.remove(update)
        return [int.from_bytes(update.payload) for update in updates]

    async def closed(self) -> None:
        """Read to the end of the connection; the frames before it stay in `frames`."""
        while await self._receive():
            pass

    async def take(self, matches: Callable[[Frame], bool]) -> Frame:
        """Take out the first frame that matches, whether it has arrived or arrives later."""
        seen = 0
        while True:
            for index in range(seen, len(self.frames)):
                if matches(self.frames[index]):
                    return self.frames.pop(index)
            seen = len(self.frames)
            assert await self._receive(), f"the server closed; there were {self._listing()}"

    async def _receive(self) -> bool:
        """Read and parse what the server sends next; False when it has closed."""
        received: bytes | bytearray = b""
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
    values: Mapping[Any, int] | None = None,
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
