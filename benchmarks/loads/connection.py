"""One connection of a load: a socket, the request under way and the answer it waits for.

The load drives it and decides what is sent; a lane knows how to connect, to send, to take bytes and to start
over. Its socket never blocks once it is connected.
"""

from __future__ import annotations

import socket
import ssl

from benchmarks.loads.http1 import Answer
from benchmarks.servers.target import Target

PATIENCE = 30.0  # seconds to connect


class Lane:
    """One connection and the answer it waits for."""

    __slots__ = (
        "_context",
        "_sent",
        "_sock",
        "_target",
        "answer",
        "index",
        "reconnects",
        "started",
        "waiting",
    )

    def __init__(self, index: int, target: Target, context: ssl.SSLContext | None, keep_body: bool) -> None:
        self.index = index
        self.answer = Answer(keep_body)
        self.started = 0.0
        self.waiting = False
        self.reconnects = 0
        self._target, self._context = target, context
        self._sent = b""
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        sock = socket.create_connection((self._target.host, self._target.port), timeout=PATIENCE)
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
        # Never blocks: the request before was answered, so the socket's buffer is empty and far larger.
        self._sent = data
        self.waiting = True
        self.answer.clear()
        self._sock.send(data)

    def read(self, buffer: bytearray, view: memoryview) -> bool:
        """Takes what has arrived; True when the answer is complete. OSError when the connection is lost."""
        sock, answer = self._sock, self.answer
        try:
            while True:
                size = sock.recv_into(buffer)
                if not size:
                    raise ConnectionResetError("closed by the server")
                if answer.feed(view[:size]):
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
    # Loopback only (see benchmarks.servers.target), and a reference makes its own certificate: nothing to verify.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
