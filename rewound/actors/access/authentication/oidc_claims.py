"""Interprets the claims of an ID token: for whom and how long it is valid, and which user it names. Pure.

The groups claim must be an array of strings, or null for none, or one string by the rule `oidc-groups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from rewound.actors.access.token_json import BadClaims, WrongClaim, check_texts, time_of
from rewound.actors.identity import User

if TYPE_CHECKING:
    from rewound.actors.access.authentication.claim_expressions import Expressions

# Only asymmetric algorithms: whoever can verify with a symmetric key can also sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
EMAIL = "email"
# Google names itself in tokens with or without the scheme; Kubernetes accepts both.
GOOGLE, GOOGLE_BARE = "https://accounts.google.com", "accounts.google.com"
# How far the clock of the provider may be ahead, as in Kubernetes.
_NOT_BEFORE_LEEWAY = 60.0


class ClaimRules(msgspec.Struct, frozen=True):
    """One issuer. Where it has an expression, that is used instead of the claim."""

    issuer: str
    audiences: tuple[str, ...]  # a token is for at least one of them
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""  # empty: groups are not read
    groups_prefix: str = ""
    required: tuple[tuple[str, str], ...] = ()
    lone_group: bool = False  # whether the groups claim may be a string
    uid_claim: str = ""
    id_key: str = ""  # of the extra field with the id of the token; empty: users do not have it
    expressions: Expressions | None = None

    def is_issuer(self, claimed: object) -> bool:
        """Whether the claim `iss` of a token names the issuer."""
        return claimed == self.issuer or (self.issuer == GOOGLE and claimed == GOOGLE_BARE)

    def expiry(self, claims: Mapping[str, Any], now: float) -> float:
        """When the token expires, in seconds since 1970. Raises BadClaims if it is not valid now, or not for us."""
        if not self.is_issuer(claims.get("iss")):
            raise BadClaims("iss is another issuer")
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if not any(one in named for one in self.audiences):
            raise BadClaims("aud does not contain the client id")
        expires, begins = _checked_times(claims)
        if expires is None or expires <= now:
            raise BadClaims("exp is missing or past")
        if begins is not None and begins > now + _NOT_BEFORE_LEEWAY:
            raise BadClaims("nbf is in the future")
        return expires

    def user(self, claims: Mapping[str, Any]) -> User:
        """The user that a valid token names. Raises BadClaims if a required claim is missing or malformed."""
        for claim, wanted in self.required:
            if claims.get(claim) != wanted:
                raise BadClaims(f"the required claim {claim} is missing or has another value")
        given = None if self.expressions is None else self.expressions.of(claims)
        if given is None:
            return User(self._name(claims), self._uid(claims), self._groups(claims), self._extra(claims))
        name, groups, uid = given.name(), given.groups(), given.uid()
        user = User(
            self._name(claims) if name is None else name,
            self._uid(claims) if uid is None else uid,
            self._groups(claims) if groups is None else groups,
            self._extra(claims, given.extra()),
        )
        given.check()
        if self.expressions is not None:
            self.expressions.check_user(user)
        return user

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self.username_claim)
        if not isinstance(name, str) or not name:
            raise BadClaims(f"the user name claim {self.username_claim} is missing, empty or no string")
        if self.username_claim == EMAIL and claims.get("email_verified", True) is not True:
            raise BadClaims("email_verified is not true")
        return self.username_prefix + name

    def _uid(self, claims: Mapping[str, Any]) -> str:
        if not self.uid_claim:
            return ""
        uid = claims.get(self.uid_claim)
        if not isinstance(uid, str):
            raise BadClaims(f"the uid claim {self.uid_claim} is missing or no string")
        return uid

    def _extra(
        self, claims: Mapping[str, Any], more: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        token_id = claims.get("jti")
        found = {self.id_key: (f"JTI={token_id}",)} if self.id_key and token_id else {}
        return tuple(sorted({**found, **more}.items()))

    def _groups(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        groups = claims.get(self.groups_claim) if self.groups_claim else None
        if groups is None:
            return ()
        if self.lone_group and isinstance(groups, str):
            groups = [groups]
        if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
            raise BadClaims(f"the groups claim {self.groups_claim} is no array of strings")
        return tuple(self.groups_prefix + one for one in groups)


def username_prefix(given: str, claim: str, issuer: str) -> str:
    """The prefix set by the flag: `-` means none; the default is `<issuer>#`, but none for the email claim."""
    if given == "-":
        return ""
    if not given and claim != EMAIL:
        return f"{issuer}#"
    return given


def _checked_times(claims: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """When the token expires and when it becomes valid, after checking the form of all registered claims."""
    try:
        check_texts(claims)
        time_of(claims, "iat")
        return time_of(claims, "exp"), time_of(claims, "nbf") if claims.get("nbf") is not None else None
    except WrongClaim as error:
        raise BadClaims(str(error)) from None
