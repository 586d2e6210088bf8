"""The signature of the kubeconfig in cluster-info: a detached JWS, signed with a bootstrap token (HS256).

A JWS is `<header>.<payload>.<signature>`; a detached one leaves the payload out. Who knows the token verifies with it
that the kubeconfig is that of the cluster, before it trusts the CA in it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from actors.access.bootstrap_token import BootstrapToken


def detached_signature(content: str, token: BootstrapToken) -> str:
    header = _encoded(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    signed = f"{header}.{_encoded(content.encode())}"
    key = f"{token.id}.{token.secret}".encode()
    return f"{header}..{_encoded(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
