"""One connection of a load: a socket and its exchanges, each a request in flight and the response it waits for.

The load generator and the watcher pool decide what a connection sends; it connects, sends, receives and reconnects.
Its socket does not block once it is connected. HTTP/1.1 has one exchange per connection, HTTP/2
(`http2_connection`) as many as the lane says.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Protocol

from benchmarks.loads.http1 import RequestEncoder, Response
from benchmarks.loads.request import Request
from benchmarks.servers.endpoint import Endpoint

TIMEOUT = 30.0  # seconds to connect


class ResponseState(Protocol):
    """What has arrived of a response."""

    status: int
    size: int  # bytes of the body
    closes: bool  # the server closes the connection after it

    @property
    def begun(self) -> bool: ...

    @property
    def body(self) -> bytes: ...


class Exchange:
    __slots__ = ("request", "response", "slot", "started", "waiting")

    def __init__(self, slot: int, response: ResponseState) -> None:
        self.slot = (
            slot  # number of the exchange in its load; plans keep what they know of an operation under it
        )
        self.response = response
        self.request: Request | None = None
        self.started = 0.0
        self.waiting = False


class Connection(Protocol):
    exchanges: Sequence[Exchange]
    reconnects: int

    def fileno(self) -> int: ...

    def close(self) -> None: ...

    def start(self, exchange: Exchange, request: Request) -> None:
        """Send a request; a connection with several exchanges sends it with the next `flush`."""

    def flush(self) -> None: ...

    def read(self, buffer: bytearray, view: memoryview) -> Sequence[Exchange]:
        """Receives what is available; returns the exchanges that it completes. Raises OSError when disconnected."""

    def reconnect(self) -> None: ...


class Http1Connection:
    __slots__ = ("_context", "_encoder", "_endpoint", "_response", "_sock", "exchanges", "reconnects")

    def __init__(
        self, index: int, endpoint: Endpoint, context: ssl.SSLContext | None, *, keep_body: bool
    ) -> None:
        self._response = Response(keep_body)
        self.exchanges: Sequence[Exchange] = (Exchange(index, self._response),)
        self.reconnects = 0
        self._endpoint, self._context = endpoint, context
        self._encoder = RequestEncoder(endpoint.token)
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        sock = connect(self._endpoint, self._context)
        sock.setblocking(False)
        return sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def start(self, exchange: Exchange, request: Request) -> None:
        # Never blocks: the previous request has its response, so the send buffer is empty and larger than a request.
        exchange.request = request
        exchange.waiting = True
        self._response.clear()
        self._sock.send(self._encoder.encode(request))

    def flush(self) -> None:
        pass

    def read(self, buffer: bytearray, view: memoryview) -> Sequence[Exchange]:
        sock, response = self._sock, self._response
        try:
            while True:
                size = sock.recv_into(buffer)
                if not size:
                    raise ConnectionResetError("closed by the server")
                if response.feed(view[:size]):
                    self.exchanges[0].waiting = False
                    return self.exchanges
        except (BlockingIOError, ssl.SSLWantReadError):
            return ()

    def reconnect(self) -> None:
        self._sock.close()
        self._sock = self._connect()
        self.exchanges[0].waiting = False
        self.reconnects += 1


def connect(endpoint: Endpoint, context: ssl.SSLContext | None) -> socket.socket:
    sock = socket.create_connection((endpoint.host, endpoint.port), timeout=TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if context is None else context.wrap_socket(sock)


def client_context(*protocols: str) -> ssl.SSLContext:
    """TLS of a client that offers these protocols (ALPN)."""
    # Endpoints are on loopback and a reference server has a self-signed certificate: there is nothing to verify.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context
