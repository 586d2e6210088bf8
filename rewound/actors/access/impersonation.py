"""Impersonation: a caller acts as another user, if it may impersonate every part of that identity.

Each part is authorized separately, as the verb `impersonate` on a resource whose name is the value: the user (or the
service account of that name), every group, every value of every extra key, and the uid. The permission is
cluster-scoped, except that of a service account by the rule `account-impersonation`. A service account without groups
gets those of every account.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewound.actors.access.authorize import Attributes, Authorizer, Decision, refusal
from rewound.actors.identity import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from rewound.actors.kinds.validation import dns_label, dns_subdomain
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules

ACCOUNT_PREFIX = "system:serviceaccount:"
_VERB = "impersonate"


@dataclass(frozen=True, slots=True)
class WantedIdentity:
    """The identity that a caller wants to assume; extra keys are lower-case."""

    name: str
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    uid: str = ""


async def impersonate(
    caller: User, wanted: WantedIdentity, authorizer: Authorizer, names: Names, rules: Rules = DOCUMENTED
) -> User:
    """The wanted user. Raises Forbidden for the first part that the caller may not impersonate."""
    for attributes in _parts(caller, wanted, names.group("authentication"), rules):
        decision = authorizer.authorize(attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        if not decision.allowed:
            raise refusal(attributes, decision)
    return User(wanted.name, wanted.uid, _groups(wanted), wanted.extra)


def _parts(caller: User, wanted: WantedIdentity, group: str, rules: Rules) -> Iterator[Attributes]:
    account = account_of(wanted.name)
    if account is None:
        yield Attributes(caller, _VERB, resource="users", version="v1", name=wanted.name)
    else:
        namespace = account[0] if rules.account_impersonation == "namespace" else ""
        yield Attributes(
            caller, _VERB, resource="serviceaccounts", version="v1", namespace=namespace, name=account[1]
        )
    for one in wanted.groups:
        yield Attributes(caller, _VERB, resource="groups", version="v1", name=one)
    for key, values in wanted.extra:
        for value in values:
            yield Attributes(caller, _VERB, group, "v1", "userextras", key, name=value)
    if wanted.uid:
        yield Attributes(caller, _VERB, group, "v1", "uids", name=wanted.uid)


def account_of(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account of a user name; None for other users."""
    if not name.startswith(ACCOUNT_PREFIX):
        return None
    namespace, separator, account = name[len(ACCOUNT_PREFIX) :].partition(":")
    if not separator or dns_label(namespace) or dns_subdomain(account):
        return None
    return namespace, account


def _groups(wanted: WantedIdentity) -> tuple[str, ...]:
    groups = wanted.groups
    account = account_of(wanted.name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if wanted.name == ANONYMOUS:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)
