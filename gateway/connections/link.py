"""A link: the byte pipe under one connection, plain here and TLS in `tls.py`.

It works on the raw non-blocking socket: a system call first, trio's poller only when there is nothing to
do. `http1` and `http2` talk through it, the server's watchdog looks at `deadline` and calls `interrupt`,
which wakes whoever waits with `trio.ClosedResourceError` and touches nobody who does not. A cancel scope
instead would also hit a handler that a request reached in the same instant, and lose its answer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from math import inf

import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable

from gateway.connections.limits import Limits
from gateway.watch.broadcast import Missed

RECEIVE = 32 * 1024
# On close: drop unsent data and reset, so a peer that stopped reading frees its buffers at once.
_RESET = struct.pack("ii", 1, 0)


class Link:
    """The plain pipe."""

    __slots__ = ("closed", "deadline", "fd", "idle", "limits", "protocol", "socket", "streaming")

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        self.socket = sock
        self.fd = sock.fileno()
        self.limits = limits
        self.deadline = inf  # when the watchdog interrupts
        self.idle = True  # nothing received that is not answered: may be closed without loss
        self.streaming = False  # an answer without an end is under way; the deadline is its own affair
        self.closed = False
        self.protocol: str | None = None  # what ALPN settled

    async def handshake(self) -> None:
        """Nothing to agree on."""

    def peer_address(self) -> str:
        try:
            return str(self.socket.getpeername()[0])
        except OSError:
            return ""

    def certificate(self) -> dict[str, object] | None:
        return None

    async def receive(self) -> bytes:
        """The next bytes; none at the end. ClosedResourceError when interrupted, OSError when broken."""
        while True:
            await wait_readable(self.fd)
            try:
                return self.socket.recv(RECEIVE)
            except BlockingIOError:
                continue

    def receive_nowait(self) -> bytes:
        """What is there already; empty when nothing is."""
        try:
            return self.socket.recv(RECEIVE)
        except OSError:
            return b""

    async def send(self, data: bytes) -> None:
        """All of it, or ClosedResourceError when it takes too long, OSError when the link broke."""
        rest = self.send_nowait(data)
        if rest is not None:
            await self.send_rest(rest)

    async def send_large(self, lead: bytes, data: bytes) -> None:
        """`send` of both, the first with the beginning of the second: a send of its own would only wake the peer."""
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
        """As much as the socket takes; the rest, in the form it is sent in, is for `send_rest`."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        return None if sent == len(data) else memoryview(data)[sent:]

    async def send_rest(self, data: memoryview) -> None:
        started, before = trio.current_time(), self.deadline
        sent = 0
        try:
            while sent < len(data):
                self.deadline = self.limits.transfer_deadline(started, sent)
                await wait_writable(self.fd)
                try:
                    sent += self.socket.send(data[sent:])
                except BlockingIOError:
                    continue
        finally:
            self.deadline = before

    @property
    def has_unsent(self) -> bool:
        """Bytes that `transmit` took have not left yet."""
        return False

    def transmit(self, data: bytes | memoryview) -> int:
        """Send what fits, now, and say how much was taken; less than zero: taken, but not all has left."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    @staticmethod
    def broadcast(links: Sequence[Link], data: bytes) -> Missed:
        """`transmit` to many."""
        missed: Missed = []
        size = len(data)
        for link in links:
            try:
                sent = link.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                missed.append((link, error))
                continue
            if sent != size:
                missed.append((link, sent))
        return missed

    async def flush(self) -> None:
        """Wait until what was taken has left and more fits, or for an interruption. No time limit."""
        if self.closed:
            raise trio.ClosedResourceError
        try:
            await wait_writable(self.fd)
        except trio.ClosedResourceError:
            if self.closed:
                raise

    def flush_nowait(self) -> None:
        """Send of what was taken as much as fits; here nothing is ever taken that has not left."""

    def interrupt(self) -> None:
        """Wake who waits on this link; no effect on a task that is at work."""
        if not self.closed:
            notify_closing(self.fd)

    def finish(self) -> None:
        """Say that nothing more will be sent; the peer may still be sending."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    async def linger(self) -> None:
        """Finish, then read away what the peer still sends until it ends or the deadline passes."""
        self.finish()
        self.deadline = trio.current_time() + self.limits.linger_seconds
        try:
            while True:
                await wait_readable(self.fd)
                if not self.socket.recv(RECEIVE):
                    return
        except (OSError, trio.ClosedResourceError):
            return

    def close(self) -> None:
        """Orderly: what was sent still arrives."""
        if not self.closed:
            self.finish()
            self._close()

    def abort(self) -> None:
        """At once: unsent data is dropped and the peer sees a reset."""
        if not self.closed:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._close()

    def _close(self) -> None:
        self.closed = True
        notify_closing(self.fd)
        self.socket.close()
        self.fd = -1  # the kernel gives the number to the next connection
