"""One watching connection: opens without blocking, then counts events in the bytes that it receives.

The pool drives it. Whatever frames the transport uses, each event contains one `MARK` that occurs nowhere else in the
stream, and the network cannot split a single byte: so counting events is counting that byte. (The head of a WebSocket
frame contains the length, and a mark when the second byte of the length is 0x5E, as in 1374: then every watcher gets
too many events and the harness reports it.) A connection of HTTP/1.1 has one watch; `http2_watches` has several.
"""

from __future__ import annotations

import select
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from benchmarks.servers.endpoint import Endpoint

MARK = b"^"
# Bytes; a receive window that is full after a few events, so that a watcher that does not read soon blocks the sender.
SMALL_WINDOW = 4096
# Connections per source address; the ephemeral port range has about three times as many.
_PER_ADDRESS = 8192
STREAM = b"HTTP/1.1 200 "
SWITCHED = b"HTTP/1.1 101 "


class NotServed(Exception):
    """The server refused a watch, ended it, or delivered the wrong number of events."""


class Watcher:
    """One watch and its count of events."""

    __slots__ = ("got", "index", "stalled")

    def __init__(self, index: int, got: int, *, stalled: bool) -> None:
        self.index = index
        self.got = got  # events received, plus those before its resourceVersion
        self.stalled = stalled


OnEvents = Callable[[Watcher, int], None]


class WatchConnection(ABC):
    """A socket with one or several watches. `unread` marks one whose bytes the pool leaves in the kernel."""

    __slots__ = ("_opening", "_secure", "buffer", "sock", "unread", "watchers")

    def __init__(
        self,
        watchers: Sequence[Watcher],
        endpoint: Endpoint,
        request: bytes,
        context: ssl.SSLContext | None,
        buffer: bytearray,
        *,
        unread: bool,
    ) -> None:
        self.watchers, self.buffer, self.unread = watchers, buffer, unread
        self._secure = context is not None
        self.sock = _socket(watchers[0].index, endpoint, small=unread)
        self._opening = self._open(endpoint, request, context)

    def fileno(self) -> int:
        return self.sock.fileno()

    def advance(self) -> int:
        """Continue to open as far as possible; returns the epoll event to wait for, 0 when all watches are open."""
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
        while not self.opened:
            yield select.EPOLLIN
            self.read()

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

    def read(self) -> int:
        """Receive and count; returns the number of bytes."""
        size = 0
        while True:
            try:
                received = self.sock.recv_into(self.buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                return size
            if not received:
                got = min(watcher.got for watcher in self.watchers)
                raise NotServed(f"the stream of watcher {self.watchers[0].index} ended after {got} events")
            size += received
            self.received(received)
            # epoll reports again what remains in the kernel's buffer, but not what remains in the TLS buffer.
            if not (self._secure and self.sock.pending()):  # type: ignore[attr-defined]
                return size

    @property
    @abstractmethod
    def opened(self) -> bool:
        """Every watch has the head of a successful response."""

    @abstractmethod
    def received(self, size: int) -> None:
        """Count the events in the first bytes of the buffer."""

    def release(self) -> None:
        """Let stalled watches have all events."""
        self.unread = False
        for watcher in self.watchers:
            watcher.stalled = False


class Http1Watch(WatchConnection):
    """A chunked response or a WebSocket; the first bytes must begin a successful response."""

    __slots__ = ("_expected", "_on_events", "_opened")

    def __init__(
        self,
        watcher: Watcher,
        endpoint: Endpoint,
        request: bytes,
        context: ssl.SSLContext | None,
        buffer: bytearray,
        on_events: OnEvents,
        *,
        expected: bytes,
    ) -> None:
        self._expected, self._on_events, self._opened = expected, on_events, False
        super().__init__((watcher,), endpoint, request, context, buffer, unread=watcher.stalled)

    @property
    def opened(self) -> bool:
        return self._opened

    def received(self, size: int) -> None:
        if not self._opened:
            self._check(bytes(self.buffer[: min(size, 600)]))
        events = self.buffer.count(MARK, 0, size)
        if events:
            self._on_events(self.watchers[0], events)

    def _check(self, head: bytes) -> None:
        if not head.startswith(self._expected):
            raise NotServed(f"the response to a watch was {head.decode(errors='replace')!r}")
        self._opened = True


def _socket(index: int, endpoint: Endpoint, *, small: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET)
    sock.setblocking(False)
    if small:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
    if endpoint.host.startswith("127."):
        sock.bind((f"127.0.0.{2 + index // _PER_ADDRESS}", 0))
    return sock
