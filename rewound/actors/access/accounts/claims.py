"""The claims of service account tokens: the server writes and reads them here.

There are two forms. Bound tokens name their account, and at most one Pod or Secret whose deletion invalidates them (or
a Node, if an earlier release issued them):

    {"aud": [...], "exp": 1, "iat": 1, "iss": "https://...", "nbf": 1, "sub": "system:serviceaccount:<ns>:<name>",
     "<domain>": {"namespace": "<ns>", "serviceaccount": {"name": ..., "uid": ...}, "pod": {"name": ..., "uid": ...}}}

Tokens in Secrets have their own issuer, flat claims (`<domain>/serviceaccount/...`), and never expire. `AccountOptions`
has the issuer and audiences that the server writes and accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rewound.actors.access.token_json import WrongClaim, check_texts, time_of
from rewound.actors.identity import User
from rewound.actors.names import Names
from rewound.actors.versions.features import TOKEN_IDS, TOKEN_NODES

ACCOUNTS, SECRETS, PODS, NODES = "serviceaccounts", "secrets", "pods", "nodes"
BINDABLE = {"pod": PODS, "secret": SECRETS, "node": NODES}  # the claim, and the resource that it names

Claims = dict[str, Any]


class InvalidClaims(Exception):
    """A claim is missing or has the wrong form."""


class Reference(msgspec.Struct, frozen=True):
    """An object that must exist for a token to be valid."""

    plural: str
    namespace: str
    name: str
    uid: str  # empty: any


class Subject(msgspec.Struct, frozen=True):
    """The content of a token's claims, in either form."""

    account: Reference
    bound: Reference | None  # the Pod, Secret or Node; for a token in a Secret, this Secret
    in_secret: bool
    audiences: tuple[str, ...]  # empty: those of the API server
    expires: float | None  # seconds since 1970
    not_before: float | None
    warn_after: float | None = None
    node: Reference | None = None  # of the pod that the token is bound to; it need not exist any more
    id: str = ""


def account_user(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def bound_claims(
    names: Names,
    account: Reference,
    bound: Reference | None,
    audiences: Sequence[str],
    now: int,
    seconds: int,
    warn_after: int = 0,
    node: Reference | None = None,
    token_id: str = "",
) -> Claims:
    """Times in seconds; `warn_after` is relative to now, 0 is never. `node` is that of the pod in `bound`."""
    private: Claims = {
        "namespace": account.namespace,
        "serviceaccount": {"name": account.name, "uid": account.uid},
    }
    if bound is not None:
        claim = next(claim for claim, plural in BINDABLE.items() if plural == bound.plural)
        private[claim] = {"name": bound.name, "uid": bound.uid}
    if node is not None:
        private["node"] = {"name": node.name, **({"uid": node.uid} if node.uid else {})}
    if warn_after:
        private["warnafter"] = now + warn_after
    return {
        "aud": list(audiences),
        "exp": now + seconds,
        "iat": now,
        **({"jti": token_id} if token_id else {}),
        names.key_domain: private,
        "nbf": now,
        "sub": account_user(account.namespace, account.name),
    }


def secret_claims(names: Names, account: Reference, secret: str) -> Claims:
    prefix = names.key("serviceaccount")
    return {
        f"{prefix}/namespace": account.namespace,
        f"{prefix}/secret.name": secret,
        f"{prefix}/service-account.name": account.name,
        f"{prefix}/service-account.uid": account.uid,
        "sub": account_user(account.namespace, account.name),
    }


def read_bound(names: Names, claims: Mapping[str, Any]) -> Subject:
    """Read the claims of a bound token. Raises InvalidClaims if one is missing or malformed."""
    _check_texts(claims)
    _time(claims, "iat")  # must be a number if present; nothing depends on it
    private = claims.get(names.key_domain)
    if not isinstance(private, dict):
        raise InvalidClaims
    namespace = _text(private, "namespace")
    account = _reference(ACCOUNTS, namespace, private.get("serviceaccount"))
    node = None
    if private.get("pod") is not None and isinstance(private.get("node"), dict):
        claim = private["node"]
        node = Reference(NODES, "", _text(claim, "name"), claim.get("uid") or "")
        private = {name: value for name, value in private.items() if name != "node"}
    bound = [
        _reference(plural, "" if plural == NODES else namespace, private[claim])
        for claim, plural in BINDABLE.items()
        if private.get(claim) is not None
    ]
    if len(bound) > 1:
        raise InvalidClaims  # the server never issues both, and could not say which one counts
    return Subject(
        account,
        bound[0] if bound else None,
        False,
        _audiences(claims),
        _time(claims, "exp") or 0.0,  # a bound token always has one: without it the token has expired
        _time(claims, "nbf"),
        _time(private, "warnafter"),
        node,
        claims["jti"] if isinstance(claims.get("jti"), str) else "",
    )


def read_secret(names: Names, claims: Mapping[str, Any]) -> Subject:
    """Read the claims of a token in a Secret. Raises InvalidClaims if one is missing or malformed."""
    _check_texts(claims)
    _time(claims, "iat")  # must be a number if present; nothing depends on it
    prefix = names.key("serviceaccount")
    namespace, name = _text(claims, f"{prefix}/namespace"), _text(claims, f"{prefix}/service-account.name")
    account = Reference(ACCOUNTS, namespace, name, _text(claims, f"{prefix}/service-account.uid"))
    if claims.get("sub") != account_user(namespace, name):
        raise InvalidClaims
    secret = Reference(SECRETS, namespace, _text(claims, f"{prefix}/secret.name"), "")
    return Subject(
        account,
        secret,
        True,
        _audiences(claims),
        _time(claims, "exp"),
        _time(claims, "nbf"),
    )


def user_of(names: Names, subject: Subject, features: frozenset[str] = frozenset()) -> User:
    account, bound = subject.account, subject.bound
    found: list[tuple[str, str]] = []
    if subject.id and TOKEN_IDS in features:
        found.append(("credential-id", f"JTI={subject.id}"))
    if bound is not None and bound.plural in (PODS, NODES):
        kind = "pod" if bound.plural == PODS else "node"
        found += [(f"{kind}-name", bound.name), (f"{kind}-uid", bound.uid)]
    if subject.node is not None and TOKEN_NODES in features:
        found += [("node-name", subject.node.name), ("node-uid", subject.node.uid)]
    extra = tuple((names.key(name, "authentication"), (value,)) for name, value in sorted(found) if value)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}")
    user = User(account_user(account.namespace, account.name), account.uid, groups, extra)
    return user.with_authenticated_group()


def _reference(plural: str, namespace: str, claim: object) -> Reference:
    if not isinstance(claim, dict):
        raise InvalidClaims
    return Reference(plural, namespace, _text(claim, "name"), _text(claim, "uid"))


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidClaims
    return value


def _audiences(claims: Mapping[str, Any]) -> tuple[str, ...]:
    if "aud" not in claims:
        return ()
    value = claims["aud"]
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidClaims
    return tuple(value)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    try:
        return time_of(claims, name)
    except WrongClaim:
        raise InvalidClaims from None


def _check_texts(claims: Mapping[str, Any]) -> None:
    try:
        check_texts(claims)
    except WrongClaim:
        raise InvalidClaims from None


class AccountOptions(msgspec.Struct, frozen=True):
    """How service account tokens are issued and accepted, as set by flags."""

    issuers: tuple[str, ...]  # the first one signs, all are accepted
    audiences: tuple[str, ...]  # of the API server: for tokens that request none
    lookup: bool = True  # tokens in Secrets become invalid with the Secret and the account
    max_seconds: int = 0  # the longest lifetime of a token; 0: no limit
    extend: bool = True  # tokens of projected volumes are accepted for a year
    keys_url: str = ""  # where relying parties find the keys; empty: at this server
    features: frozenset[str] = frozenset()

    @property
    def issuer(self) -> str:
        return self.issuers[0]


def default_issuer(names: Names) -> str:
    return f"https://{names.api_service}.default.svc.{names.service_domain}"
