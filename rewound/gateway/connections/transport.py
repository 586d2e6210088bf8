"""A transport: the byte stream of one connection, plain here and TLS in `tls.py`.

It works on the raw non-blocking socket: it tries the system call first, and uses trio's poller only if that would
block. `http1` and `http2` send and receive with it. The server's watchdog checks `deadline` and calls `interrupt`,
which raises `trio.ClosedResourceError` in a task that waits on the socket and affects no other. A cancel scope
instead would also cancel a handler whose request arrived at the same moment, and lose its response.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable, Collection, Sequence
from fcntl import ioctl
from math import inf
from termios import TIOCOUTQ
from typing import Any

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.read_turns import ReadTurns
from rewound.gateway.connections.unauthenticated import UnauthenticatedClient
from rewound.gateway.watch.broadcast import Missed

RECEIVE = 32 * 1024
_BEHIND_BYTES = 256 * 1024
# On close: drop unsent data and reset, so that the buffers for a peer that stopped reading are freed at once.
_RESET = struct.pack("ii", 1, 0)


class Transport:
    """A plain TCP or Unix socket."""

    __slots__ = (
        "closed",
        "deadline",
        "deadlines",
        "fd",
        "idle",
        "limits",
        "patient",
        "protocol",
        "socket",
        "streaming",
        "turns",
        "unauthenticated",
    )

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        self.socket = sock
        self.fd = sock.fileno()
        self.limits = limits
        self.deadline = inf  # when the watchdog interrupts
        self.deadlines: Callable[[], Collection[float]] | None = None  # deadlines of the streams of HTTP/2
        self.idle = True  # no request in progress: may be closed without loss
        self.streaming = False  # a stream is in progress and sets the deadline itself
        self.patient = False  # the peer may read as slowly as it likes, until the server stops
        self.closed = False
        self.protocol: str | None = None  # selected by ALPN
        self.unauthenticated: UnauthenticatedClient | None = None  # set until a request is authenticated
        self.turns: ReadTurns | None = None  # set after that, if turns are limited

    async def handshake(self) -> None:
        """Nothing to do: plain TCP has no handshake."""

    def peer_address(self) -> str:
        """The peer's address; empty for a client on a Unix socket."""
        try:
            name = self.socket.getpeername()
        except OSError:
            return ""
        return str(name[0]) if isinstance(name, tuple) else ""

    def certificate(self) -> dict[str, object] | None:
        return None

    def certificate_chain(self) -> tuple[bytes, list[bytes] | None]:
        """The client's certificate and its verified chain, in DER; the chain is empty if unknown."""
        return b"", []

    async def receive(self) -> bytes:
        """The next bytes, b"" at the end. Raises ClosedResourceError when interrupted, OSError when broken."""
        if self.unauthenticated is not None:
            self.unauthenticated.pause()
        while True:
            await wait_readable(self.fd)
            if self.unauthenticated is not None:
                await self.unauthenticated.turn()
            elif self.turns is not None and self.turns.over():
                await self.turns.wait(self)
            try:
                return self.socket.recv(RECEIVE)
            except BlockingIOError:
                continue

    def receive_nowait(self) -> bytes:
        """The bytes that have arrived; b"" if none have."""
        try:
            return self.socket.recv(RECEIVE)
        except OSError:
            return b""

    async def send(self, data: bytes) -> None:
        """Send all of it. Raises ClosedResourceError if it takes too long, OSError if the connection is broken."""
        rest = self.send_nowait(data)
        if rest is not None:
            await self.send_rest(rest)

    async def send_large(self, lead: bytes, data: bytes) -> None:
        """Send both, with `lead` together with the start of `data`: a separate send would wake the peer twice."""
        try:
            sent = self.socket.sendmsg((lead, data))
        except BlockingIOError:
            sent = 0
        if sent < len(lead):
            await self.send_rest(memoryview(lead)[sent:])
            sent = len(lead)
        if sent < len(lead) + len(data):
            await self.send_rest(memoryview(data)[sent - len(lead) :])

    def send_nowait(self, data: bytes) -> memoryview | None:
        """Send as much as the socket accepts; return the rest, already encrypted over TLS, for `send_rest`."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        return None if sent == len(data) else memoryview(data)[sent:]

    async def send_rest(self, data: memoryview) -> None:
        if self.unauthenticated is not None:
            self.unauthenticated.pause()
        started, before = trio.current_time(), self.deadline
        moved_at, sent = started, 0
        try:
            while sent < len(data):
                if not self.patient:
                    self.deadline = self.limits.transfer_deadline(started, sent, moved_at)
                await wait_writable(self.fd)
                try:
                    taken = self.socket.send(data[sent:])
                except BlockingIOError:
                    continue
                sent += taken
                moved_at = self.limits.moved_at(moved_at, taken, trio.current_time())
        finally:
            self.deadline = before

    @property
    def unsent(self) -> int:
        """How many bytes that `transmit` accepted are still waiting to be sent, as they are on the wire."""
        return 0

    @property
    def has_unsent(self) -> bool:
        return self.unsent > 0

    def transmit(self, data: bytes | memoryview) -> int:
        """Send what fits, without waiting; return the number of bytes accepted, negated if some are still unsent."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    def transmit_burst(self, data: bytes | memoryview) -> int:
        """`transmit` as much of a large body as one system call accepts."""
        return self.transmit(data)

    def behind(self) -> bool:
        """Whether the socket holds many bytes that the peer has not acknowledged; then give it little at a time."""
        try:
            return int.from_bytes(ioctl(self.fd, TIOCOUTQ, bytes(4)), sys.byteorder) > _BEHIND_BYTES
        except OSError:
            return False

    @staticmethod
    def broadcast(transports: Sequence[Any], data: bytes) -> Missed:
        """`transmit` to many; return those that did not send all."""
        missed: Missed = []
        size = len(data)
        for transport in transports:
            try:
                sent = transport.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                missed.append((transport, error))
                continue
            if sent != size:
                missed.append((transport, sent))
        return missed

    @staticmethod
    def send_each(parcels: Sequence[tuple[Any, bytes | memoryview]]) -> list[tuple[int, int | Exception]]:
        """`transmit` different bytes to each; return the indexes of those that did not send all, with the results."""
        missed: list[tuple[int, int | Exception]] = []
        for index, (transport, data) in enumerate(parcels):
            try:
                sent = transport.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                missed.append((index, error))
                continue
            if sent != len(data):
                missed.append((index, sent))
        return missed

    async def flush(self) -> None:
        """Wait until everything accepted is sent and more fits, or for an interruption. No time limit."""
        if self.closed:
            raise trio.ClosedResourceError
        try:
            await wait_writable(self.fd)
        except trio.ClosedResourceError:
            if self.closed:
                raise

    def flush_nowait(self) -> None:
        """Send as much of the unsent bytes as fits; plain TCP never keeps any."""

    def begin_drain(self, limits: Limits, now: float) -> None:
        """End an idle connection, and limit the waiting for any other peer, because the server stops.

        A stream ends by itself; without a deadline a handler is running, and the new limits apply to its response.
        """
        self.limits = limits
        if self.idle and self.protocol != "h2" and limits.drain_idle_seconds:
            self.deadline = min(self.deadline, now + limits.drain_idle_seconds)
        elif self.idle or self.protocol == "h2":  # HTTP/2 sends GOAWAY
            if not self.delayed:  # otherwise it has sent something and continues in its turn
                self.interrupt()
        elif (self.deadline < inf or self.patient) and not self.streaming:
            self.deadline = min(self.deadline, now + limits.drain_seconds)
            self.patient = False

    def interrupt(self) -> None:
        """Wake the tasks that wait on this transport; no effect on a task that does not wait."""
        if not self.closed:
            notify_closing(self.fd)
            if self.unauthenticated is not None:
                self.unauthenticated.interrupt()
            if self.turns is not None:
                self.turns.interrupt(self)

    @property
    def delayed(self) -> bool:
        """Whether the peer waits for its turn, rather than the server for the peer."""
        return self.unauthenticated is not None and self.unauthenticated.waits

    def drop_head(self) -> None:
        """Treat the partial head of a request as too slow, because it takes too much memory."""
        self.deadline = -inf
        self.interrupt()

    def send_eof(self) -> None:
        """Send FIN; the peer may still be sending."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    async def linger(self) -> None:
        """Send FIN, then read and discard what the peer still sends, until it ends or the deadline passes."""
        self.send_eof()
        if self.unauthenticated is not None:
            self.unauthenticated.pause()
        self.deadline = trio.current_time() + self.limits.linger_seconds
        try:
            while True:
                await wait_readable(self.fd)
                if not self.socket.recv(RECEIVE):
                    return
        except (OSError, trio.ClosedResourceError):
            return

    def close(self) -> None:
        """Close gracefully: what was sent still arrives."""
        if not self.closed:
            self.send_eof()
            self._close()

    def abort(self) -> None:
        """Close at once: the kernel drops unsent data, and the peer sees a reset."""
        if not self.closed:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._close()

    def _close(self) -> None:
        self.closed = True
        notify_closing(self.fd)
        if self.unauthenticated is not None:
            self.unauthenticated.close()
        if self.turns is not None:
            self.turns.interrupt(self)
        self.socket.close()
        self.fd = -1  # the kernel reuses the number for the next connection
