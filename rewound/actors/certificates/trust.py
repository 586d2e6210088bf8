"""The TLS contexts of every connection that this program opens, and the one way to trust a CA bundle.

Webhooks, aggregated servers, kubelets, identity providers and the client of our own commands take their contexts from
here: `verifying` with a bundle, or with the roots of the system, and `unverifying`. A lint rule refuses contexts of
clients that are made elsewhere.

Every certificate of a bundle is an anchor, as in Kubernetes: a serving certificate or an intermediate CA is trusted
without its issuer. OpenSSL by itself accepts only a chain that ends with a self-signed certificate. A name counts only
if it is a subject alternative name. Rejected: `ssl.create_default_context`, which accepts a common name, and from
Python 3.13 on refuses certificates without key identifiers (VERIFY_X509_STRICT), which many private CAs issue.
"""

from __future__ import annotations

import ssl

from rewound.actors.kinds.values.pem import blocks_of


class InvalidBundle(ValueError):
    """The bundle has no certificate that can be read; the text is what clients of Kubernetes know."""

    def __init__(self, why: str) -> None:
        super().__init__(f"unable to load root certificates: {why}")


def verifying(bundle: bytes | None) -> ssl.SSLContext:
    """Verifies servers by a PEM bundle; by the roots of the system without one, which takes tens of milliseconds.

    Raises InvalidBundle.
    """
    context = _context()
    context.hostname_checks_common_name = False
    if bundle is None:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_default_certs()
    else:
        trust(context, bundle)
    return context


def unverifying() -> ssl.SSLContext:
    """Connects without verification: for peers that are known by their addresses, or if an operator asks for it."""
    context = _context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As Go: a handshake in the middle of a connection would let a task that sends wait for what another one receives.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def trust(context: ssl.SSLContext, bundle: bytes) -> None:
    """Make each certificate of a PEM bundle an anchor. Raises InvalidBundle.

    Other blocks, those with headers and certificates that cannot be read are skipped, as Go does, unless nothing is
    left.
    """
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    blocks = list(blocks_of(bundle.decode("latin-1")))
    if not blocks:
        raise InvalidBundle("unable to parse bytes as PEM block")
    loaded = 0
    failure: ssl.SSLError | None = None
    for block in blocks:
        if block.kind != "CERTIFICATE" or block.headers:
            continue
        try:
            context.load_verify_locations(cadata=block.content)
            loaded += 1
        except ssl.SSLError as error:
            failure = failure or error
    if loaded:
        return
    if failure is not None:
        reason = (failure.reason or "malformed").replace("_", " ").lower()
        raise InvalidBundle(f"failed to parse certificate: {reason}")
    raise InvalidBundle("no valid certificate authority data seen")
