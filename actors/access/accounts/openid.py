"""The two documents with which others verify service account tokens: the OpenID configuration, and the key set."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlsplit

from actors.access.accounts.keys import Keys, VerifyingKey
from actors.go_json import dumps

CONFIGURATION_PATH, KEYS_PATH = "/.well-known/openid-configuration", "/openid/v1/jwks"


def is_discoverable(issuer: str) -> bool:
    """Whether OpenID allows such an issuer; the documents of others are not served."""
    try:
        parts = urlsplit(issuer)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc) and not parts.query and not parts.fragment


def configuration(issuer: str, keys_url: str, keys: Keys) -> bytes:
    return dumps(
        {
            "issuer": issuer,
            "jwks_uri": keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({one.algorithm for one in keys.verifying}),
        }
    )


def key_set(keys: Keys) -> bytes:
    return dumps({"keys": [_public_jwk(one) for one in keys.verifying]})


def _public_jwk(key: VerifyingKey) -> dict[str, str]:
    numbers: Any = key.key.public_numbers()
    if key.algorithm.startswith("ES"):
        size = (key.key.curve.key_size + 7) // 8
        curve = f"P-{key.key.curve.key_size}"
        parameters = {
            "kty": "EC",
            "crv": curve,
            "x": _base64(numbers.x.to_bytes(size, "big")),
            "y": _base64(numbers.y.to_bytes(size, "big")),
        }
    else:
        parameters = {"kty": "RSA", "n": _base64(_shortest(numbers.n)), "e": _base64(_shortest(numbers.e))}
    return {"use": "sig", "kid": key.id, "alg": key.algorithm, **parameters}


def _shortest(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
