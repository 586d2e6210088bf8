"""Sessions with containers of simulated nodes: exec, attach and followed logs, served here instead of by a kubelet.

A session is an upgrade, to SPDY/3.1 (kubectl up to 1.30) or to a WebSocket. The client opens one stream each for the
error status, input and output; the server sends what was printed, then the status with the exit code, and ends. Of
SPDY only what such a session needs is implemented: streams that the client opens, their replies, data, and pings.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, NamedTuple

import orjson
import trio

from rewound.actors.messages import Object
from rewound.actors.nodes.agent import CommandResult
from rewound.gateway.message import ForwardingClient, RawConnection, Report, Request, Response, asks_upgrade
from rewound.gateway.pipeline.errors import UpgradeRequired
from rewound.gateway.proxy.forward import Fail

_STREAMS: Final = frozenset({"error", "stdin", "stdout", "stderr", "resize"})
_OPEN_SECONDS: Final = 30.0  # seconds for a client to open its streams
_CLOSE_SECONDS: Final = 2.0  # seconds for a client to close after the end
_MOST_BYTES: Final = 1 << 20  # limit of a frame, and of what a client sends before the streams are open
# Subprotocols of the streams: v4.channel.k8s.io, base64.channel.k8s.io. From v4 on the status is JSON.
_PROTOCOL: Final = re.compile(r"(?:v(?P<version>[2-5])\.)?(?P<base64>base64\.)?channel\.[a-z0-9.-]+")
_WITH_STATUS: Final = 4
_ACCEPT_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Protocol(NamedTuple):
    name: str = ""
    version: int = 1
    encoded: bool = False  # WebSocket frames are text, in base64


def status_of(ran: CommandResult, version: int) -> bytes:
    """The status of a session, as sent on the error stream."""
    if version < _WITH_STATUS:
        return f"command terminated with exit code {ran.exit_code}".encode() if ran.exit_code else b""
    if ran.exit_code == 0:
        return b'{"metadata":{},"status":"Success"}'
    document: Object = {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {ran.exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(ran.exit_code)}]},
    }
    return orjson.dumps(document)


class SimulatedSession:
    """A forwarding without a target: see `gateway.message.Forwarding`."""

    def __init__(self, request: Request, options: Object, ran: CommandResult, fail: Fail) -> None:
        self._request = request
        self._ran = ran
        self._fail = fail
        wanted = [name for name in ("stdin", "stdout", "stderr") if options.get(name)]
        if options.get("tty"):
            wanted = [name for name in wanted if name != "stderr"] + ["resize"]
        self._streams = {"error", *wanted}
        self._sent = {"stdout": ran.output.encode(), "stderr": ran.errors.encode()}
        if options.get("tty"):
            self._sent["stdout"] += self._sent.pop("stderr")
        self.report: Report | None = None

    async def run(self, client: ForwardingClient) -> None:
        if not (client.may_upgrade and asks_upgrade(self._request)):
            response = await self._fail(UpgradeRequired())
            self._report(response.status)
            await client.respond(response)
            return
        is_websocket = self._request.headers.get(b"upgrade", b"").lower() == b"websocket"
        head, protocol = _websocket_head(self._request) if is_websocket else _spdy_head(self._request)
        self._report(101)
        connection, ahead = await client.upgrade(head)
        try:
            if is_websocket:
                await self._serve_websocket(connection, protocol)
            else:
                await self._serve_spdy(connection, ahead, protocol)
            with trio.move_on_after(_CLOSE_SECONDS):
                while await connection.receive():
                    pass
        except (OSError, trio.ClosedResourceError):
            return

    def _report(self, status: int) -> None:
        if self.report is not None:
            self.report(status)

    async def _serve_websocket(self, connection: RawConnection, protocol: Protocol) -> None:
        channels, encoded = {"stdout": 1, "stderr": 2}, protocol.encoded
        frames = [
            (channels[name], data) for name, data in self._sent.items() if data and name in self._streams
        ]
        for channel, data in [*frames, (3, status_of(self._ran, protocol.version))]:
            payload = b"%d" % channel + base64.b64encode(data) if encoded else bytes([channel]) + data
            await connection.send(_frame(0x1 if encoded else 0x2, payload))
        await connection.send(_frame(0x8, struct.pack(">H", 1000)))

    async def _serve_spdy(self, connection: RawConnection, ahead: bytes, protocol: Protocol) -> None:
        spdy = _Spdy()
        with trio.move_on_after(_OPEN_SECONDS):
            await spdy.accept(connection, ahead, self._streams)
        for name in ("stdout", "stderr"):
            if name in spdy.streams and self._sent.get(name):
                await connection.send(spdy.data(name, self._sent[name]))
        await connection.send(spdy.data("error", status_of(self._ran, protocol.version)))
        await connection.send(b"".join(spdy.data(name, b"", last=True) for name in spdy.streams))


class FollowedLog:
    """A log that a client follows until it ends or the client leaves: see `gateway.message.Forwarding`."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self.report: Report | None = None

    async def run(self, client: ForwardingClient) -> None:
        if self.report is not None:
            self.report(200)
        await client.start(Response(200, b"", b"text/plain"))
        is_whole = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_left, client, nursery.cancel_scope)
            async for part in self._parts:
                if part:
                    await client.send(part)
            is_whole = True
            nursery.cancel_scope.cancel()
        if not is_whole:
            raise ConnectionResetError("the client left")
        await client.finish(())


async def _cancel_when_left(client: ForwardingClient, scope: trio.CancelScope) -> None:
    while await client.receive_body():
        pass
    await client.wait_disconnected()
    scope.cancel()


def _spdy_head(request: Request) -> tuple[bytes, Protocol]:
    protocol = _chosen(request.headers.get(b"x-stream-protocol-version", b""))
    return _head("SPDY/3.1", {"X-Stream-Protocol-Version": protocol.name}), protocol


def _websocket_head(request: Request) -> tuple[bytes, Protocol]:
    protocol = _chosen(request.headers.get(b"sec-websocket-protocol", b""))
    key = request.headers.get(b"sec-websocket-key", b"")
    accept = base64.b64encode(hashlib.sha1(key + _ACCEPT_SUFFIX, usedforsecurity=False).digest()).decode()
    fields = {"Sec-WebSocket-Accept": accept, "Sec-WebSocket-Protocol": protocol.name}
    return _head("websocket", fields), protocol


def _head(upgrade: str, fields: dict[str, str]) -> bytes:
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {upgrade}"]
    lines += [f"{name}: {value}" for name, value in fields.items() if value]
    return "\r\n".join((*lines, "", "")).encode()


def _chosen(offered: bytes) -> Protocol:
    """The newest of the protocols that a client offers."""
    names = (one.strip() for one in offered.decode("latin-1").split(","))
    known = [
        Protocol(name, int(match["version"] or 1), bool(match["base64"]))
        for name in names
        if (match := _PROTOCOL.fullmatch(name)) is not None
    ]
    return max(known, key=lambda one: one.version, default=Protocol())


def _frame(opcode: int, payload: bytes) -> bytes:
    """A server's WebSocket frame."""
    size = len(payload)
    if size < 126:
        return struct.pack(">BB", 0x80 | opcode, size) + payload
    if size < 1 << 16:
        return struct.pack(">BBH", 0x80 | opcode, 126, size) + payload
    return struct.pack(">BBQ", 0x80 | opcode, 127, size) + payload


_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 "
    "Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May "
    "Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,"
    "image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _prefixed(words: Iterable[str]) -> bytes:
    return b"".join(struct.pack(">I", len(word)) + word.encode() for word in words)


# The dictionary for compressed header blocks, from section 2.6.10.1 of the SPDY/3 draft.
_VALUES: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
DICTIONARY: Final = _prefixed((*_WORDS.split(), *_VALUES)) + _REST.encode()
_SYN_STREAM, _SYN_REPLY, _PING = 1, 2, 6
_LAST: Final = 1  # flag of the last frame of a stream


class _Spdy:
    """The server's side of a SPDY/3.1 connection."""

    def __init__(self) -> None:
        self.streams: dict[str, int] = {}  # stream ids by streamtype
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._received = b""

    async def accept(self, connection: RawConnection, ahead: bytes, wanted: set[str]) -> None:
        """Reply to the streams that the client opens, until all are open. Raises ConnectionResetError if it leaves."""
        self._received = ahead
        while True:
            for frame_type, flags, payload in self._frames():
                if frame_type == _SYN_STREAM:
                    await connection.send(self._open(payload))
                elif frame_type == _PING:
                    await connection.send(_control(_PING, flags, payload))
            if wanted <= self.streams.keys():
                return
            part = await connection.receive()
            if not part or len(self._received) > _MOST_BYTES:
                raise ConnectionResetError("the client left before it had opened its streams")
            self._received += part

    def data(self, name: str, data: bytes, *, last: bool = False) -> bytes:
        stream = self.streams.get(name)
        if stream is None:
            return b""
        return struct.pack(">II", stream, (_LAST if last else 0) << 24 | len(data)) + data

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        """The control frames that have arrived; data from the client is input that nothing reads."""
        while len(self._received) >= 8:
            first, second = struct.unpack(">II", self._received[:8])
            size = second & 0xFFFFFF
            if len(self._received) < 8 + size:
                return
            payload, self._received = self._received[8 : 8 + size], self._received[8 + size :]
            if first >> 31:
                yield first & 0xFFFF, second >> 24, payload

    def _open(self, payload: bytes) -> bytes:
        try:
            (stream,) = struct.unpack(">I", payload[:4])
            fields = _fields(self._inflate.decompress(payload[10:], _MOST_BYTES))
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise ConnectionResetError(f"the client sent a broken header block: {error}") from None
        if (name := fields.get("streamtype", "")) in _STREAMS:
            self.streams[name] = stream
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, 0, struct.pack(">I", stream) + block)


def _control(frame_type: int, flags: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8003, frame_type, flags << 24 | len(payload)) + payload


def _fields(block: bytes) -> dict[str, str]:
    """The fields of a header block: a count, then names and values with their lengths."""
    (count,) = struct.unpack_from(">I", block)
    at, texts = 4, []
    for _ in range(min(count, 100) * 2):
        (size,) = struct.unpack_from(">I", block, at)
        texts.append(block[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return dict(zip(texts[::2], texts[1::2], strict=True))
