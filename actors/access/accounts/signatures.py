"""Signs and verifies JSON Web Tokens with the keys of service accounts.

The key decides which algorithms are accepted, never the token: `none` and HMAC fit no key, and the headers by which a
token could bring its own key (jwk, jku, x5u, x5c) are not read. The library must have been imported before
(`AccountKeys` does that).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson

from actors.access.accounts.keys import Keys, SigningKey
from actors.access.token_json import object_of

_TOKEN = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


@cache
def _jws() -> Any:
    import jwt

    return jwt.PyJWS()


def sign(key: SigningKey, claims: Mapping[str, Any]) -> str:
    import jwt

    # As Kubernetes writes it: without `typ`.
    headers: dict[str, Any] = {"kid": key.public.id, "typ": None}
    return jwt.encode(dict(claims), key.key, algorithm=key.public.algorithm, headers=headers)


def unverified_issuer(token: bytes) -> str | None:
    """The claim `iss`, which chooses who verifies the token; None for what is no JSON Web Token."""
    parts = _TOKEN.fullmatch(token)
    decoded = None if parts is None else _decoded(parts[2])
    try:
        claims = None if decoded is None else orjson.loads(decoded)
    except orjson.JSONDecodeError:
        return None
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    return issuer if isinstance(issuer, str) else None


def verified_claims(token: bytes, keys: Keys) -> dict[str, Any] | None:
    """The claims of a token whose signature one of the keys has made; else None."""
    import jwt

    parts = _TOKEN.fullmatch(token)
    header = None if parts is None else _json_object(parts[1])
    if parts is None or header is None or "crit" in header or "b64" in header:
        return None  # an extension that the server does not know could change the meaning of the token
    if not isinstance(header.get("kid"), str | None):
        return None
    if not _is_canonical(parts[3]):
        return None
    algorithm = header.get("alg")
    for key in keys.candidates(header.get("kid")):
        if not isinstance(algorithm, str) or algorithm not in key.accepted:
            continue
        try:
            payload = _jws().decode(token, key.key, algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError, RecursionError):  # releases before 2.14 recurse into the header
            continue
        return object_of(payload)
    return None


def _is_canonical(segment: bytes) -> bool:
    """Whether nobody changed bits of the last character that carry nothing: one signature has one text."""
    decoded = _decoded(segment)
    return decoded is not None and base64.urlsafe_b64encode(decoded).rstrip(b"=") == segment


def _json_object(segment: bytes) -> dict[str, Any] | None:
    decoded = _decoded(segment)
    return None if decoded is None else object_of(decoded)


def _decoded(segment: bytes) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))
    except (binascii.Error, ValueError):
        return None
