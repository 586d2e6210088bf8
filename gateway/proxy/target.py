"""Target: where a request is forwarded to, and how the server connects there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

DIAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    host: str  # an address or a name
    port: int
    path: str  # percent-encoded
    query: str = ""
    tls: ssl.SSLContext | None = None  # None: plain HTTP
    server_name: str = ""  # that the certificate must be valid for; empty: the host
    host_header: bytes | None = None  # None: the Host of the client
    connect_seconds: float = DIAL_SECONDS  # for the connection, and for the TLS handshake
    local_allowed: bool = False  # loopback, link-local and other addresses that are no global unicast ones

    @property
    def authority(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
