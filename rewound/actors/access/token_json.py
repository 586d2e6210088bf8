"""Parses the JSON of tokens as strictly as Kubernetes: members are unique, registered claims have their types.

Signers write each member once. Of two with the same name one program may read the first and another the last, so such
an ambiguous token is rejected. Both methods for JSON Web Tokens read headers and claims by these functions, once for
each unknown token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

# Later times do not fit into 64 bits of seconds since the year 1, in which Kubernetes compares them.
_LATEST = 9_223_371_974_719_179_007
_TEXTS = ("iss", "sub", "jti")


class WrongClaim(ValueError):
    """A claim has the wrong form; the text names it and never its value."""


class BadClaims(Exception):
    """An ID token does not authenticate. The text names a claim, not its value; an expression may quote it."""


def object_of(text: bytes) -> dict[str, Any] | None:
    """The object in a JSON text; None for everything else, and for an object with a repeated member."""
    try:
        parsed = orjson.loads(text)
        if isinstance(parsed, dict):
            json.loads(text, object_pairs_hook=_unique)
            return parsed
    except (ValueError, RecursionError):
        pass
    return None


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a member occurs twice")


def check_texts(claims: Mapping[str, Any]) -> None:
    """Raise WrongClaim if a registered text claim is not a string. A null is no claim."""
    for name in _TEXTS:
        if not isinstance(claims.get(name), str | None):
            raise WrongClaim(f"{name} is no string")


def time_of(claims: Mapping[str, Any], name: str) -> float | None:
    """Seconds since 1970; None without the claim. Raises WrongClaim if it is no time or out of range."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongClaim(f"{name} is no number")
    if not -_LATEST < value < _LATEST:
        raise WrongClaim(f"{name} is no time")
    return float(value)
