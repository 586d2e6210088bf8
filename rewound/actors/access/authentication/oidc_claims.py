"""Interprets the claims of an ID token: for whom and how long it is valid, and which user it names. Pure.

The groups claim must be an array of strings, or null for none, or one string by the rule `oidc-groups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rewound.actors.access.token_json import WrongClaim, check_texts, time_of
from rewound.actors.identity import User

# Only asymmetric algorithms: whoever can verify with a symmetric key can also sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
EMAIL = "email"
# Google names itself in tokens with or without the scheme; Kubernetes accepts both.
_GOOGLE, _GOOGLE_BARE = "https://accounts.google.com", "accounts.google.com"
# How far the clock of the provider may be ahead, as in Kubernetes.
_NOT_BEFORE_LEEWAY = 60.0


class BadClaims(Exception):
    """The token does not authenticate; the text names the claim and never its value."""


@dataclass(frozen=True, slots=True)
class ClaimRules:
    issuer: str
    client_id: str
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""  # empty: groups are not read
    groups_prefix: str = ""
    required: tuple[tuple[str, str], ...] = ()
    lone_group: bool = False  # whether the groups claim may be a string

    def is_issuer(self, claimed: object) -> bool:
        """Whether the claim `iss` of a token names the issuer."""
        return claimed == self.issuer or (self.issuer == _GOOGLE and claimed == _GOOGLE_BARE)

    def expiry(self, claims: Mapping[str, Any], now: float) -> float:
        """When the token expires, in seconds since 1970. Raises BadClaims if it is not valid now, or not for us."""
        if not self.is_issuer(claims.get("iss")):
            raise BadClaims("iss is another issuer")
        audience = claims.get("aud")
        if self.client_id not in (audience if isinstance(audience, list) else [audience]):
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
        name = claims.get(self.username_claim)
        if not isinstance(name, str) or not name:
            raise BadClaims(f"the user name claim {self.username_claim} is missing, empty or no string")
        if self.username_claim == EMAIL and claims.get("email_verified", True) is not True:
            raise BadClaims("email_verified is not true")
        return User(self.username_prefix + name, groups=self._groups(claims))

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
