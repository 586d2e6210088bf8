"""TLS on a link: an `ssl.SSLObject` between two memory BIOs, driven by hand.

`SecureLink` is the `Link` of the secure port; the server makes it, `http1` and `http2` use it like a plain
one. Rejected: trio.SSLStream, whose locks and retry loop cost 40 us more a request; and BIOs for each connection,
because one never gives back what it grew to, and a connection lives long. All links of a server share one `Desk`
instead: nothing lies there while anything is awaited. Ciphertext leaves in the order it was made: what the TLS layer
says of its own accord (a key update) waits with the link and goes out with the next answer, which is when the
standard wants it.
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Sequence
from fcntl import ioctl
from termios import TIOCOUTQ

from trio import ClosedResourceError, current_time
from trio.lowlevel import checkpoint, wait_readable

from gateway.connections.limits import Limits
from gateway.connections.link import RECEIVE, Link
from gateway.watch.broadcast import Missed, one_by_one

# What is encrypted at a time: two full records.
SLICE = 32 * 1024
# The same for a peer that has this much on its way already: what it does not take waits here, encrypted, for as long
# as it does not read, and thousands may not.
_MORSEL = 8 * 1024
_BEHIND = 256 * 1024
# Slices that leave in one system call. A peer that stops reading holds no more than this in ciphertext, and
# everybody else gets a turn before the next.
_BURST = 256 * 1024
# The most that TLS puts into one record: reading this much never leaves plain text behind in the SSL object.
_RECORD = 16 * 1024
_HANDSHAKE_RECORD = 0x16
# How often a handshake may be found waiting for us when its time is up: thousands come at once after a restart, and
# each has two or three turns to speak. A peer that sends byte by byte gains no more than these.
_FLIGHTS = 3
# Links of a broadcast that are encrypted for before any of them is sent to. Taking turns with the kernel's network
# code at every link, both would find the processor's caches full of the other's: a tenth of the whole cost.
_TOGETHER = 64


class NotTLS(Exception):
    """The first bytes on the secure port were not a handshake: most often plain HTTP."""


class HandshakeFailed(Exception):
    """The peer and we could not agree; it has been told by an alert where that is possible."""


class Desk:
    """Where ciphertext changes hands. Whoever makes TLS read or write clears both sides before it awaits."""

    __slots__ = ("incoming", "outgoing")

    def __init__(self) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()


class SecureLink(Link):
    __slots__ = ("_ahead", "_desk", "_patience", "_sending", "_tls", "_unsent", "_words")

    def __init__(self, sock: socket.socket, limits: Limits, context: ssl.SSLContext, desk: Desk) -> None:
        super().__init__(sock, limits)
        self._desk = desk
        self._tls = context.wrap_bio(desk.incoming, desk.outgoing, server_side=True)
        self._ahead = b""  # ciphertext received behind the record that was read
        self._words = b""  # ciphertext that TLS made of its own accord
        self._sending = False
        self._patience = _FLIGHTS
        self._unsent: memoryview | None = None  # ciphertext of `transmit` that the socket did not take

    async def handshake(self) -> None:
        data = await self._first_bytes()
        while True:
            self._desk.incoming.write(data)
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._clear_desk()
                await self._drain()
                data = await self._more()
                if not data:
                    raise HandshakeFailed("the peer left") from None
            except (ssl.SSLError, ssl.CertificateError) as error:
                self._clear_desk()
                self._drain_nowait()
                raise HandshakeFailed(str(error)) from error
            else:
                break
        self._clear_desk()
        await self._drain()
        self.protocol = self._tls.selected_alpn_protocol()

    async def _more(self) -> bytes:
        """The peer's next words. If they are here when its time is up, then we are late, not the peer."""
        try:
            return await super().receive()
        except ClosedResourceError:
            data = super().receive_nowait()
            if not data or not self._patience:
                raise
            self._patience -= 1
            self.deadline = current_time() + self.limits.handshake_seconds
            return data

    async def _first_bytes(self) -> bytes:
        data = await self._more()
        if not data:
            raise HandshakeFailed("the peer left")
        if data[0] != _HANDSHAKE_RECORD:
            raise NotTLS
        return data

    def certificate(self) -> dict[str, object] | None:
        # An empty dict would mean a certificate nobody verified.
        return self._tls.getpeercert() or None  # type: ignore[return-value]

    async def receive(self) -> bytes:
        desk = self._desk
        while True:
            data, self._ahead = self._ahead, b""
            if not data:
                await wait_readable(self.fd)
                try:
                    data = self.socket.recv(RECEIVE)
                except BlockingIOError:
                    continue
                if not data:
                    return b""
            desk.incoming.write(data)
            try:
                return self._tls.read(_RECORD)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLError:
                self._drain_nowait()
                raise
            finally:
                if desk.incoming.pending or desk.outgoing.pending:
                    self._clear_desk()

    def receive_nowait(self) -> bytes:
        data, self._ahead = self._ahead or super().receive_nowait(), b""
        self._desk.incoming.write(data)
        try:
            return self._tls.read(_RECORD)
        except ssl.SSLError:
            return b""
        finally:
            self._clear_desk()

    def _clear_desk(self) -> None:
        desk = self._desk
        if desk.incoming.pending:
            self._ahead = desk.incoming.read()
        if desk.outgoing.pending:
            self._words += desk.outgoing.read()

    def _encrypt(self, data: bytes | memoryview) -> bytes:
        """All ciphertext that has not been sent, in the order it was made, that of `data` last."""
        try:
            self._tls.write(data)
        except OSError:
            self._clear_desk()
            raise
        cipher = self._desk.outgoing.read()
        if self._words:
            cipher, self._words = self._words + cipher, b""
        return cipher

    async def send(self, data: bytes) -> None:
        if len(data) <= SLICE:
            await super().send(data)
        else:
            await self.send_large(b"", data)

    async def send_large(self, lead: bytes, data: bytes) -> None:
        view = memoryview(data)
        ciphers = [self._encrypt(lead)] if lead else []
        for start in range(0, len(view), _BURST):
            if start:
                await checkpoint()
            rest = self._send_burst(ciphers, view[start : start + _BURST])
            if rest is not None:
                await self.send_rest(rest)
            ciphers = []

    def send_nowait(self, data: bytes) -> memoryview | None:
        return self._send_cipher(self._encrypt(data))

    def _send_cipher(self, cipher: bytes) -> memoryview | None:
        try:
            sent = self.socket.send(cipher)
        except BlockingIOError:
            sent = 0
        return None if sent == len(cipher) else memoryview(cipher)[sent:]

    def _send_burst(self, ciphers: list[bytes], plain: memoryview) -> memoryview | None:
        for start in range(0, len(plain), SLICE):
            ciphers.append(self._encrypt(plain[start : start + SLICE]))
        try:
            sent = self.socket.sendmsg(ciphers)
        except BlockingIOError:
            sent = 0
        if sent == sum(map(len, ciphers)):
            return None
        return memoryview(b"".join(ciphers))[sent:]

    @property
    def has_unsent(self) -> bool:
        return self._unsent is not None

    def transmit(self, data: bytes | memoryview) -> int:
        """As a plain link does; at most one slice of ciphertext waits here."""
        if self._unsent is not None:
            return 0
        taken, size = 0, len(data)
        while taken < size:
            piece = _MORSEL if size > _MORSEL and self._behind() else SLICE
            part = data if not taken and size <= piece else memoryview(data)[taken : taken + piece]
            taken += len(part)
            self._unsent = self._send_cipher(self._encrypt(part))
            if self._unsent is not None:
                self._sending = True
                return -taken
        return taken

    def _behind(self) -> bool:
        """Whether the peer has much to take before what is sent now."""
        try:
            return int.from_bytes(ioctl(self.fd, TIOCOUTQ, bytes(4)), sys.byteorder) > _BEHIND
        except OSError:
            return False

    @staticmethod
    def broadcast(links: Sequence[SecureLink], data: bytes) -> Missed:  # type: ignore[override]
        """`transmit` to many, some at a time: first they are all encrypted for, then all sent to."""
        if len(data) > SLICE:
            return one_by_one(links, data)
        missed: Missed = []
        for first in range(0, len(links), _TOGETHER):
            sealed = _seal(links[first : first + _TOGETHER], data, missed)
            for link, cipher in sealed:
                try:
                    sent = link.socket.send(cipher)
                except BlockingIOError:
                    sent = 0
                except OSError as error:
                    missed.append((link, error))
                    continue
                if sent != len(cipher):
                    link._unsent, link._sending = memoryview(cipher)[sent:], True
                    missed.append((link, -len(data)))
        return missed

    async def flush(self) -> None:
        await super().flush()
        self.flush_nowait()

    def flush_nowait(self) -> None:
        if self._unsent is not None:
            try:
                self._unsent = self._unsent[self.socket.send(self._unsent) :] or None
            except BlockingIOError:
                return
            self._sending = self._unsent is not None

    async def send_rest(self, data: memoryview) -> None:
        self._sending = True
        try:
            await super().send_rest(data)
        finally:
            self._sending = False
        await self._drain()

    async def _drain(self) -> None:
        while self._words:
            words, self._words = self._words, b""
            rest = self._send_cipher(words)
            if rest is not None:
                await self.send_rest(rest)

    def _drain_nowait(self) -> None:
        self._clear_desk()
        if self._words and not self._sending:
            words, self._words = self._words, b""
            try:
                self.socket.send(words)
            except OSError:
                pass

    def finish(self) -> None:
        """close_notify, then the end of our side: a truncated answer can be told from a whole one."""
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # the peer's own close_notify is not waited for
        self._drain_nowait()
        super().finish()


def _seal(links: Sequence[SecureLink], data: bytes, missed: Missed) -> list[tuple[SecureLink, bytes]]:
    """The ciphertext for each link that can take some; links behind get theirs at once, in morsels."""
    sealed: list[tuple[SecureLink, bytes]] = []
    for link in links:
        if link._unsent is not None:
            missed.append((link, 0))
            continue
        try:
            if len(data) > _MORSEL and link._behind():
                taken = link.transmit(data)
                if taken != len(data):
                    missed.append((link, taken))
                continue
            sealed.append((link, link._encrypt(data)))
        except OSError as error:
            missed.append((link, error))
    return sealed
