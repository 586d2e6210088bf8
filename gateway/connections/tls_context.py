"""The TLS context of the secure port: TLS 1.2 and up, h2 and http/1.1, optional client certificates.

A client without a certificate may authenticate in another way; one with a certificate that does not verify fails the
handshake. Trusted client CAs are the data folder's own, for the admin certificate, those of --client-ca-file, and those
of --requestheader-client-ca-file, which `pools` tells apart after the handshake. OpenSSL requires that a certificate
with extended key usages is for client authentication.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from actors.certificates.store import CertificateError

# Only ciphers that HTTP/2 allows under TLS 1.2; TLS 1.3 has its own list.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def server_context(
    certificate: Path,
    key: Path,
    client_authorities: Sequence[Path],
    *,
    tickets: bool = True,
    ciphers: str = CIPHERS,
    needs_client_certificate: bool = False,
) -> ssl.SSLContext:
    """Without `tickets`, clients resume only sessions that this context remembers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.verify_mode = ssl.CERT_REQUIRED if needs_client_certificate else ssl.CERT_OPTIONAL
    # An intermediate CA in --client-ca-file is trusted without its root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not tickets:
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    _load_pair(context, certificate, key)
    for authority in client_authorities:
        _load_authority(context, authority)
    return context


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    def refuse_password() -> str:
        raise CertificateError(f"the key {key} is locked with a password; give one without")

    try:
        context.load_cert_chain(certificate, key, password=refuse_password)
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable").replace("_", " ").lower()
        raise CertificateError(
            f"the serving certificate {certificate} cannot be used with the key {key}: {reason}; both must "
            "be PEM files, and the key must be that of the first certificate"
        ) from error
    except OSError as error:
        raise CertificateError(f"cannot read {certificate} or {key}: {error.strerror}") from error


def _load_authority(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(cafile=authority)
    except ssl.SSLError as error:
        raise CertificateError(f"the client CA file {authority} holds no PEM certificate") from error
    except OSError as error:
        raise CertificateError(f"cannot read the client CA file {authority}: {error.strerror}") from error
