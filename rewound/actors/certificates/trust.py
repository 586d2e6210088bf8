"""The TLS contexts of all outgoing connections, and the one way to trust a CA bundle.

Webhooks, aggregated servers, kubelets, identity providers and the client of our own commands get their contexts here:
`verifying` with a bundle or with the system's roots, and `unverifying`. A lint rule rejects client contexts that are
created elsewhere.

Every certificate of a bundle is a trust anchor, as in Kubernetes: a serving certificate or an intermediate CA is
trusted without its issuer. OpenSSL by default accepts only a chain that ends with a self-signed certificate. Only
subject alternative names count as names. Rejected: `ssl.create_default_context`, which accepts a common name and, since
Python 3.13, rejects certificates without key identifiers (VERIFY_X509_STRICT), which many private CAs issue.
"""

from __future__ import annotations

import ssl

from rewound.actors.kinds.values.pem import blocks_of


class InvalidBundle(ValueError):
    """The bundle has no readable certificate; the text is the one of Kubernetes."""

    def __init__(self, why: str) -> None:
        super().__init__(f"unable to load root certificates: {why}")


def verifying(bundle: bytes | None) -> ssl.SSLContext:
    """A context that verifies servers by a PEM bundle; without one by the system's roots (tens of milliseconds).

    Raises InvalidBundle if the bundle has no readable certificate.
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
    """A context without verification: for peers that are known by their addresses, or if an operator asks for it."""
    context = _context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Go. Renegotiation would make a task that sends wait for data that another task receives.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def trust(context: ssl.SSLContext, bundle: bytes) -> None:
    """Make each certificate of a PEM bundle a trust anchor. Raises InvalidBundle if none can be read.

    Other blocks, blocks with headers and unreadable certificates are skipped, as in Go.
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
