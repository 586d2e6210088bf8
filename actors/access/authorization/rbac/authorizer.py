"""RBAC: allows what the roles that are bound to a user, or to one of its groups, allow.

Decisions are kept per user, verb, resource and namespace until a role or binding changes: the first request finds the
bindings of the user and the rules of their roles, the others need one lookup. The name of an object is not part of what
is kept; rules with resourceNames are kept with their names. `*` as a user or group of a binding is an ordinary name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from actors.access.attributes import Attributes
from actors.access.authorization.rbac.policy import RbacPolicy
from actors.access.authorization.rbac.roles import CompiledBinding, CompiledRole, covering
from actors.access.authorize import NO_OPINION, Decision, Verdict, join_errors
from actors.access.rules import PathRule, ResourceRule, Rules
from actors.errors import Resource
from actors.identity import User
from actors.kinds.values.go_format import cut
from actors.messages import Object

# A kept decision takes less than a kilobyte. What is longer than requests usually are is decided anew each time.
MAX_KEPT: Final = 8192
MAX_KEPT_GROUPS: Final = 64
MAX_KEPT_LENGTH: Final = 512
MAX_MISSING: Final = 16  # roles that a reason names


@dataclass(frozen=True, slots=True)
class DecisionsByName:
    """The decisions of rules with resourceNames, and the one for all other names."""

    named: tuple[tuple[frozenset[str], Decision], ...]
    others: Decision

    def decision(self, name: str) -> Decision:
        for names, decision in self.named:
            if name in names:
                return decision
        return self.others


class Rbac:
    def __init__(self, policy: RbacPolicy) -> None:
        self.policy = policy
        self._kept: dict[tuple[object, ...], Decision | DecisionsByName] = {}
        policy.changed = self._forget

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        user = attributes.user
        if attributes.is_resource:
            key: tuple[object, ...] = (user.name, user.groups, attributes[1:7])
        else:
            key = (user.name, user.groups, attributes.verb, attributes.path)
        found = self._kept.get(key)
        if found is None:
            if self.policy.waits_for_large(user, attributes.namespace):
                return self._decide_later(attributes, key)
            found = self._decide(attributes)
            self._keep(key, attributes, found)
        if type(found) is Decision:
            return found
        assert isinstance(found, DecisionsByName)
        return found.decision(attributes.name)

    async def _decide_later(self, attributes: Attributes, key: tuple[object, ...]) -> Decision:
        while self.policy.waits_for_large(attributes.user, attributes.namespace):
            await self.policy.compile_large(attributes.user, attributes.namespace)
        found = self._decide(attributes)
        self._keep(key, attributes, found)
        return found if isinstance(found, Decision) else found.decision(attributes.name)

    def rules(self, user: User, namespace: str) -> Rules:
        found, missing = self._rules_of(user, namespace)
        return Rules(
            tuple(_resource_rule(rule) for rule in found if rule.get("apiGroups")),
            tuple(_path_rule(rule) for rule in found if rule.get("nonResourceURLs")),
            tuple(missing),
        )

    def _rules_of(self, user: User, namespace: str) -> tuple[list[Object], list[str]]:
        """The rules, and which roles are missing."""
        self.policy.compile_large_now(user, namespace)
        rules: list[Object] = []
        missing: list[str] = []
        for binding in sorted(self.policy.bindings_of(user, namespace), key=_order):
            role = self.policy.roles.get(binding.role_key)
            if role is None:
                missing.append(self._not_found(binding))
            else:
                rules.extend(role.rules)
        return rules, missing

    def _decide(self, attributes: Attributes) -> Decision | DecisionsByName:
        named: list[tuple[frozenset[str], Decision]] = []
        missing: list[str] = []
        user = attributes.user
        matching = _matching_resource(attributes) if attributes.is_resource else _matching_path(attributes)
        role_of = self.policy.roles.get
        for binding in self.policy.bindings_of(user, attributes.namespace):
            role = role_of(binding.role_key)
            if role is None:
                missing.append(self._not_found(binding))
                continue
            for names in matching(role):
                decision = Decision(Verdict.ALLOW, f"RBAC: allowed by {binding.reason(user)}")
                if not names:
                    return decision
                named.append((names, decision))
        others = (
            Decision(Verdict.NO_OPINION, f"RBAC: {join_errors(missing[:MAX_MISSING])}")
            if missing
            else NO_OPINION
        )
        return DecisionsByName(tuple(named), others) if named else others

    def _keep(
        self, key: tuple[object, ...], attributes: Attributes, found: Decision | DecisionsByName
    ) -> None:
        length = len(attributes.user.name) + sum(map(len, attributes[1:7]))
        if not attributes.is_resource:
            length += len(attributes.path)
        if length > MAX_KEPT_LENGTH or len(attributes.user.groups) > MAX_KEPT_GROUPS:
            return
        if len(self._kept) >= MAX_KEPT:
            self._kept = {}
        self._kept[key] = found

    def _forget(self) -> None:
        if self._kept:
            self._kept = {}

    def _not_found(self, binding: CompiledBinding) -> str:
        resource = Resource(self.policy.group, binding.role_kind.lower())
        return f'{resource} "{cut(binding.role_name)}" not found'


# The resourceNames of every rule of a role that allows a request; an empty set stands for all names.
Matching = Callable[[CompiledRole], Sequence[frozenset[str]]]

_ALL: Final[frozenset[str]] = frozenset()


def _matching_resource(attributes: Attributes) -> Matching:
    verb, group = attributes.verb, attributes.group
    resources = covering(attributes.resource, attributes.subresource)

    def matching(role: CompiledRole) -> Sequence[frozenset[str]]:
        if role.by_resource.keys().isdisjoint(resources):
            return ()  # the usual case, for which a user with thousands of bindings must not wait
        found = [rule.names for rule in role.rules_of(resources) if rule.allows(verb, group)]
        return [_ALL] if _ALL in found else found

    return matching


def _matching_path(attributes: Attributes) -> Matching:
    verb, path = attributes.verb, attributes.path

    def matching(role: CompiledRole) -> Sequence[frozenset[str]]:
        return [_ALL] if any(pattern.allows(verb, path) for pattern in role.paths) else ()

    return matching


def _order(binding: CompiledBinding) -> tuple[bool, str]:
    return bool(binding.namespace), binding.name


def _resource_rule(rule: Object) -> ResourceRule:
    return ResourceRule(
        tuple(rule["verbs"]),
        tuple(rule["apiGroups"]),
        tuple(rule.get("resources") or ()),
        tuple(rule.get("resourceNames") or ()),
    )


def _path_rule(rule: Object) -> PathRule:
    return PathRule(tuple(rule["verbs"]), tuple(rule["nonResourceURLs"]))
