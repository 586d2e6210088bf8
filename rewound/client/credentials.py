"""Credentials of requests, and the interface of their sources.

The client asks its `CredentialSource` before every request, and reports a credential that got 401. A source keeps a
credential until it expires or is rejected.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rewound.client.errors import ClientError, CredentialError


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM: a certificate with the intermediates that are sent with it, and its key."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(...)"


@dataclass(frozen=True, slots=True)
class Credential:
    authorization: str = ""  # the value of the header
    pair: KeyPair | None = None

    def __repr__(self) -> str:
        return "Credential(...)"


ANONYMOUS = Credential()


class CredentialSource(Protocol):
    def credential(self) -> Credential: ...

    def rejected(self, credential: Credential) -> None:
        """The server responded with 401 to a request with this credential."""


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class FixedCredential:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def credential(self) -> Credential:
        return self._credential

    def rejected(self, credential: Credential) -> None:
        """Does nothing: there is no other credential."""


class PairFiles:
    """A certificate and a key in files that another program renews, with the token of another source.

    Both are read again when a file has changed. While they do not match, as between two writes, the old ones are used.
    """

    def __init__(
        self, source: CredentialSource, pair: KeyPair, read: Callable[[], KeyPair], files: Sequence[Path]
    ) -> None:
        self._source, self._pair, self._read, self._files = source, pair, read, files
        self._version = self._versions()

    def credential(self) -> Credential:
        version = self._versions()
        if version != self._version:
            with suppress(ClientError, ValueError):
                self._pair, self._version = self._read(), version
        return replace(self._source.credential(), pair=self._pair)

    def rejected(self, credential: Credential) -> None:
        self._source.rejected(credential)

    def _versions(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for path in self._files:
            with suppress(OSError):
                one = os.stat(path)
                found.append((one.st_mtime_ns, one.st_ino, one.st_size))
        return found


class TokenFile:
    """A token in a file that another program replaces: read again when the file has changed.

    As with kubectl, the last token stays in use while the file cannot be read: it may be about to be replaced. Until
    the file was read once, the user's `token` is used.
    """

    def __init__(self, path: Path, field: str, pair: KeyPair | None, token: str = "") -> None:
        self._path, self._field, self._pair = path, field, pair
        self._version: tuple[int, ...] = ()
        self._credential = Credential(bearer(token), pair) if token else ANONYMOUS

    def credential(self) -> Credential:
        try:
            self._read_if_changed()
        except CredentialError:
            if not self._credential.authorization:
                raise
        return self._credential

    def _read_if_changed(self) -> None:
        try:
            found = os.stat(self._path)
            version = (found.st_mtime_ns, found.st_ino, found.st_size)
            if version != self._version:
                self._credential = Credential(bearer(self._read()), self._pair)
                self._version = version
        except OSError as error:
            raise CredentialError(
                f"{self._field}: cannot read {self._path}: {error.strerror}; check the path and its permissions"
            ) from error

    def _read(self) -> str:
        token = self._path.read_bytes().strip()
        if not token or not token.isascii() or any(byte <= 32 for byte in token):
            raise CredentialError(
                f"{self._field}: {self._path} has no token in its first line; write one into it"
            )
        return token.decode()

    def rejected(self, credential: Credential) -> None:
        self._version = ()
