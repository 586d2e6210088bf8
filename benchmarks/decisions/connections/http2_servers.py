"""The alternatives of docs/decisions/0016-http2.md: HTTP/2 on one TLS transport, each by another library.

All of them handle the requests that arrive in one read and send the responses together, except Hypercorn, which has
a task for each stream. All send the same fields; only ours and Hypercorn's keep the limits that a public port needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import hpack
import trio
from hyperframe.frame import DataFrame, Frame, HeadersFrame, SettingsFrame

from benchmarks.baselines.http2_echo import Http2Echo
from benchmarks.loads.http2 import PREFACE
from rewound.gateway.connections.heads import CACHE_CONTROL
from rewound.gateway.connections.http1.connection import Http1Connection
from rewound.gateway.connections.http2.connection import Http2
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.connections.tls import TlsTransport
from rewound.gateway.exchange import next_audit_id
from rewound.gateway.message import Peer, Request, Response

BODY = b"x" * 1300
_FIXED = (
    (b":status", b"200"),
    (b"date", b"Thu, 01 Jan 1970 00:00:00 GMT"),
    CACHE_CONTROL,
    (b"content-type", b"application/json"),
    (b"content-length", b"%d" % len(BODY)),
)
Fields = list[tuple[bytes, bytes]]
Count = Callable[[], None]  # called once for each request
Serve = Callable[[TlsTransport, Count], Awaitable[None]]


def response_fields() -> Fields:
    return [*_FIXED, (b"audit-id", next_audit_id())]


def _refuse(status: int, message: str) -> Response:
    return Response(status, message.encode())


def _state(count: Count) -> ServerState:
    async def handle(request: Request) -> Response:
        count()
        return Response(200, BODY)

    state = ServerState(handle, _refuse, Limits())
    state.tick()
    return state


async def ours(transport: TlsTransport, count: Count) -> None:
    http2 = Http2(_state(count))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http2.flusher.run)
        await http2.serve(transport, Peer(), b"")
        nursery.cancel_scope.cancel()


async def our_http1(transport: TlsTransport, count: Count) -> None:
    await Http1Connection(_state(count), transport, Peer()).run()


async def bare(transport: TlsTransport, count: Count) -> None:
    """Frames by struct and a constant response: no rule of HTTP/2 at all."""
    echo = Http2Echo(BODY)
    data = await transport.receive()
    while data:
        out = echo.feed(data)
        for _ in range(out.count(BODY)):
            count()
        await transport.send(out)
        data = await transport.receive()


async def by_h2(transport: TlsTransport, count: Count) -> None:
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding=None)
    )
    connection.initiate_connection()
    while data := await transport.receive():
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                dict(event.headers)
                count()
                connection.send_headers(event.stream_id, response_fields())
                connection.send_data(event.stream_id, BODY, end_stream=True)
        await transport.send(connection.data_to_send())


async def by_hyperframe(transport: TlsTransport, count: Count) -> None:
    """hyperframe and hpack: no windows, no states, no checks."""
    decoder, encoder = hpack.Decoder(), hpack.Encoder()
    await _by_frames(
        transport,
        count,
        lambda block: dict(decoder.decode(block, raw=True)),
        lambda: encoder.encode(response_fields()),
    )


async def by_hyperframe_cached(transport: TlsTransport, count: Count) -> None:
    """The same with a cache of header blocks, and heads of responses as ours."""
    decoder, known = hpack.Decoder(), dict[bytes, dict[Any, Any]]()
    start = hpack.Encoder().encode(_FIXED[:1]) + b"".join(_literal(*field) for field in _FIXED[1:])

    def decode(block: bytes) -> dict[Any, Any]:
        entries = decoder.header_table.dynamic_entries
        if block not in known:
            before = len(entries)
            fields = dict(decoder.decode(block, raw=True))
            if len(entries) != before:
                known.clear()
            known[block] = fields
        return known[block].copy()

    await _by_frames(transport, count, decode, lambda: start + _literal(b"audit-id", next_audit_id()))


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\x00%c%b%c%b" % (len(name), name, len(value), value)


async def _by_frames(
    transport: TlsTransport, count: Count, decode: Callable[[bytes], Any], encode: Callable[[], bytes]
) -> None:
    kept = await transport.receive()
    while len(kept) < len(PREFACE):
        kept += await transport.receive()
    kept = kept[len(PREFACE) :]
    await transport.send(SettingsFrame(0).serialize())
    while True:
        at, out = 0, []
        view = memoryview(kept)
        while len(view) - at >= 9:
            frame, size = Frame.parse_frame_header(view[at : at + 9])
            if len(view) - at < 9 + size:
                break
            frame.parse_body(view[at + 9 : at + 9 + size])
            at += 9 + size
            if isinstance(frame, HeadersFrame):
                decode(frame.data)
                count()
                out.append(HeadersFrame(frame.stream_id, encode(), flags=["END_HEADERS"]).serialize())
                out.append(DataFrame(frame.stream_id, BODY, flags=["END_STREAM"]).serialize())
        if out:
            await transport.send(b"".join(out))
        data = await transport.receive()
        if not data:
            return
        kept = bytes(view[at:]) + data


class _Stream:
    """Our transport as the stream that Hypercorn's TCPServer takes, after the handshake."""

    def __init__(self, transport: TlsTransport, scope: trio.CancelScope) -> None:
        self._transport = transport
        self._scope = scope
        self.transport_stream = self
        self.socket = transport.socket

    async def do_handshake(self) -> None:
        pass

    def selected_alpn_protocol(self) -> str:
        return "h2"

    async def receive_some(self, _most: int) -> bytes:
        data = await self._transport.receive()
        if not data:
            self._scope.cancel()  # or its idle task continues for seconds
        return data

    async def send_all(self, data: bytes) -> None:
        await self._transport.send(data)

    async def aclose(self) -> None:
        self._transport.close()


async def by_hypercorn(transport: TlsTransport, count: Count) -> None:
    from hypercorn.app_wrappers import ASGIWrapper
    from hypercorn.config import Config
    from hypercorn.trio.tcp_server import TCPServer
    from hypercorn.trio.worker_context import WorkerContext

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        count()
        # Hypercorn adds the date by itself.
        fields = [*_FIXED[2:], (b"audit-id", next_audit_id())]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": BODY})

    config = Config()
    config.include_server_header = False
    config.keep_alive_max_requests = 1 << 40
    with trio.CancelScope() as scope:
        await TCPServer(ASGIWrapper(app), config, WorkerContext(None), {}, _Stream(transport, scope)).run()


SERVERS: dict[str, Serve] = {
    "our frames, header blocks and streams": ours,
    "HTTP/1.1 of ours": our_http1,
    "frames by struct, constant response, no rules": bare,
    "hyperframe, hpack behind a cache, no rules": by_hyperframe_cached,
    "hyperframe, hpack, no rules": by_hyperframe,
    "h2.H2Connection": by_h2,
    "Hypercorn's TCPServer and H2Protocol": by_hypercorn,
}
HTTP1 = "HTTP/1.1 of ours"
