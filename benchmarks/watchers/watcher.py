"""One connection that watches: opened without blocking, then a socket from which marks are counted.

The crowd drives it. Whatever the transport frames events with, each holds one `MARK` that occurs nowhere else
in the stream, and a single byte is never cut in two by the network: so counting events is counting a byte.
(The head of a WebSocket frame holds the length, and a mark where the length has 0x5E as its second byte, 1374 for
one: then every watcher gets too many events and the harness says so.)
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Iterator

from benchmarks.servers.target import Target

MARK = b"^"
# A receive window that is full after a few events: who stalls, stalls soon.
_SMALL = 4096
# On close: reset. Thousands of sockets that wait for late packets would use up the ports.
_RESET = struct.pack("ii", 1, 0)
# Connections of one source address; a port range holds about three times as many.
_PER_ADDRESS = 8192
_STREAM = b"HTTP/1.1 200 "
_SWITCHED = b"HTTP/1.1 101 "


class NotServed(Exception):
    """The server did not answer a watch with a stream, or ended the stream."""


class Watcher:
    __slots__ = ("_expected", "_opening", "_secure", "got", "index", "opened", "sock", "stalled")

    def __init__(
        self,
        index: int,
        target: Target,
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
        self.got = got  # events, those before its time included
        self.opened = False
        self._secure = context is not None
        self.sock = _socket(index, target, small=stalled)
        self._opening = self._open(target, request, context)

    def fileno(self) -> int:
        return self.sock.fileno()

    def advance(self) -> int:
        """Go on with opening as far as that is possible; the epoll event to wait for, 0 when it is done."""
        return next(self._opening, 0)

    def _open(self, target: Target, request: bytes, context: ssl.SSLContext | None) -> Iterator[int]:
        try:
            self.sock.connect((target.host, target.port))
        except BlockingIOError:
            yield select.EPOLLOUT
        problem = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, "cannot connect")
        if context is not None:
            yield from self._shake_hands(context)
        self.sock.send(request)
        yield select.EPOLLIN

    def _shake_hands(self, context: ssl.SSLContext) -> Iterator[int]:
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
        """Bytes and events of what has arrived; the first bytes must begin a stream."""
        size = events = 0
        while True:
            try:
                taken = self.sock.recv_into(buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            if not taken:
                raise NotServed(f"the stream of watcher {self.index} ended after {self.got} events")
            if not self.opened:
                self._check(bytes(buffer[: min(taken, 600)]))
            size += taken
            events += buffer.count(MARK, 0, taken)
            # What the kernel still holds is for the next turn; what TLS holds, epoll would not tell of.
            if not (self._secure and self.sock.pending()):  # type: ignore[attr-defined]
                break
        self.got += events
        return size, events

    def _check(self, head: bytes) -> None:
        if not head.startswith(self._expected):
            raise NotServed(f"a watch was answered with {head.decode(errors='replace')!r}")
        self.opened = True

    def close(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()


def _socket(index: int, target: Target, *, small: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in target.host else socket.AF_INET)
    sock.setblocking(False)
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    if target.host.startswith("127."):
        sock.bind((f"127.0.0.{2 + index // _PER_ADDRESS}", 0))
    return sock
