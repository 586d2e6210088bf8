"""RBAC: allows what the roles bound to a user, or to one of its groups, allow.

Decisions are cached per user, verb, resource and namespace until a role or binding changes: the first request finds the
bindings of the user and the rules of their roles, the others need one lookup. The name of an object is not part of the
cache key; rules with resourceNames are cached with their names. `*` as a user or group of a binding is an ordinary
name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import trio

from rewound.actors.access.authorization.rbac.policy import RbacPolicy
from rewound.actors.access.authorization.rbac.roles import CompiledBinding, CompiledRole, covering
from rewound.actors.access.authorize import (
    NO_OPINION,
    Attributes,
    Decision,
    PathRule,
    ResourceRule,
    Rules,
    Verdict,
    join_errors,
)
from rewound.actors.errors import Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import User
from rewound.actors.messages import Object

# A cached decision takes less than a kilobyte; one with many rules counts as several. Decisions for unusually long
# requests are not cached.
MAX_CACHED: Final = 8192
RULES_PER_ENTRY: Final = 8
MAX_CACHED_GROUPS: Final = 64
MAX_CACHED_LENGTH: Final = 512
# Texts in the rules that one review lists: some ten milliseconds, and a response of about a megabyte.
MOST_LISTED: Final = 50_000
_TOO_MANY_RULES: Final = (
    f"the rules have more than {MOST_LISTED} verbs, groups, resources and names, and the rest is left out"
)
RULES_AT_ONCE: Final = 1000  # per decision on the event loop: more take milliseconds
MAX_MISSING: Final = 16  # roles that a reason names


Bound = Sequence[
    tuple[CompiledBinding, CompiledRole | None]
]  # bindings with their roles; None if the role is missing


class DecisionsByName(msgspec.Struct):
    """The bindings that allow a request for some names, and the decision for all other names.

    The reason is created when a name needs it: thousands of rules may have names, of a binding with thousands of
    subjects.
    """

    named: tuple[tuple[frozenset[str], CompiledBinding], ...]
    others: Decision
    user: User
    made: dict[tuple[str, str], Decision] = msgspec.field(
        default_factory=dict
    )  # by namespace and name of the binding

    def decision(self, name: str) -> Decision:
        for names, binding in self.named:
            if name in names:
                key = binding.namespace, binding.name
                decision = self.made.get(key)
                if decision is None:
                    decision = self.made[key] = _allowed_by(binding, self.user)
                return decision
        return self.others


class Rbac:
    def __init__(self, policy: RbacPolicy) -> None:
        self.policy = policy
        self._cached: dict[tuple[object, ...], Decision | DecisionsByName] = {}
        self._weight = 0  # of the cached decisions
        self._changes = 0  # of the policy
        # Deciding holds the interpreter lock: users with thousands of rules wait for each other, and nobody else for
        # them.
        self._threads = trio.CapacityLimiter(1)
        self.changed = trio.Event()  # set by the next change of the policy
        policy.changed = self._forget

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        user, verb = attributes.user, attributes.verb
        if attributes.is_resource:
            key: tuple[object, ...] = (
                user.name,
                user.groups,
                verb,
                attributes.group,
                attributes.resource,
                attributes.subresource,
                attributes.namespace,
            )
        else:
            key = (user.name, user.groups, verb, attributes.path)
        found = self._cached.get(key)
        if found is None:
            if self.policy.waits_for_large(user, attributes.namespace):
                return self._decide_later(attributes, key)
            bound = self._bound(user, attributes.namespace)
            if _rules_in(bound) > RULES_AT_ONCE:
                return self._decide_in_thread(attributes, key, bound)
            found = self._decide(attributes, bound)
            self._keep(key, attributes, found)
        if type(found) is Decision:
            return found
        assert isinstance(found, DecisionsByName)
        return found.decision(attributes.name)

    async def _decide_later(self, attributes: Attributes, key: tuple[object, ...]) -> Decision:
        user, namespace = attributes.user, attributes.namespace
        while self.policy.waits_for_large(user, namespace):
            await self.policy.compile_large(user, namespace)
        return await self._decide_in_thread(attributes, key, self._bound(user, namespace))

    async def _decide_in_thread(
        self, attributes: Attributes, key: tuple[object, ...], bound: Bound
    ) -> Decision:
        changes = self._changes
        found = await trio.to_thread.run_sync(self._decide, attributes, bound, limiter=self._threads)
        if self._changes == changes:
            self._keep(key, attributes, found)
        return found if isinstance(found, Decision) else found.decision(attributes.name)

    def _bound(self, user: User, namespace: str) -> Bound:
        """The user's bindings and their roles. Compiled ones never change, so a thread may read them."""
        role_of = self.policy.roles.get
        return [(one, role_of(one.role_key)) for one in self.policy.bindings_of(user, namespace)]

    async def rules(self, user: User, namespace: str) -> Rules:
        while self.policy.waits_for_large(user, namespace):
            await self.policy.compile_large(user, namespace)
        bound = self._bound(user, namespace)
        if _rules_in(bound) <= RULES_AT_ONCE:
            return self._listed(bound)
        return await trio.to_thread.run_sync(self._listed, bound, limiter=self._threads)

    def _listed(self, bound: Bound) -> Rules:
        rules: list[Object] = []
        missing: list[str] = []
        left = MOST_LISTED
        for binding, role in sorted(bound, key=_order):
            if role is None:
                missing.append(self._not_found(binding))
                continue
            for rule in role.rules:
                left -= sum([len(texts) for texts in rule.values()])
                if left >= 0:
                    rules.append(rule)
            if left < 0:
                missing.append(_TOO_MANY_RULES)
                break
        return Rules(
            tuple(_resource_rule(rule) for rule in rules if rule.get("apiGroups")),
            tuple(_path_rule(rule) for rule in rules if rule.get("nonResourceURLs")),
            tuple(missing),
            incomplete=left < 0,
        )

    def _decide(self, attributes: Attributes, bound: Bound) -> Decision | DecisionsByName:
        named: list[tuple[frozenset[str], CompiledBinding]] = []
        missing: list[str] = []
        user = attributes.user
        matching = _matching_resource(attributes) if attributes.is_resource else _matching_path(attributes)
        for binding, role in bound:
            if role is None:
                if len(missing) < MAX_MISSING:
                    missing.append(self._not_found(binding))
                continue
            for names in matching(role):
                if not names:
                    return _allowed_by(binding, user)
                named.append((names, binding))
        others = Decision(Verdict.NO_OPINION, f"RBAC: {join_errors(missing)}") if missing else NO_OPINION
        return DecisionsByName(tuple(named), others, user) if named else others

    def _keep(
        self, key: tuple[object, ...], attributes: Attributes, found: Decision | DecisionsByName
    ) -> None:
        length = sum(len(one) for one in key if isinstance(one, str))
        if length > MAX_CACHED_LENGTH or len(attributes.user.groups) > MAX_CACHED_GROUPS:
            return
        weight = 1
        if isinstance(found, DecisionsByName):
            weight += len(found.named) // RULES_PER_ENTRY
        if weight > MAX_CACHED:
            return
        self._weight += weight
        if self._weight > MAX_CACHED:
            self._cached, self._weight = {}, weight
        self._cached[key] = found

    def _forget(self) -> None:
        self._changes += 1
        self.changed.set()
        if self._cached:
            self._cached, self._weight = {}, 0

    def _not_found(self, binding: CompiledBinding) -> str:
        resource = Resource(self.policy.group, binding.role_kind.lower())
        return f"{resource} {quoted_start(binding.role_name)} not found"


def _rules_in(bound: Bound) -> int:
    return sum([1 if role is None else len(role.rules) for _, role in bound])


def _allowed_by(binding: CompiledBinding, user: User) -> Decision:
    return Decision(Verdict.ALLOW, f"RBAC: allowed by {binding.reason(user)}")


# The resourceNames of every rule of a role that allows a request; an empty set means all names.
Matching = Callable[[CompiledRole], Sequence[frozenset[str]]]

_ALL: Final[frozenset[str]] = frozenset()


def _matching_resource(attributes: Attributes) -> Matching:
    verb, group = attributes.verb, attributes.group
    resources = covering(attributes.resource, attributes.subresource)

    def matching(role: CompiledRole) -> Sequence[frozenset[str]]:
        if role.by_resource.keys().isdisjoint(resources):
            return ()  # the usual case, in which a user with thousands of bindings must not wait
        found = [rule.names for rule in role.rules_of(resources) if rule.allows(verb, group)]
        return [_ALL] if _ALL in found else found

    return matching


def _matching_path(attributes: Attributes) -> Matching:
    verb, path = attributes.verb, attributes.path

    def matching(role: CompiledRole) -> Sequence[frozenset[str]]:
        return [_ALL] if any(pattern.allows(verb, path) for pattern in role.paths) else ()

    return matching


def _order(bound: tuple[CompiledBinding, CompiledRole | None]) -> tuple[bool, str]:
    return bool(bound[0].namespace), bound[0].name


def _resource_rule(rule: Object) -> ResourceRule:
    return ResourceRule(
        tuple(rule["verbs"]),
        tuple(rule["apiGroups"]),
        tuple(rule.get("resources") or ()),
        tuple(rule.get("resourceNames") or ()),
    )


def _path_rule(rule: Object) -> PathRule:
    return PathRule(tuple(rule["verbs"]), tuple(rule["nonResourceURLs"]))
