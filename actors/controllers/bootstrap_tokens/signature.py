"""The signature of the kubeconfig in cluster-info: a detached JWS, signed with a bootstrap token (HS256).

A JWS is `<header>.<payload>.<signature>`; a detached one leaves the payload out. Who knows the token verifies with it
that the kubeconfig is that of the cluster, before it trusts the CA in it. The key is the whole token, or its secret
alone, as kubeadm verifies it: a dialect has one of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from actors.access.bootstrap_token import BootstrapToken
from actors.names import Names


def detached_signature(content: str, token: BootstrapToken, names: Names) -> str:
    header = _encoded(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    signed = f"{header}.{_encoded(content.encode())}"
    key = token.secret if names.secret_alone_signs else f"{token.id}.{token.secret}"
    return f"{header}..{_encoded(hmac.digest(key.encode(), signed.encode(), hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
