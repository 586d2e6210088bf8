"""The user in a client certificate: the subject's common name, its organizations as groups.

The certificate comes in the form of `ssl.SSLSocket.getpeercert()`, which is filled only for a certificate
that the trusted client CAs have signed; the TLS handshake has verified it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.identity import User


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """None for a certificate without a common name: other credentials may still name a user."""
    name = common_name(certificate)
    if not name:
        return None
    return User(name, groups=tuple(_attributes(certificate, "organizationName")))


def common_name(certificate: Mapping[str, Any]) -> str:
    """The last common name of the subject; empty if it has none."""
    names = _attributes(certificate, "commonName")
    return names[-1] if names else ""


def _attributes(certificate: Mapping[str, Any], wanted: str) -> list[str]:
    return [value for part in certificate.get("subject", ()) for kind, value in part if kind == wanted]
