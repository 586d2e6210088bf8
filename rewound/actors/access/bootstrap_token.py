"""Parses the Secret of a bootstrap token: `<id>.<secret>`, with which a new node joins the cluster.

The authentication method, the token cleaner and the signer of cluster-info read Secrets with this module. A Secret is a
bootstrap token only in the system namespace, with the type of bootstrap tokens and the name `bootstrap-token-<id>`.
Nothing reveals the secret part: neither `repr` nor an error.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field

from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names

SECRET_PREFIX = "bootstrap-token-"
GROUP = "system:bootstrappers"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})", re.ASCII)
_SECRET_NAME = re.compile(SECRET_PREFIX + r"([a-z0-9]{6})", re.ASCII)
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]", re.ASCII)
_NEVER_VALID = -1


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    id: str
    secret: str = field(repr=False)
    expires: int | None  # microseconds since 1970; None: never
    authenticates: bool
    signs: bool
    groups: tuple[str, ...] | None  # None: an extra group is not allowed, and the token cannot authenticate

    def expired(self, now: int) -> bool:
        return has_expired(self.expires, now)


def has_expired(expires: int | None, now: int) -> bool:
    return expires is not None and expires <= now


def parse_token(token: bytes) -> tuple[str, str] | None:
    """Id and secret; None for everything that cannot be a bootstrap token."""
    if len(token) != 23:
        return None
    found = _TOKEN.fullmatch(token.decode("latin-1"))
    return (found[1], found[2]) if found else None


def secret_type(names: Names) -> str:
    return names.key("token", "bootstrap")


def token_of(secret: Object, names: Names) -> BootstrapToken | None:
    """The token of a Secret of the system namespace; None if it is no bootstrap token."""
    if secret.get("type") != secret_type(names):
        return None
    token_id, token_secret = _value(secret, "token-id"), _value(secret, "token-secret")
    named = _SECRET_NAME.fullmatch(secret["metadata"]["name"])
    if not token_secret or named is None or named[1] != token_id:
        return None
    return BootstrapToken(
        token_id,
        token_secret,
        expiration(secret),
        _value(secret, "usage-bootstrap-authentication") == "true",
        _value(secret, "usage-bootstrap-signing") == "true",
        _groups(_value(secret, "auth-extra-groups")),
    )


def expiration(secret: Object) -> int | None:
    """When the token of a Secret expires; None if it never does. An unreadable time is in the past."""
    text = _value(secret, "expiration")
    if not text:
        return None
    try:
        return micros_of(text)
    except ValueError:
        return _NEVER_VALID


def _groups(extra: str) -> tuple[str, ...] | None:
    groups = extra.split(",") if extra else []
    if not all(map(_EXTRA_GROUP.fullmatch, groups)):
        return None
    return tuple(sorted({GROUP, *groups}))


def _value(secret: Object, key: str) -> str:
    """The decoded value; empty if missing. Invalid UTF-8 is replaced: no valid value contains it."""
    encoded = (secret.get("data") or {}).get(key)
    return base64.b64decode(encoded).decode(errors="replace") if encoded else ""
