"""One connection of a load: a socket, the request in flight and the response it waits for.

The load generator and the watcher pool decide what a connection sends; it connects, sends, receives and reconnects.
Its socket does not block once it is connected.
"""

from __future__ import annotations

import socket
import ssl

from benchmarks.loads.http1 import Response
from benchmarks.servers.endpoint import Endpoint

TIMEOUT = 30.0  # seconds to connect


class Connection:
    __slots__ = (
        "_context",
        "_endpoint",
        "_sent",
        "_sock",
        "index",
        "reconnects",
        "response",
        "started",
        "waiting",
    )

    def __init__(
        self, index: int, endpoint: Endpoint, context: ssl.SSLContext | None, keep_body: bool
    ) -> None:
        self.index = index
        self.response = Response(keep_body)
        self.started = 0.0
        self.waiting = False
        self.reconnects = 0
        self._endpoint, self._context = endpoint, context
        self._sent = b""
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        sock = socket.create_connection((self._endpoint.host, self._endpoint.port), timeout=TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            sock = self._context.wrap_socket(sock)
        sock.setblocking(False)
        return sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        # Never blocks: the previous request has its response, so the send buffer is empty and larger than a request.
        self._sent = data
        self.waiting = True
        self.response.clear()
        self._sock.send(data)

    def read(self, buffer: bytearray, view: memoryview) -> bool:
        """Receives what is available; True when the response is complete. Raises OSError when disconnected."""
        sock, response = self._sock, self.response
        try:
            while True:
                size = sock.recv_into(buffer)
                if not size:
                    raise ConnectionResetError("closed by the server")
                if response.feed(view[:size]):
                    self.waiting = False
                    return True
        except (BlockingIOError, ssl.SSLWantReadError):
            return False

    def reconnect(self) -> None:
        self._sock.close()
        self._sock = self._connect()
        self.waiting = False
        self.reconnects += 1

    def send_again(self) -> None:
        self.send(self._sent)


def client_context() -> ssl.SSLContext:
    # Endpoints are on loopback and a reference server has a self-signed certificate: there is nothing to verify.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
