"""TLS on a link: an `ssl.SSLObject` between two memory BIOs, driven by hand.

`SecureLink` is the `Link` of the secure port; the server makes it, `http1` and `http2` use it like a plain
one. Driving the SSLObject here costs 10 us a request over plain; trio.SSLStream, with its locks and retry
loop, cost 50 us. Ciphertext leaves in the order it was made: whoever sends drains the outgoing BIO to the
end, and the receiving side leaves its own few bytes (alerts, key updates) to a sender at work.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from trio.lowlevel import checkpoint, wait_readable

from gateway.limits import Limits
from gateway.link import RECEIVE, Link

# Four full records: large enough that a list of megabytes is not all system calls, small enough that a peer
# that stops reading holds no more than this in ciphertext and others get their turn.
_SLICE = 64 * 1024
# The most that TLS puts into one record: reading this much never leaves plain text behind in the SSL object.
_RECORD = 16 * 1024
_HANDSHAKE_RECORD = 0x16


class NotTLS(Exception):
    """The first bytes on the secure port were not a handshake: most often plain HTTP."""


class HandshakeFailed(Exception):
    """The peer and we could not agree; it has been told by an alert where that is possible."""


def serving_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """A context for `Server.serve`: TLS 1.2 or newer; client certificates are asked for, not demanded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class SecureLink(Link):
    __slots__ = ("_incoming", "_outgoing", "_sending", "_tls")

    def __init__(self, sock: socket.socket, limits: Limits, context: ssl.SSLContext) -> None:
        super().__init__(sock, limits)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = False

    async def handshake(self) -> None:
        self._incoming.write(await self._first_bytes())
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._drain()
                data = await super().receive()
                if not data:
                    raise HandshakeFailed("the peer left") from None
                self._incoming.write(data)
            except (ssl.SSLError, ssl.CertificateError) as error:
                self._drain_nowait()
                raise HandshakeFailed(str(error)) from error
            else:
                break
        await self._drain()
        self.protocol = self._tls.selected_alpn_protocol()

    async def _first_bytes(self) -> bytes:
        data = await super().receive()
        if not data:
            raise HandshakeFailed("the peer left")
        if data[0] != _HANDSHAKE_RECORD:
            raise NotTLS
        return data

    def certificate(self) -> dict[str, object] | None:
        # An empty dict would mean a certificate nobody verified.
        return self._tls.getpeercert() or None  # type: ignore[return-value]

    async def receive(self) -> bytes:
        incoming = self._incoming
        while True:
            if not incoming.pending:
                await wait_readable(self.fd)
                try:
                    data = self.socket.recv(RECEIVE)
                except BlockingIOError:
                    continue
                if not data:
                    return b""
                incoming.write(data)
            plain = self._decrypt()
            if self._outgoing.pending and not self._sending:
                await self._drain()
            if plain is not None:
                return plain

    def receive_nowait(self) -> bytes:
        self._incoming.write(super().receive_nowait())
        return self._decrypt() or b""

    def _decrypt(self) -> bytes | None:
        """One record; None when none is whole, empty at the peer's close_notify."""
        try:
            return self._tls.read(_RECORD)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return b""

    async def send(self, data: bytes) -> None:
        if len(data) <= _SLICE:
            await super().send(data)
            return
        view = memoryview(data)
        for start in range(0, len(view), _SLICE):
            if start:
                await checkpoint()
            self._tls.write(view[start : start + _SLICE])
            await self._drain()

    def send_nowait(self, data: bytes) -> memoryview | None:
        self._tls.write(data)
        return self._send_cipher()

    def _send_cipher(self) -> memoryview | None:
        cipher = self._outgoing.read()
        try:
            sent = self.socket.send(cipher)
        except BlockingIOError:
            sent = 0
        return None if sent == len(cipher) else memoryview(cipher)[sent:]

    async def send_rest(self, data: memoryview) -> None:
        self._sending = True
        try:
            await super().send_rest(data)
        finally:
            self._sending = False
        await self._drain()

    async def _drain(self) -> None:
        while self._outgoing.pending:
            rest = self._send_cipher()
            if rest is not None:
                await self.send_rest(rest)

    def _drain_nowait(self) -> None:
        if not self._sending:
            try:
                self.socket.send(self._outgoing.read())
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
