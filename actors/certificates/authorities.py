"""The CAs that controllers use: one for each signer, and the certificate by which clients verify this server.

Without other files, all of it is the data folder's own CA. It is made when a controller first needs it if no secure
port has made it before: in a thread, which starts a process, never in the event loop. Files that an operator names are
read again with every use, so that a renewed CA needs no restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from actors.certificates.store import CertificateError, Certificates


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: bytes  # PEM; the first certificate is the one that signs
    key: bytes = field(repr=False)  # PEM


@dataclass(frozen=True, slots=True)
class AuthorityFiles:
    certificate: Path
    key: Path

    def read(self) -> Authority:
        try:
            return Authority(self.certificate.read_bytes(), self.key.read_bytes())
        except OSError as error:
            raise CertificateError(f"cannot read the CA {error.filename}: {error.strerror}") from error


class Authorities:
    def __init__(
        self,
        prepare: Callable[[], Certificates],
        signers: Mapping[str, AuthorityFiles] | None = None,
        server_certificate: Path | None = None,
    ) -> None:
        """`prepare` returns the data folder's certificates; `signers` has the files of signers with another CA."""
        self._prepare = prepare
        self._signers = dict(signers or {})
        self._server_certificate = server_certificate
        self._own: Certificates | None = None
        self._preparing = trio.Lock()

    async def of_signer(self, signer: str) -> Authority:
        """The CA that signs the certificates of this signer. Raises CertificateError."""
        files = self._signers.get(signer) or await self._own_files()
        return await trio.to_thread.run_sync(files.read)

    async def server_certificate(self) -> bytes:
        """PEM: the CA of this server's serving certificate, or that certificate where an operator gave it."""
        path = self._server_certificate or (await self._own_files()).certificate
        return await trio.to_thread.run_sync(_read, path)

    async def certificates(self) -> Certificates:
        """The certificates of the data folder. Raises CertificateError."""
        async with self._preparing:
            if self._own is None:
                self._own = await trio.to_thread.run_sync(self._prepare)
            return self._own

    async def _own_files(self) -> AuthorityFiles:
        own = await self.certificates()
        return AuthorityFiles(own.authority, own.key("ca"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}") from error
