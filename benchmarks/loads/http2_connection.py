"""One HTTP/2 connection of a load, with several requests in flight.

Requests that replace responses of one read leave in one send, as h2load and browsers do it. The connection respects
the server's window for request bodies: what does not fit waits for WINDOW_UPDATE.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Sequence

from benchmarks.loads import http2
from benchmarks.loads.connection import Exchange, connect
from benchmarks.loads.header_blocks import TABLE_SIZE, RequestBlocks, status_of
from benchmarks.loads.request import BadResponse, Request
from benchmarks.servers.endpoint import Endpoint


class StreamResponse:
    """What has arrived of a response on its stream."""

    __slots__ = ("_keep", "_keep_body", "_parts", "closes", "size", "status")

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.closes = False
        self.clear()

    def clear(self) -> None:
        self.status = self.size = 0
        self._keep_body = self._keep
        self._parts: list[bytes] = []

    @property
    def begun(self) -> bool:
        return bool(self.status)

    @property
    def body(self) -> bytes:
        return b"".join(self._parts)

    def begin(self, status: int) -> None:
        self.status = status
        self._keep_body = self._keep or status >= 400

    def add(self, data: bytes | bytearray, start: int, end: int) -> None:
        self.size += end - start
        if self._keep_body:
            self._parts.append(bytes(data[start:end]))

    def fail(self, reason: bytes) -> None:
        self.status, self._parts = 0, [reason]


class Http2Connection:
    def __init__(
        self,
        index: int,
        endpoint: Endpoint,
        context: ssl.SSLContext | None,
        *,
        keep_body: bool,
        in_flight: int,
    ) -> None:
        self._endpoint, self._context = endpoint, context
        self._responses = [StreamResponse(keep_body) for _ in range(in_flight)]
        self.exchanges: Sequence[Exchange] = [
            Exchange(index * in_flight + number, response) for number, response in enumerate(self._responses)
        ]
        self._response_of = dict(zip(self.exchanges, self._responses, strict=True))
        self.reconnects = 0
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        self._settings: dict[int, int] | None = None
        self._streams: dict[int, tuple[Exchange, StreamResponse]] = {}
        self._next_stream = 1
        self._out: list[bytes] = []
        self._done: list[Exchange] = []
        self._send_window = http2.DEFAULT_WINDOW
        self._held: deque[tuple[Exchange, Request]] = deque()  # their bodies exceed the server's window
        self._window = http2.ReceiveWindow(0)
        self._reader = http2.FrameReader(self._on_data, self._on_frame)
        sock = connect(self._endpoint, self._context)
        if isinstance(sock, ssl.SSLSocket) and sock.selected_alpn_protocol() != "h2":
            raise BadResponse("the server does not offer HTTP/2")
        self._greet(sock)
        sock.setblocking(False)
        return sock

    def _greet(self, sock: socket.socket) -> None:
        """Wait for the server's SETTINGS, so that no measured request depends on when they arrive."""
        sock.sendall(http2.greeting())
        while self._settings is None:
            data = sock.recv(1 << 16)
            if not data:
                raise ConnectionResetError("closed by the server")
            self._reader.feed(data, len(data))
        sock.sendall(b"".join(self._out))
        self._out.clear()
        table_size = self._settings.get(http2.HEADER_TABLE_SIZE, TABLE_SIZE)
        self._blocks = RequestBlocks(
            tls=self._context is not None, token=self._endpoint.token, table_size=table_size
        )

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def start(self, exchange: Exchange, request: Request) -> None:
        exchange.request = request
        exchange.waiting = True
        response = self._response_of[exchange]
        response.clear()
        body = request.body
        if body is not None:
            if self._held or len(body) > self._send_window:
                self._held.append((exchange, request))
                return
            self._send_window -= len(body)
        self._open_stream(exchange, response, request)

    def _open_stream(self, exchange: Exchange, response: StreamResponse, request: Request) -> None:
        stream, body = self._next_stream, request.body
        self._next_stream += 2
        self._streams[stream] = exchange, response
        flags = http2.END_HEADERS | (http2.END_STREAM if body is None else 0)
        block = self._blocks.block(request)
        self._out.append(http2.frame_header(len(block), http2.HEADERS, flags, stream))
        self._out.append(block)
        if body is not None:
            self._out.append(http2.frame_header(len(body), http2.DATA, http2.END_STREAM, stream))
            self._out.append(body)

    def flush(self) -> None:
        if not self._out:
            return
        data = b"".join(self._out)
        self._out.clear()
        if self._sock.send(data) != len(data):
            raise OSError("the server does not read requests")

    def read(self, buffer: bytearray, view: memoryview) -> Sequence[Exchange]:
        self._done = []
        sock, feed = self._sock, self._reader.feed
        try:
            while True:
                size = sock.recv_into(buffer)
                if not size:
                    raise ConnectionResetError("closed by the server")
                feed(buffer, size)
                if self._done and not self._streams:
                    break
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        if not self._done:
            self.flush()  # acknowledgements; otherwise they leave with the next requests
        return self._done

    def _on_data(self, stream: int, data: bytes | bytearray, start: int, end: int, ends: bool) -> None:
        exchange, response = self._streams[stream]
        response.add(data, start, end)
        if update := self._window.received(end - start):
            self._out.append(update)
        if ends:
            self._complete(stream, exchange)

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == http2.HEADERS:
            exchange, response = self._streams[stream]
            if not response.begun:
                response.begin(status_of(payload))
            if flags & http2.END_STREAM:
                self._complete(stream, exchange)
        elif kind == http2.WINDOW_UPDATE:
            if not stream:
                self._send_window += http2.increment_of(payload)
                self._send_held()
        elif kind == http2.RST_STREAM:
            if stream in self._streams:
                exchange, response = self._streams[stream]
                response.fail(b"the server reset the stream: %d" % http2.increment_of(payload))
                self._complete(stream, exchange)
        elif kind == http2.GOAWAY:
            raise ConnectionResetError(f"GOAWAY {payload[4:]!r}")
        elif not flags & http2.ACK:
            self._acknowledge(kind, payload)

    def _acknowledge(self, kind: int, payload: bytes) -> None:
        if kind == http2.SETTINGS:
            self._settings = http2.settings_of(payload)
            self._out.append(http2.SETTINGS_ACK)
        elif kind == http2.PING:
            self._out.append(http2.frame(http2.PING, http2.ACK, 0, payload))

    def _complete(self, stream: int, exchange: Exchange) -> None:
        del self._streams[stream]
        exchange.waiting = False
        self._done.append(exchange)

    def _send_held(self) -> None:
        while self._held:
            exchange, request = self._held[0]
            size = len(request.body or b"")
            if size > self._send_window:
                return
            self._held.popleft()
            self._send_window -= size
            self._open_stream(exchange, self._response_of[exchange], request)

    def reconnect(self) -> None:
        self._sock.close()
        self._sock = self._connect()
        for exchange in self.exchanges:
            exchange.waiting = False
        self.reconnects += 1
