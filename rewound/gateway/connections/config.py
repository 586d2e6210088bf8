"""Hypercorn's configuration with the defaults of this server: where it listens, its TLS, and its timeouts.

`server_config` creates one from the settings: the binds from flags or from the file of --server-config, everything
else from that file. `listen` opens its sockets, `Limits` uses its numbers. Only `hypercorn.config` is imported:
`hypercorn.trio` would take 80 ms and 3 MB for protocols that are not used here.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from hypercorn.config import Config

from rewound.actors.certificates.pki import CertificateError
from rewound.gateway.settings.settings import Settings


class ServerConfig(Config):
    # The kernel queues a burst of clients (all controllers after a restart); a client that it refuses retries after a
    # second or more. Linux's default limit of a queue (somaxconn).
    backlog = 4096
    # Only ciphers that HTTP/2 allows with TLS 1.2; TLS 1.3 has its own list.
    ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20"
    verify_mode: ssl.VerifyMode | None = ssl.CERT_OPTIONAL
    # PEM files of CAs that issue client certificates.
    client_authorities: Sequence[Path] = ()
    # Whether a client may resume a session from its ticket alone.
    tickets = True
    ssl_handshake_timeout = 10.0
    # Longer than the 90 s after which Go clients drop an idle connection: the client closes first, so no request is
    # sent into a connection that we are closing.
    keep_alive_timeout = 120.0
    # How long running requests may take to end after the listeners are closed.
    graceful_timeout = 60.0
    # Request line and headers together: Go's default limit.
    h11_max_incomplete_size = 1024 * 1024
    # Header block and header list: decoding occupies the event loop for a quarter of a microsecond per byte.
    h2_max_header_list_size = 256 * 1024
    h2_max_concurrent_streams = 250
    goaway_chance = 0.0
    worker_class = "trio"

    def listen_on(self, secure: Sequence[str], plain: Sequence[str]) -> None:
        """The binds as Hypercorn reads them: without certificates, `bind` has the plain listeners."""
        self.bind, self.insecure_bind = (list(secure), list(plain)) if secure else (list(plain), [])

    def create_ssl_context(self) -> ssl.SSLContext | None:
        """A context for TLS 1.2 and up with optional client certificates; None without a serving certificate.

        A client without a certificate may authenticate in another way; one whose certificate does not verify fails
        the handshake. If a certificate has extended key usages, OpenSSL requires client authentication among them.
        Raises CertificateError.
        """
        if self.certfile is None or self.keyfile is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(self.ciphers)
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(self.alpn_protocols)
        context.verify_mode = self.verify_mode or ssl.CERT_OPTIONAL
        # Trust an intermediate CA without its root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if not self.tickets:
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        _load_pair(context, self.certfile, self.keyfile)
        for authority in self.client_authorities:
            _load_authority(context, authority)
        return context


def server_config(settings: Settings) -> ServerConfig:
    config = ServerConfig()
    for key, value in settings.server.keys.items():
        setattr(config, key, value)
    config.listen_on(settings.secure_binds, settings.insecure_binds)
    config.h2_max_concurrent_streams = settings.http2_streams
    config.goaway_chance = settings.goaway_chance
    config.quic_bind = [settings.quic_bind] if settings.quic_bind else []
    return config


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    def refuse_password() -> str:
        raise CertificateError(f"the key {key} is encrypted with a password; use one without")

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
