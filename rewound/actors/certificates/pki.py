"""The folder `pki`: five certificates with their keys, and an index with their expiry and names.

    ca.crt server.crt admin.crt     0644
    ca.key server.key admin.key     0600 from the moment they exist
    proxy-ca.crt proxy.crt ...      another CA, and the certificate that identifies this server to aggregated ones
    index.json                      per name: digest of certificate and key, expiry, names, digest of the CA

The proxy certificate has its own CA, because aggregated servers trust its user headers: no certificate requested from
the CA of the cluster may impersonate it.

Most starts only compare digests and dates with the index. If anything differs, a child process reads the
certificates, keeps the valid ones and replaces the others (`issue.py`). The index is written last: after a crash in
between, the next start checks again. Rejected: reading expiry dates from the certificates at every start, which would
load the certificate library into the server.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from rewound.actors.certificates.issuing_process import IssuingFailed, make_certificates
from rewound.actors.identity import MASTERS
from rewound.journal.files.private import private_folder, read_regular

NAMES = ("ca", "server", "admin", "proxy-ca", "proxy")
_PROXY = frozenset({"proxy-ca", "proxy"})
# A server that restarts at least once a month never serves an expired certificate; they are valid for a year.
RENEW_BEFORE = 30 * 86400
# The secure port and the controllers prepare the same folder, the controllers in a thread. A second CA would replace
# the first.
_preparing = threading.Lock()

Pems = dict[str, tuple[str, str]]  # name -> certificate, key
Index = dict[str, dict[str, Any]]


class CertificateError(Exception):
    """Certificates cannot be created or used; the text says what to do."""


class Certificates(msgspec.Struct, frozen=True):
    folder: Path
    made: tuple[str, ...]  # created by this start

    @property
    def authority(self) -> Path:
        return self.certificate("ca")

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"


def prepare(folder: Path, names: tuple[str, ...], now: float) -> Certificates:
    """Certificates that are valid for at least a month, the serving one for all these names."""
    with _preparing:
        return _prepare(folder, names, now)


def _prepare(folder: Path, names: tuple[str, ...], now: float) -> Certificates:
    try:
        private_folder(folder)
        with one_process_at_a_time(folder):
            pems, index = _read_pems(folder), _read_index(folder)
            if _valid(pems, index, names, now):
                return Certificates(folder, ())
            renewed, facts = _renewed(pems, names, now)
            made = tuple(name for name in NAMES if renewed[name] != pems.get(name))
            for name in made:
                certificate, key = renewed[name]
                write_atomically(folder / f"{name}.key", key.encode(), 0o600)
                write_atomically(folder / f"{name}.crt", certificate.encode(), 0o644)
            text = json.dumps(_indexed(renewed, facts), indent=1)
            write_atomically(folder / "index.json", text.encode(), 0o644)
    except OSError as error:
        raise CertificateError(
            f"cannot keep certificates in {folder}: {error.strerror}; make the folder readable and writable, "
            "or choose another with --data-dir"
        ) from error
    return Certificates(folder, made)


@contextmanager
def one_process_at_a_time(folder: Path) -> Iterator[None]:
    """Wait for other processes of the server that create files in this folder. Raises OSError if it is not writable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Write a file so that readers see the old one or the whole new one, never one with wider permissions."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _read_pems(folder: Path) -> Pems:
    pems: Pems = {}
    for name in NAMES:
        try:
            certificate = (folder / f"{name}.crt").read_text("ascii")
            key = (folder / f"{name}.key").read_text("ascii")
        except (FileNotFoundError, UnicodeDecodeError):
            continue
        pems[name] = (certificate, key)
    return pems


def _read_index(folder: Path) -> Index:
    try:
        index = json.loads(read_regular(folder / "index.json"))
    except (FileNotFoundError, ValueError):
        return {}
    return index if isinstance(index, dict) else {}


def _valid(pems: Pems, index: Index, names: tuple[str, ...], now: float) -> bool:
    try:
        return all(
            index[name]["digest"] == _digest(*pems[name])
            and index[name]["authority"] == _digest(*pems[_authority_of(name)])
            and index[name]["expires"] > now + RENEW_BEFORE
            for name in NAMES
        ) and set(names) <= set(index["server"]["names"])
    except (KeyError, TypeError):
        # Not one of our indexes.
        return False


def _indexed(pems: Pems, facts: Index) -> Index:
    digests = {name: _digest(*pems[name]) for name in NAMES}
    return {
        name: {"digest": digests[name], "authority": digests[_authority_of(name)], **facts[name]}
        for name in NAMES
    }


def _authority_of(name: str) -> str:
    return "proxy-ca" if name in _PROXY else "ca"


def _digest(certificate: str, key: str) -> str:
    return hashlib.sha256(f"{certificate}\n{key}".encode()).hexdigest()


def _renewed(pems: Pems, names: tuple[str, ...], now: float) -> tuple[Pems, Index]:
    """Run `issue.renew` in a child process."""
    request = {
        "pems": pems,
        "names": names,
        "administrators": MASTERS,
        "now": now,
        "renew_before": RENEW_BEFORE,
    }
    try:
        response = make_certificates(request)
    except IssuingFailed as error:
        raise CertificateError(str(error)) from error
    return {name: tuple(pair) for name, pair in response["pems"].items()}, response["facts"]
