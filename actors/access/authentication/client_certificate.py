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
    attributes = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for kind, value in attributes if kind == "commonName"]
    if not names or not names[-1]:
        return None
    groups = tuple(value for kind, value in attributes if kind == "organizationName")
    return User(names[-1], groups=groups)
