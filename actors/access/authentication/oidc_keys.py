"""The signing keys of an identity provider, and the check of a token's signature with them.

Only RSA and EC keys count: a symmetric key in the provider's document would let everybody who can read it sign. The
algorithm has to be in the list of the settings, and has to fit the key. A token names a key by its id and nothing else:
keys and addresses in its own header (jwk, jku, x5u, x5c) are never read. Callers have imported `jwt` before.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from actors.access.token_json import object_of

logger = logging.getLogger(__name__)

_LEAST_RSA_BITS = 2048
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}


class BadSignature(Exception):
    """No key of the provider has signed the token in an allowed way; the text says why."""


class TokenHeader(NamedTuple):
    algorithm: str
    key_id: str | None


@dataclass(frozen=True, slots=True)
class Key:
    id: str | None
    algorithm: str | None  # the only one that it is for, if the provider says so
    key: Any  # of `cryptography`

    def fits(self, header: TokenHeader) -> bool:
        if header.key_id is not None and self.id != header.key_id:
            return False
        if self.algorithm is not None and self.algorithm != header.algorithm:
            return False
        curve = getattr(self.key, "curve", None)
        return _CURVES.get(header.algorithm) == (None if curve is None else curve.name)


def parse_keys(document: Any) -> tuple[Key, ...]:
    """The signing keys of a key document. ValueError if it is none; keys that cannot be used are left out."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it has no list of keys")
    keys = [_key(one) for one in listed if isinstance(one, dict)]
    return tuple(key for key in keys if key is not None)


def _key(entry: dict[str, Any]) -> Key | None:
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm
    from jwt.exceptions import InvalidKeyError

    kinds: dict[str | None, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm}
    kind = kinds.get(_text(entry.get("kty")))
    if kind is None or entry.get("use", "sig") != "sig":
        return None
    try:
        key = kind.from_jwk(entry)
    except (InvalidKeyError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if hasattr(key, "public_key"):
        key = key.public_key()
    if kind is RSAAlgorithm and key.key_size < _LEAST_RSA_BITS:
        logger.warning("a key of the identity provider has less than %d bits: not used", _LEAST_RSA_BITS)
        return None
    return Key(_text(entry.get("kid")), _text(entry.get("alg")), key)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@cache
def _signatures() -> Any:
    from jwt.api_jws import PyJWS

    return PyJWS()


def token_header(token: bytes, algorithms: Sequence[str]) -> TokenHeader:
    """What the header of a token says about its signature. BadSignature if that is not allowed."""
    from jwt.exceptions import PyJWTError

    try:
        header = _signatures().get_unverified_header(token)
    except (PyJWTError, RecursionError) as error:
        raise BadSignature("the token is malformed") from error
    if not _has_unique_members(token.partition(b".")[0]) or not isinstance(header.get("kid"), str | None):
        raise BadSignature("the token is malformed")
    if header.get("alg") not in algorithms or "crit" in header:
        raise BadSignature("the algorithm is not allowed")
    return TokenHeader(header["alg"], header.get("kid"))


def _has_unique_members(segment: bytes) -> bool:
    try:
        return object_of(base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))) is not None
    except ValueError:
        return False


def verified_claims(token: bytes, header: TokenHeader, keys: Sequence[Key]) -> dict[str, Any] | None:
    """The claims of a token if one of the keys has signed it. BadSignature if they cannot be read."""
    from jwt.exceptions import PyJWTError

    for key in keys:
        if key.fits(header):
            try:
                payload = _signatures().decode_complete(token, key.key, [header.algorithm])["payload"]
            except (PyJWTError, ValueError, RecursionError):
                continue
            claims = object_of(payload)
            if claims is None:
                raise BadSignature("the claims are no JSON object, or one occurs twice")
            return claims
    return None
