"""Prevents privilege escalation: users can grant only permissions that they have. Checked after all mutations.

Writing a role needs every permission in it, or the verb `escalate` on the role; writing a binding needs every
permission of its role, or the verb `bind` on the role. An aggregation rule can gather any permission, so it needs all
of them. Members of system:masters and the server itself need nothing. A change of only finalizers and owner references
is not checked, so that others can complete a deletion. Validation comes later, as in v1.25.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import trio

from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.roles import (
    CompiledRole,
    compact,
    described,
    merged_roles,
    parts,
    quoted_words,
)
from rewound.actors.access.authorize import Attributes, Authorizer, Decision, join_errors
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, NotFound, Resource
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import MASTERS, User
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import ROLES_IN_CONTEXT

EVERYTHING: Final[tuple[Object, ...]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
NEEDS_EVERYTHING: Final = "must have cluster-admin privileges to use the aggregationRule"
ROLE_PLURALS: Final = {"Role": "roles", "ClusterRole": "clusterroles"}
# Metadata whose change alone grants nothing.
_HARMLESS: Final = frozenset(
    ("ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion")
)
_AT_ONCE: Final = 200  # parts of rules, or roles, between two checkpoints: less than a millisecond
MAX_MISSING: Final = 500  # parts that an error describes


class RoleEscalation(AsyncPlugin):
    name = "RoleEscalation"

    def __init__(
        self, names: Names, rbac: Rbac, authorizer: Authorizer, features: frozenset[str] = frozenset()
    ) -> None:
        self._group = names.group("rbac.authorization")
        self._rbac = rbac
        self._authorizer = authorizer
        self._names_requested = ROLES_IN_CONTEXT in features
        plurals = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
        self.completes = (rule(CREATE, UPDATE, of=[Resource(self._group, plural) for plural in plurals]),)

    def concerns(self, request: AdmissionRequest) -> bool:
        caller = None if request.context is None else request.context.caller
        return caller is not None and MASTERS not in caller.groups

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.object is not None and request.context is not None
        caller = request.context.caller
        assert caller is not None
        if not changes_only_harmless_metadata(request.object, request.old):
            if "roleRef" in request.object:
                await self._check_binding(request, request.object["roleRef"], caller)
            else:
                await self._check_role(request, request.object, caller)
        return Admitted()

    async def _check_role(self, request: AdmissionRequest, new: Object, caller: User) -> None:
        # As for the request itself, the name of an object that is created does not count.
        name = request.name if request.operation == UPDATE else ""
        if await self._may(caller, "escalate", request.definition.plural, request.namespace, name):
            return
        await self._check_covered(request, new.get("rules") or (), caller)
        aggregated = _is_aggregated(new) or (request.old is not None and _is_aggregated(request.old))
        if aggregated and await self._missing(EVERYTHING, caller, request.namespace):
            raise Forbidden(request.definition.resource, _name(request), NEEDS_EVERYTHING)

    async def _check_binding(self, request: AdmissionRequest, reference: Object, caller: User) -> None:
        kind, name = reference["kind"], reference["name"]
        if kind not in ROLE_PLURALS:
            return  # validation rejects it
        plural = ROLE_PLURALS[kind]
        if await self._may(caller, "bind", plural, request.namespace, name):
            return
        policy, key = self._rbac.policy, ("" if kind == "ClusterRole" else request.namespace, name)
        await policy.compile_large_role(key)
        role = policy.roles.get(key)
        if role is None:
            raise self._not_found(request, kind, name)
        await self._check_covered(request, role.rules, caller)

    async def _may(self, caller: User, verb: str, plural: str, namespace: str, name: str) -> bool:
        wanted = Attributes(caller, verb, self._group, "*", plural, "", namespace, name)
        decision = self._authorizer.authorize(wanted)
        if not isinstance(decision, Decision):
            decision = await decision
        return decision.allowed

    async def _check_covered(self, request: AdmissionRequest, rules: Sequence[Object], caller: User) -> None:
        missing = await self._missing(rules, caller, request.namespace)
        if not missing:
            return
        texts = sorted({described(one) for one in compact(missing)})
        why = (
            f"user {quoted(caller.name)} (groups={quoted_words(caller.groups)}) is attempting to grant RBAC "
            f"permissions not currently held:\n" + "\n".join(texts)
        )
        if errors := self._unresolved(request, caller):
            why += f"; resolution errors: [{join_errors(errors)}]"
        raise Forbidden(request.definition.resource, _name(request), why)

    async def _missing(self, rules: Iterable[Object], caller: User, namespace: str) -> list[Object]:
        """The first parts of the rules that the caller does not have."""
        missing: list[Object] = []
        owned = await self._owned(caller, namespace)
        for number, part in enumerate(parts(owned, rules), 1):
            if part is not None:
                missing.append(part)
                if len(missing) == MAX_MISSING:
                    break
            if not number % _AT_ONCE:
                await trio.lowlevel.checkpoint()
        return missing

    async def _owned(self, caller: User, namespace: str) -> CompiledRole:
        policy = self._rbac.policy
        await policy.compile_large(caller, namespace)
        keys = {binding.role_key for binding in policy.bindings_of(caller, namespace)}
        roles = [role for key in keys if (role := policy.roles.get(key)) is not None]
        if sum(len(role.by_resource) for role in roles) <= _AT_ONCE:
            return merged_roles(roles)
        return await trio.to_thread.run_sync(merged_roles, roles)  # compiled roles never change

    def _unresolved(self, request: AdmissionRequest, caller: User) -> list[str]:
        """Roles that are bound to the caller and do not exist."""
        policy = self._rbac.policy
        return [
            str(self._not_found(request, binding.role_kind, binding.role_name))
            for binding in policy.bindings_of(caller, request.namespace)
            if binding.role_key not in policy.roles
        ][:MAX_MISSING]

    def _not_found(self, request: AdmissionRequest, kind: str, name: str) -> NotFound:
        if self._names_requested:
            return NotFound(request.definition.resource, name)
        return NotFound(Resource(self._group, ROLE_PLURALS[kind]), name)


def _is_aggregated(role: Object) -> bool:
    return role.get("aggregationRule") is not None


def _name(request: AdmissionRequest) -> str:
    assert request.object is not None
    name: str = request.name or request.object["metadata"].get("name", "")
    return name


def changes_only_harmless_metadata(new: Object, old: Object | None) -> bool:
    return old is not None and _compared(new) == _compared(old)


def _compared(one: Object) -> Object:
    """The object without harmless metadata; empty values count as absent."""
    compared = {key: value for key, value in one.items() if value and key != "metadata"}
    compared["metadata"] = {
        key: value for key, value in one["metadata"].items() if value and key not in _HARMLESS
    }
    return compared
