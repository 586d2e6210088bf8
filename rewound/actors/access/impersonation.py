"""Impersonation: a caller acts as another user, if it may impersonate every part of that identity.

Each part is authorized separately, as the verb `impersonate` on a resource whose name is the value: the user (or the
service account of that name), every group, every value of every extra key, and the uid. The permission is
cluster-scoped, except that of a service account by the rule `account-impersonation`. A service account without groups
gets those of every account.

Since 1.36 a caller may also have narrower rights, which are asked for first (`request`): to make this request as a
node, as a service account or as another user (verb `impersonate-on:<mode>:<verb>` on what is requested), and to assume
the parts of the identity in that mode (verb `impersonate:<mode>`). Nodes and accounts have fixed groups then, and
nobody gets the group system:masters.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from rewound.actors.access.authorize import Attributes, Authorizer, Decision, forbidden, refusal
from rewound.actors.errors import Forbidden
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE_PREFIX,
    NODES,
    UNAUTHENTICATED,
    User,
)
from rewound.actors.kinds.validation import collect, dns_label, dns_subdomain, domain_prefixed_path
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules

ACCOUNT_PREFIX = "system:serviceaccount:"
_VERB = "impersonate"
_MANY = 4  # groups, or values of extra keys, from which a right to all of them is asked for first


class WantedIdentity(msgspec.Struct, frozen=True):
    """The identity that a caller wants to assume; extra keys are lower-case."""

    name: str
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    uid: str = ""


async def impersonate(
    caller: User,
    wanted: WantedIdentity,
    authorizer: Authorizer,
    names: Names,
    rules: Rules = DOCUMENTED,
    request: Attributes | None = None,
) -> tuple[User, str]:
    """The wanted user, and the verb of the narrower right that was enough, if any.

    Raises Forbidden for the first part that the caller may not impersonate.

    With `request`, what the caller wants to do, narrower rights are enough; if it has none, the error is about the
    narrowest.
    """
    first: Forbidden | None = None
    for mode in () if request is None else _modes(caller, wanted, names):
        assert request is not None
        try:
            user = await _impersonate_constrained(caller, wanted, authorizer, names, mode, request)
            return user, f"{_VERB}:{mode}"
        except Forbidden as error:
            first = first or error
    try:
        return await _impersonate_at_all(caller, wanted, authorizer, names, rules), ""
    except Forbidden as error:
        raise first or error from None


async def _impersonate_at_all(
    caller: User, wanted: WantedIdentity, authorizer: Authorizer, names: Names, rules: Rules
) -> User:
    for attributes in _parts(caller, wanted, names.group("authentication"), rules):
        decision = authorizer.authorize(attributes)
        if not isinstance(decision, Decision):
            decision = await decision
        if not decision.allowed:
            raise refusal(attributes, decision)
    return User(wanted.name, wanted.uid, _groups(wanted), wanted.extra)


def _modes(caller: User, wanted: WantedIdentity, names: Names) -> Iterator[str]:
    """The modes of constrained impersonation that suit the wanted identity, the narrowest first."""
    only_name = not (wanted.groups or wanted.extra or wanted.uid)
    if (node := _node_name(wanted.name)) is not None:
        own = dict(caller.extra).get(names.key("node-name", "authentication"), ())
        if only_name and account_of(caller.name) is not None and tuple(own) == (node,):
            yield "associated-node"
        if only_name:
            yield "arbitrary-node"
    elif account_of(wanted.name) is None:
        yield "user-info"
    elif only_name:
        yield "serviceaccount"


async def _impersonate_constrained(
    caller: User,
    wanted: WantedIdentity,
    authorizer: Authorizer,
    names: Names,
    mode: str,
    request: Attributes,
) -> User:
    asking = caller
    if mode == "associated-node":  # the right is the same on all nodes
        keys = tuple(sorted(key for key, _ in caller.extra))
        extra = ((names.key("associated-node-keys", "authentication"), keys),)
        asking = replace(caller, extra=extra)
    await _check(
        authorizer,
        replace(request, user=asking, verb=f"impersonate-on:{mode}:{request.verb}"),
    )
    group, verb = names.group("authentication"), f"{_VERB}:{mode}"
    await _check(authorizer, _identity(asking, wanted, group, verb, mode))
    if wanted.uid:
        await _check(authorizer, Attributes(asking, verb, group, "v1", "uids", name=wanted.uid))
    await _check_groups(authorizer, Attributes(asking, verb, group, "v1", "groups"), wanted.groups)
    await _check_extra(authorizer, Attributes(asking, verb, group, "v1", "userextras"), wanted.extra)
    groups = (NODES,) if _node_name(wanted.name) is not None else wanted.groups
    return User(wanted.name, wanted.uid, _groups(replace(wanted, groups=groups)), wanted.extra)


def _identity(asking: User, wanted: WantedIdentity, group: str, verb: str, mode: str) -> Attributes:
    node, account = _node_name(wanted.name), account_of(wanted.name)
    if node is not None:
        name = "*" if mode == "associated-node" else node
        return Attributes(asking, verb, group, "v1", "nodes", name=name)
    if account is not None:
        return Attributes(asking, verb, group, "v1", "serviceaccounts", namespace=account[0], name=account[1])
    return Attributes(asking, verb, group, "v1", "users", name=wanted.name)


async def _check_groups(authorizer: Authorizer, asked: Attributes, groups: tuple[str, ...]) -> None:
    if "" in groups:
        raise forbidden(asked, "impersonating the empty string group is not allowed")
    if MASTERS in groups:
        asked = replace(asked, name=MASTERS)
        raise forbidden(asked, "impersonating the system:masters group is not allowed")
    if len(groups) >= _MANY and await _may(authorizer, replace(asked, name="*")):
        return
    for one in groups:
        await _check(authorizer, replace(asked, name=one))


async def _check_extra(
    authorizer: Authorizer, asked: Attributes, extra: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    for key, values in extra:
        if wrong := _wrong_extra(key, values):
            raise forbidden(asked, wrong)
    many = len(extra) >= _MANY or sum(len(values) for _, values in extra) >= _MANY
    if many and await _may(authorizer, replace(asked, subresource="*", name="*")):
        return
    for key, values in extra:
        for value in values:
            await _check(authorizer, replace(asked, subresource=key, name=value))


def _wrong_extra(key: str, values: tuple[str, ...]) -> str:
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    if errors := collect(domain_prefixed_path, "extra.key", key):
        text = f"{errors[0].field}: {errors[0].message}"
        return f"impersonating an invalid key in extra is not allowed: {text}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {quoted(key)}"
    if not values:
        return "impersonating empty values in extra is not allowed"
    return "impersonating the empty string value in extra is not allowed" if "" in values else ""


async def _may(authorizer: Authorizer, attributes: Attributes) -> bool:
    try:
        await _check(authorizer, attributes)
    except Forbidden:
        return False
    return True


async def _check(authorizer: Authorizer, attributes: Attributes) -> None:
    decision = authorizer.authorize(attributes)
    if not isinstance(decision, Decision):
        decision = await decision
    if not decision.allowed:
        raise forbidden(attributes, ": ".join(filter(None, (decision.error, decision.reason))))


def _node_name(name: str) -> str | None:
    node = name.removeprefix(NODE_PREFIX)
    return None if node == name or dns_subdomain(node) else node


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
