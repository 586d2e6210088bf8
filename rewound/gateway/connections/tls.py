"""TLS on a transport: an `ssl.SSLObject` between two memory BIOs.

`TlsTransport` is the `Transport` of the secure port; the server creates it, `http1` and `http2` use it like a plain
one. Rejected: trio.SSLStream, whose locks and retry loop cost 50 us more per request (docs/decisions/0005-tls.md);
and BIOs for each connection, because a BIO never frees the memory it grew to, and connections live long. All
transports of a server share one `SharedBios` instead, which is empty whenever a task awaits. Ciphertext is sent in
the order it was made: what OpenSSL writes by itself (a key update) waits in the transport and is sent with the next
response, as the standard requires.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from trio import ClosedResourceError, current_time
from trio.lowlevel import checkpoint, wait_readable

from rewound.actors.certificates.pools import verified_chain
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.transport import RECEIVE, Transport
from rewound.gateway.watch.broadcast import Missed, one_by_one

# Bytes encrypted at a time: two full records.
SLICE = 32 * 1024
# The same for a peer that is far `behind`: the ciphertext that it does not take stays in memory until it reads, and
# thousands may not read.
SMALL_SLICE = 8 * 1024
# Transports of a broadcast to encrypt for before sending to any of them. Alternating between OpenSSL and the kernel's
# network code at every transport would evict each other's code from the processor's caches: a tenth of the whole cost.
_BROADCAST_BATCH = 64
# Bytes encrypted for one system call. A peer that stops reading keeps no more than this in memory as ciphertext, and
# other tasks run before the next.
_BURST = 256 * 1024
# The largest TLS record: reading this much leaves no plain text in the SSL object.
_RECORD = 16 * 1024
_HANDSHAKE_RECORD = 0x16
# How often the deadline of a handshake is extended because the peer's bytes had arrived and we had not read them:
# thousands connect at once after a restart, each with two or three flights. A peer that sends byte by byte gains no
# more than these.
_MAX_EXTENSIONS = 3


class NotTLS(Exception):
    """The first bytes on the secure port were not a handshake: most often plain HTTP."""


class HandshakeFailed(Exception):
    """The TLS handshake failed; an alert has been sent to the peer if possible."""


class SharedBios:
    """The memory BIOs that all SSL objects of a server share; each user empties both before it awaits."""

    __slots__ = ("incoming", "outgoing")

    def __init__(self) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()


class TlsTransport(Transport):
    __slots__ = (
        "_bios",
        "_context",
        "_extensions",
        "_failure",
        "_output",
        "_received",
        "_sending",
        "_tls",
        "_unsent",
    )

    _tls: ssl.SSLObject

    def __init__(
        self, sock: socket.socket, limits: Limits, context: ssl.SSLContext, bios: SharedBios
    ) -> None:
        super().__init__(sock, limits)
        self._bios = bios
        # Until the handshake begins: thousands may wait for that, and `_tls` is most of what they would hold.
        self._context: ssl.SSLContext | None = context
        self._received = b""  # ciphertext received after the record that was read
        self._failure: ssl.SSLError | None = None  # what followed the bytes that `receive` returned last
        self._output = b""  # ciphertext that OpenSSL wrote by itself: handshake, key update, alert
        self._sending = False
        self._extensions = _MAX_EXTENSIONS  # left
        self._unsent: memoryview | None = None  # ciphertext of `transmit` that is not sent yet

    async def handshake(self) -> None:
        data = await self._first_bytes()
        context, self._context = self._context, None
        assert context is not None, "a connection has one handshake"
        self._tls = context.wrap_bio(self._bios.incoming, self._bios.outgoing, server_side=True)
        while True:
            self._bios.incoming.write(data)
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._empty_bios()
                await self._drain()
                data = await self._more()
                if not data:
                    raise HandshakeFailed("the peer disconnected") from None
            except (ssl.SSLError, ssl.CertificateError) as error:
                self._empty_bios()
                self._drain_nowait()
                raise HandshakeFailed(str(error)) from error
            else:
                break
        self._empty_bios()
        await self._drain()
        self.protocol = self._tls.selected_alpn_protocol()

    async def _more(self) -> bytes:
        """Return the peer's next bytes; extend the deadline if they had arrived by then: we are late, not the peer."""
        try:
            return await super().receive()
        except ClosedResourceError:
            data = super().receive_nowait()
            if not data or not self._extensions:
                raise
            self._extensions -= 1
            self.deadline = current_time() + self.limits.handshake_seconds
            return data

    async def _first_bytes(self) -> bytes:
        data = await self._more()
        if not data:
            raise HandshakeFailed("the peer disconnected")
        if data[0] != _HANDSHAKE_RECORD:
            raise NotTLS
        return data

    def certificate(self) -> dict[str, object] | None:
        # An empty dict would mean a certificate that was not verified.
        return self._tls.getpeercert() or None  # type: ignore[return-value]

    def certificate_chain(self) -> tuple[bytes, list[bytes] | None]:
        """The client's certificate and its verified chain, as `TrustPools.of` takes them."""
        return self._tls.getpeercert(binary_form=True) or b"", verified_chain(self._tls)

    async def receive(self) -> bytes:
        bios = self._bios
        incoming = bios.incoming
        if self.unauthenticated is not None:
            self.unauthenticated.pause()
        while True:
            data = self._received
            if data:
                self._received = b""
            else:
                if self._failure is not None:
                    return self._ended(self._failure)
                await wait_readable(self.fd)
                if self.unauthenticated is not None:
                    await self.unauthenticated.turn()
                elif self.turns is not None and self.turns.over():
                    await self.turns.wait(self)
                try:
                    data = self.socket.recv(RECEIVE)
                except BlockingIOError:
                    continue
                if not data:
                    return b""
            incoming.write(data)
            try:
                plain: bytes = self._tls.read(_RECORD)
            except ssl.SSLWantReadError:
                self._empty_bios()
                continue
            except ssl.SSLError as error:
                self._empty_bios()
                return self._ended(error)
            if incoming.pending:
                plain = self._with_more_records(plain)
                self._empty_bios()
            elif bios.outgoing.pending:
                self._empty_bios()
            return plain

    def _with_more_records(self, plain: bytes) -> bytes:
        """Return these bytes and those of the records that arrived together with them."""
        parts = [plain]
        try:
            while self._bios.incoming.pending:
                more = self._tls.read(_RECORD)
                if not more:
                    raise ssl.SSLZeroReturnError("the peer sent close_notify")
                parts.append(more)
        except ssl.SSLWantReadError:
            pass  # part of a record, which waits for its rest
        except ssl.SSLError as error:
            self._failure = error.with_traceback(None)  # for the next call: the peer may send nothing more
        return b"".join(parts)

    def _ended(self, error: ssl.SSLError) -> bytes:
        """Return b"" at the peer's close_notify, else send the alert and raise."""
        if isinstance(error, ssl.SSLZeroReturnError):
            return b""
        self._drain_nowait()
        raise error

    def receive_nowait(self) -> bytes:
        data, self._received = self._received or super().receive_nowait(), b""
        self._bios.incoming.write(data)
        try:
            return self._with_more_records(self._tls.read(_RECORD))
        except ssl.SSLError:
            return b""
        finally:
            self._empty_bios()

    def _empty_bios(self) -> None:
        bios = self._bios
        if bios.incoming.pending:
            self._received = bios.incoming.read()
        if bios.outgoing.pending:
            self._output += bios.outgoing.read()

    def _encrypt(self, data: bytes | memoryview) -> bytes:
        """Return all unsent ciphertext in the order it was made, that of `data` last."""
        try:
            self._tls.write(data)
        except OSError:
            self._empty_bios()
            raise
        cipher = self._bios.outgoing.read()
        if self._output:
            cipher, self._output = self._output + cipher, b""
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
        try:  # as `_encrypt` and `_send_cipher`, without their calls
            self._tls.write(data)
        except OSError:
            self._empty_bios()
            raise
        cipher = self._bios.outgoing.read()
        if self._output:
            cipher, self._output = self._output + cipher, b""
        try:
            sent = self.socket.send(cipher)
        except BlockingIOError:
            sent = 0
        return None if sent == len(cipher) else memoryview(cipher)[sent:]

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
    def unsent(self) -> int:
        return 0 if self._unsent is None else len(self._unsent)

    def transmit(self, data: bytes | memoryview) -> int:
        """Like `Transport.transmit`; keeps at most one slice of ciphertext."""
        if self._unsent is not None:
            return 0
        taken, size = 0, len(data)
        while taken < size:
            piece = SMALL_SLICE if size > SMALL_SLICE and self.behind() else SLICE
            part = data if not taken and size <= piece else memoryview(data)[taken : taken + piece]
            taken += len(part)
            self._unsent = self._send_cipher(self._encrypt(part))
            if self._unsent is not None:
                self._sending = True
                return -taken
        return taken

    def transmit_burst(self, data: bytes | memoryview) -> int:
        """Encrypt up to _BURST bytes and send them in one system call; what the socket does not take waits."""
        if self._unsent is not None:
            return 0
        part = memoryview(data)[:_BURST]
        self._unsent = self._send_burst([], part)
        if self._unsent is None:
            return len(part)
        self._sending = True
        return -len(part)

    @staticmethod
    def broadcast(transports: Sequence[TlsTransport], data: bytes) -> Missed:
        """`transmit` to many, in batches: first encrypt for each, then send to each."""
        if len(data) > SLICE:
            return one_by_one(transports, data)
        missed: Missed = []
        for first in range(0, len(transports), _BROADCAST_BATCH):
            encrypted = TlsTransport._encrypt_each(transports[first : first + _BROADCAST_BATCH], data, missed)
            for transport, cipher in encrypted:
                try:
                    sent = transport.socket.send(cipher)
                except BlockingIOError:
                    sent = 0
                except OSError as error:
                    missed.append((transport, error))
                    continue
                if sent != len(cipher):
                    transport._unsent, transport._sending = memoryview(cipher)[sent:], True
                    missed.append((transport, -len(data)))
        return missed

    @staticmethod
    def send_each(
        parcels: Sequence[tuple[TlsTransport, bytes | memoryview]],
    ) -> list[tuple[int, int | Exception]]:
        """`transmit` different bytes to each transport, in batches: first encrypt for each, then send to each."""
        missed: list[tuple[int, int | Exception]] = []
        for first in range(0, len(parcels), _BROADCAST_BATCH):
            encrypted: list[tuple[int, TlsTransport, bytes]] = []
            for index, (transport, data) in enumerate(parcels[first : first + _BROADCAST_BATCH], first):
                try:
                    if len(data) > SMALL_SLICE or transport._unsent is not None:
                        taken = transport.transmit(data)
                        if taken != len(data):
                            missed.append((index, taken))
                        continue
                    transport._tls.write(data)
                    cipher = transport._bios.outgoing.read()
                except OSError as error:
                    transport._empty_bios()
                    missed.append((index, error))
                    continue
                if transport._output:
                    cipher, transport._output = transport._output + cipher, b""
                encrypted.append((index, transport, cipher))
            for index, transport, cipher in encrypted:
                try:
                    sent = transport.socket.send(cipher)
                except BlockingIOError:
                    sent = 0
                except OSError as error:
                    missed.append((index, error))
                    continue
                if sent != len(cipher):
                    transport._unsent, transport._sending = memoryview(cipher)[sent:], True
                    missed.append((index, -len(parcels[index][1])))
        return missed

    @staticmethod
    def _encrypt_each(
        transports: Sequence[TlsTransport], data: bytes, missed: Missed
    ) -> list[tuple[TlsTransport, bytes]]:
        """Return the ciphertext for each transport that can take it; send to those behind at once, in small slices."""
        encrypted: list[tuple[TlsTransport, bytes]] = []
        for transport in transports:
            if transport._unsent is not None:
                missed.append((transport, 0))
                continue
            try:
                if len(data) > SMALL_SLICE and transport.behind():
                    taken = transport.transmit(data)
                    if taken != len(data):
                        missed.append((transport, taken))
                    continue
                encrypted.append((transport, transport._encrypt(data)))
            except OSError as error:
                missed.append((transport, error))
        return encrypted

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
        while self._output:
            output, self._output = self._output, b""
            rest = self._send_cipher(output)
            if rest is not None:
                await self.send_rest(rest)

    def _drain_nowait(self) -> None:
        self._empty_bios()
        if self._output and not self._sending:
            output, self._output = self._output, b""
            try:
                self.socket.send(output)
            except OSError:
                pass

    def send_eof(self) -> None:
        """Send close_notify, then FIN: the peer can distinguish a truncated response from a whole one."""
        if self._context is None:
            with suppress(ssl.SSLError, ValueError):
                self._tls.unwrap()  # do not wait for the peer's close_notify
            self._drain_nowait()
        super().send_eof()
