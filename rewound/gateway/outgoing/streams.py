"""Streams of bytes to other servers: sockets, and TLS over a socket or over another stream of its kind.

Rejected: trio's SSLStream, which costs several times as much per call. Here one task sends and one receives, which may
be the same, and the name in the peer's certificate does not depend on the dialled address.
"""

from __future__ import annotations

import select
import socket as stdlib_socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

import trio

from rewound.actors.access.remote.deadlines import TooSlow
from rewound.actors.runtime.turns import SharedTurns

_T = TypeVar("_T")

# Sizes of reads: small at first, because each read allocates its size and most responses are short.
FIRST_PART: Final = 1 << 12
PART: Final = 1 << 16
RECORD: Final = 1 << 14  # the largest TLS record


class ByteStream(Protocol):
    async def send(self, data: bytes) -> None: ...
    async def receive(self) -> bytes:
        """At least one byte, or b"" at the end."""

    def readable(self) -> bool:
        """Whether bytes or the end of the stream can be read without waiting."""

    def expire(self) -> None:
        """Make current and later waits for the stream raise TooSlow."""

    def close(self) -> None: ...


class SocketByteStream:
    """A connected socket. It has a checkpoint only where it waits.

    `turns` divides the work over several passes of the event loop when many responses arrive at once.
    """

    __slots__ = ("_expired", "_part", "_poll", "_socket", "_turns")

    def __init__(self, socket: stdlib_socket.socket, turns: SharedTurns) -> None:
        self._socket = socket
        self._turns = turns
        self._part = FIRST_PART
        self._expired = False
        self._poll = select.poll()
        self._poll.register(socket, select.POLLIN)

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_writable(self._socket)
                except trio.ClosedResourceError:
                    raise TooSlow from None
            if self._expired:
                raise TooSlow

    async def receive(self) -> bytes:
        while not self._expired:
            try:
                await trio.lowlevel.wait_readable(self._socket)
            except trio.ClosedResourceError:
                break
            if self._turns.over():
                await self._turns.next()
            try:
                arrived = self._socket.recv(self._part)
            except BlockingIOError:
                continue
            self._part = FIRST_PART if len(arrived) < self._part else PART
            return arrived
        raise TooSlow

    def readable(self) -> bool:
        return bool(self._poll.poll(0))

    def expire(self) -> None:
        self._expired = True
        trio.lowlevel.notify_closing(self._socket)  # waiting tasks get ClosedResourceError

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TlsStream:
    __slots__ = ("_flushed", "_flushing", "_incoming", "_outgoing", "_tls", "_transport", "_unsent")

    def __init__(
        self, transport: ByteStream, context: ssl.SSLContext, server_name: str, outgoing: ssl.MemoryBIO
    ) -> None:
        """`server_name`: the host name or IP address that the certificate of the peer must have.

        `outgoing` may be shared with other streams of the event loop, because a BIO never frees the several kilobytes
        that it grew to. So each step of TLS empties it.
        """
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), outgoing
        self._unsent = b""
        self._flushing = False
        self._flushed: trio.Event | None = None  # set when the other task has sent
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name or None)

    async def handshake(self) -> None:
        """Raises ssl.SSLError if the certificate is not valid for the name, or the peer does not speak TLS."""
        await self._exchange(self._tls.do_handshake)
        await self._flush()

    async def send(self, data: bytes) -> None:
        try:
            written = self._step(partial(self._tls.write, data))
        except ssl.SSLWantReadError:
            written = 0
        if written < len(data):
            await self._write_rest(memoryview(data)[written:])
        await self._flush()

    async def receive(self) -> bytes:
        """b"" at the end, also without close_notify: the reader knows how long a message is."""
        try:
            if not self._incoming.pending and not self._tls.pending():
                await self._arrive()  # spare OpenSSL the attempt
            try:
                return self._step(self._read)
            except ssl.SSLWantReadError:
                return await self._exchange(self._read)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def readable(self) -> bool:
        return bool(self._incoming.pending) or bool(self._tls.pending()) or self._transport.readable()

    def expire(self) -> None:
        self._transport.expire()

    def close(self) -> None:
        self._transport.close()

    async def _write_rest(self, rest: memoryview) -> None:
        """OpenSSL takes one record at a time."""
        while rest:
            rest = rest[await self._exchange(partial(self._tls.write, rest)) :]

    def _read(self) -> bytes:
        # At most what can have arrived, because OpenSSL allocates that much.
        return self._tls.read(min(self._incoming.pending + self._tls.pending() or 1, RECORD))

    async def _exchange(self, step: Callable[[], _T]) -> _T:
        """Repeat a TLS operation until it needs no more bytes of the peer."""
        while True:
            try:
                return self._step(step)
            except ssl.SSLWantReadError:
                if not self._flushing:  # else the sending task sends it: receiving must not wait for that
                    await self._flush()
                await self._arrive()

    def _step(self, step: Callable[[], _T]) -> _T:
        """Run a TLS operation and move its output out of the shared BIO, also the alert of an error."""
        try:
            return step()
        finally:
            if self._outgoing.pending:
                self._unsent += self._outgoing.read()

    async def _arrive(self) -> None:
        arrived = await self._transport.receive()
        if arrived:
            self._incoming.write(arrived)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        while self._unsent:
            if self._flushing:
                self._flushed = self._flushed or trio.Event()
                await self._flushed.wait()
                continue
            unsent, self._unsent = self._unsent, b""
            self._flushing = True
            try:
                await self._transport.send(unsent)
            finally:
                self._flushing = False
                if self._flushed is not None:
                    self._flushed.set()
                    self._flushed = None
