"""One watching connection: opens without blocking, then counts events in the bytes that it receives.

The pool drives it. Whatever frames the transport uses, each event contains one `MARK` that occurs nowhere else in the
stream, and the network cannot split a single byte: so counting events is counting that byte. (The head of a WebSocket
frame contains the length, and a mark when the second byte of the length is 0x5E, as in 1374: then every watcher gets
too many events and the harness reports it.)
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator

from benchmarks.servers.endpoint import Endpoint

MARK = b"^"
# Bytes; a receive window that is full after a few events, so that a watcher that does not read soon blocks the sender.
_SMALL_WINDOW = 4096
# Connections per source address; the ephemeral port range has about three times as many.
_PER_ADDRESS = 8192
_STREAM = b"HTTP/1.1 200 "
_SWITCHED = b"HTTP/1.1 101 "


class NotServed(Exception):
    """The server refused a watch, ended it, or delivered the wrong number of events."""


class Watcher:
    __slots__ = ("_expected", "_opening", "_secure", "got", "index", "opened", "sock", "stalled")

    def __init__(
        self,
        index: int,
        endpoint: Endpoint,
        request: bytes,
        context: ssl.SSLContext | None,
        *,
        got: int,
        stalled: bool,
        websocket: bool,
    ) -> None:
        self.index = index
        self._expected = _SWITCHED if websocket else _STREAM
        self.stalled = stalled
        self.got = got  # events received, plus those before its resourceVersion
        self.opened = False
        self._secure = context is not None
        self.sock = _socket(index, endpoint, small=stalled)
        self._opening = self._open(endpoint, request, context)

    def fileno(self) -> int:
        return self.sock.fileno()

    def advance(self) -> int:
        """Continue to open as far as possible; returns the epoll event to wait for, 0 when the watch is open."""
        return next(self._opening, 0)

    def _open(self, endpoint: Endpoint, request: bytes, context: ssl.SSLContext | None) -> Iterator[int]:
        try:
            self.sock.connect((endpoint.host, endpoint.port))
        except BlockingIOError:
            yield select.EPOLLOUT
        problem = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, "cannot connect")
        if context is not None:
            yield from self._handshake(context)
        self.sock.send(request)
        yield select.EPOLLIN

    def _handshake(self, context: ssl.SSLContext) -> Iterator[int]:
        secure = context.wrap_socket(self.sock, do_handshake_on_connect=False)
        self.sock = secure
        while True:
            try:
                secure.do_handshake()
            except ssl.SSLWantReadError:
                yield select.EPOLLIN
            except ssl.SSLWantWriteError:
                yield select.EPOLLOUT
            else:
                return

    def read(self, buffer: bytearray) -> tuple[int, int]:
        """Receive; returns the number of bytes and events. The first bytes must begin a successful response."""
        size = events = 0
        while True:
            try:
                received = self.sock.recv_into(buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            if not received:
                raise NotServed(f"the stream of watcher {self.index} ended after {self.got} events")
            if not self.opened:
                self._check(bytes(buffer[: min(received, 600)]))
            size += received
            events += buffer.count(MARK, 0, received)
            # epoll reports again what remains in the kernel's buffer, but not what remains in the TLS buffer.
            if not (self._secure and self.sock.pending()):  # type: ignore[attr-defined]
                break
        self.got += events
        return size, events

    def _check(self, head: bytes) -> None:
        if not head.startswith(self._expected):
            raise NotServed(f"the response to a watch was {head.decode(errors='replace')!r}")
        self.opened = True


def _socket(index: int, endpoint: Endpoint, *, small: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET)
    sock.setblocking(False)
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW)
    if endpoint.host.startswith("127."):
        sock.bind((f"127.0.0.{2 + index // _PER_ADDRESS}", 0))
    return sock
