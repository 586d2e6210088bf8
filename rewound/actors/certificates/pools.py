"""Finds which CAs issued a client certificate: those of ordinary clients, those of authenticating proxies, or both.

The TLS handshake verifies a certificate against all of them together, because a server cannot know who connects. The
server then calls `TrustPools.of` once per connection. It walks the verified chain from the client's certificate up; the
first certificate that one of the files contains decides. So a proxy CA that a client CA has issued creates no ordinary
users, and the other way round. (Kubernetes verifies against each file by itself, and would accept such a certificate in
both roles.) A CA is identified by its name and key: a renewed certificate is the same CA, and a CA in both files gives
both roles.

Before Python 3.13 the chain is not public. There the issuer of the client's certificate decides, and must be in one of
the files: a certificate of an intermediate CA has no role until that CA is added to its file.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rewound.actors.certificates.pki import CertificateError

# A resumed TLS session has no verified chain, so it keeps the roles of its original session. Without tickets OpenSSL
# remembers no more sessions than these, and the context of a server with pools issues no tickets.
MAX_REMEMBERED = 20_480


class Roles(NamedTuple):
    client: bool
    proxy: bool


NO_ROLES = Roles(client=False, proxy=False)


class TrustPools:
    def __init__(self, client_authorities: Sequence[Path], proxy_authority: Path) -> None:
        clients = [one for path in client_authorities for one in _read(path)]
        proxies = _read(proxy_authority)
        client_keys, proxy_keys = ({_identity(one) for one in pool} for pool in (clients, proxies))
        self.overlap = not client_keys.isdisjoint(proxy_keys)  # a CA is in both files
        self._certificates = [*clients, *proxies]
        self._authorities = {
            der: Roles(identity in client_keys, identity in proxy_keys)
            for der, identity in _with_identities(self._certificates)
        }
        self._remembered: dict[bytes, Roles] = {}

    def of(self, certificate: bytes, chain: Sequence[bytes] | None) -> Roles:
        """The roles of a client certificate (DER), by its verified chain, or by its issuer if the chain is unknown.

        The chain of a resumed session is empty.
        """
        digest = hashlib.sha256(certificate).digest()
        if not chain and (roles := self._remembered.get(digest)) is not None:
            return roles
        if chain is None:
            roles = self._of_issuer(certificate)
        elif not chain:
            return NO_ROLES
        else:
            roles = next((self._authorities[one] for one in chain if one in self._authorities), NO_ROLES)
        while len(self._remembered) >= MAX_REMEMBERED and digest not in self._remembered:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = roles
        return roles

    def _of_issuer(self, certificate: bytes) -> Roles:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.serialization import Encoding

        if certificate in self._authorities:
            return self._authorities[certificate]
        read = x509.load_der_x509_certificate(certificate)
        for authority in self._certificates:
            try:
                read.verify_directly_issued_by(authority)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return self._authorities[authority.public_bytes(Encoding.DER)]
        return NO_ROLES


def verified_chain(tls: ssl.SSLObject) -> list[bytes] | None:
    """The chain by which a handshake verified the peer's certificate, in DER; empty for a resumed session.

    None before Python 3.13, which does not expose it.
    """
    public = getattr(tls, "get_verified_chain", None)
    return None if public is None else list(public())


def _read(path: Path) -> list[Any]:
    from cryptography import x509  # here, because only servers with an authenticating proxy need it at start

    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError as error:
        raise CertificateError(
            f"the CA file {path} holds a certificate that cannot be read: {error}"
        ) from error
    except OSError as error:
        raise CertificateError(f"cannot read the CA file {path}: {error.strerror}") from error


def _with_identities(certificates: Iterable[Any]) -> Iterable[tuple[bytes, tuple[bytes, bytes]]]:
    from cryptography.hazmat.primitives.serialization import Encoding

    return [(one.public_bytes(Encoding.DER), _identity(one)) for one in certificates]


def _identity(certificate: Any) -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.subject.public_bytes(), key
