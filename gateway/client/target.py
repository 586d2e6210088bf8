"""Everything that requests to one server need: address, trusted CA, credentials, and where they were configured."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.client.credentials import CredentialSource


@dataclass(frozen=True, slots=True)
class Target:
    server: str  # without credentials: it is shown and stored
    credentials: CredentialSource = field(repr=False)
    configured_in: str  # for errors: the files and the context, or the flags
    authority: bytes | None = None  # PEM; None trusts the authorities of this machine
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)  # may contain a password
    namespace: str = "default"
    impersonated_user: str = ""
    impersonated_groups: tuple[str, ...] = ()
