"""TLS contexts of the client."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from actors.certificates.trust import InvalidBundle, unverifying, verifying
from gateway.client.credentials import KeyPair
from gateway.client.errors import ConfigError, CredentialError


def client_context(
    authority: bytes | None, pair: KeyPair | None, source: str, *, insecure: bool = False
) -> ssl.SSLContext:
    """`source` is where both were configured, for errors."""
    context = unverifying() if insecure else _trusting(authority, source)
    if pair is not None:
        _load_pair(context, pair, source)
    return context


def _trusting(authority: bytes | None, source: str) -> ssl.SSLContext:
    try:
        return verifying(authority)
    except InvalidBundle as error:
        raise ConfigError(
            f"{source}: the certificate authority is not a certificate in PEM form; give the CA of the server"
        ) from error


def check_pair(pair: KeyPair, source: str) -> None:
    """CredentialError if the certificate and the key cannot be used."""
    _load_pair(unverifying(), pair, source)


def _load_pair(context: ssl.SSLContext, pair: KeyPair, source: str) -> None:
    # The library reads certificates from files only; the folder has mode 0700 and is removed at once.
    with tempfile.TemporaryDirectory(prefix="rewound-client-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialError(
                f"{source}: the client certificate and its key cannot be used; both must be PEM, without a "
                "password, and belong together"
            ) from error


def _no_password() -> bytes:
    """Without this, OpenSSL would ask for the password of an encrypted key on the terminal."""
    raise ValueError("the key has a password")
