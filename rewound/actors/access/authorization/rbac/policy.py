"""All roles and bindings, compiled, with an index of the bindings of every user and group.

`stored_policy` loads them once at start, before the server listens, and updates them from the feed: a committed change
replaces only the compiled role or binding that it concerns, before its client gets the response. A large one is
compiled in a thread when a request first needs it; until then, decisions that need it wait. Authorizers read the policy
without waiting, and never in the middle of a change: both happen in the event loop, without a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import trio

from rewound.actors.access.authorization.rbac.roles import (
    CompiledBinding,
    CompiledRole,
    LargeBinding,
    compiled_binding,
    compiled_role,
    large_binding,
)
from rewound.actors.identity import User
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace, "" for cluster-wide objects, and name
Bindings = dict[Key, CompiledBinding]
T = TypeVar("T")

LARGE: Final = 64 * 1024  # bytes; compiling more would block the event loop for milliseconds
# Default roles that are not compiled at start: most clusters never use them. One decision may need them all.
MAX_DEFERRED: Final = 100
_DEFAULT: Final = "system:"


class Roles:
    """Compiled roles; some are compiled when they are first read."""

    def __init__(self) -> None:
        self._compiled: dict[Key, CompiledRole] = {}
        self._deferred: dict[Key, bytes] = {}

    def get(self, key: Key) -> CompiledRole | None:
        found = self._compiled.get(key)
        if found is None and (body := self._deferred.pop(key, None)) is not None:
            found = self._compiled[key] = _role(body)
        return found

    def __contains__(self, key: Key) -> bool:
        return key in self._compiled or key in self._deferred

    def put(self, key: Key, role: CompiledRole) -> None:
        self._deferred.pop(key, None)
        self._compiled[key] = role

    def defer(self, key: Key, body: bytes) -> bool:
        """Compile the role when it is first read. Returns False if too many are deferred already."""
        if len(self._deferred) >= MAX_DEFERRED:
            return False
        self._deferred[key] = body
        return True

    def remove(self, key: Key) -> None:
        self._compiled.pop(key, None)
        self._deferred.pop(key, None)


class RbacPolicy:
    def __init__(self, group: str) -> None:
        self.group = group
        self.roles = Roles()
        self._bindings: Bindings = {}
        # By the namespace of the bindings ("": cluster-wide) and the name of the user or group.
        self._of_users: dict[Key, Bindings] = {}
        self._of_groups: dict[Key, Bindings] = {}
        self._large_bindings: dict[str, dict[Key, LargeBinding]] = {}  # by namespace
        # Large ones that no request has needed yet.
        self._uncompiled_roles: dict[Key, bytes] = {}
        self._uncompiled_bindings: dict[str, dict[Key, bytes]] = {}
        self._compiling = trio.Lock()  # many requests may wait for one large object, which is compiled once
        self.changed: Callable[[], None] = _ignore  # called after every change, or series of changes

    def bindings_of(self, user: User, namespace: str) -> list[CompiledBinding]:
        """The bindings that have the user or one of its groups as subject: cluster-wide ones, then the namespace's."""
        found: Bindings = {}
        for where in ("", namespace) if namespace else ("",):
            found.update(self._of_users.get((where, user.name), {}))
            for group in user.groups:
                of_group = self._of_groups.get((where, group))
                if of_group:
                    found.update(of_group)
            for key, large in self._large_bindings.get(where, {}).items():
                if large.has(user):
                    found[key] = large.binding
        return list(found.values())

    def waits_for_large(self, user: User, namespace: str) -> bool:
        """Whether a decision about the user needs large objects that are not compiled yet: see `compile_large`."""
        if not self._uncompiled_roles and not self._uncompiled_bindings:
            return False
        if any(self._uncompiled_bindings.get(where) for where in ("", namespace)):
            return True
        return any(one.role_key in self._uncompiled_roles for one in self.bindings_of(user, namespace))

    async def compile_large(self, user: User, namespace: str) -> None:
        """Compile them in a thread, so that other requests do not wait. Those that change meanwhile stay uncompiled."""
        async with self._compiling:
            for key, body in self._uncompiled_in(namespace):
                large = await trio.to_thread.run_sync(_large_binding, key, body)
                self._put_compiled_binding(key, body, large)
            for binding in self.bindings_of(user, namespace):
                await self._compile_role(binding.role_key)

    async def compile_large_role(self, key: Key) -> None:
        async with self._compiling:
            await self._compile_role(key)

    async def _compile_role(self, key: Key) -> None:
        body = self._uncompiled_roles.get(key)
        if body is not None:
            self._put_compiled_role(key, body, await trio.to_thread.run_sync(_role, body))

    def _uncompiled_in(self, namespace: str) -> list[tuple[Key, bytes]]:
        return [one for where in ("", namespace) for one in self._uncompiled_bindings.get(where, {}).items()]

    def _put_compiled_binding(self, key: Key, body: bytes, large: LargeBinding) -> None:
        if self._uncompiled_bindings.get(key[0], {}).get(key) is body:
            self.remove_binding(key)
            self._large_bindings.setdefault(key[0], {})[key] = large

    def _put_compiled_role(self, key: Key, body: bytes, compiled: CompiledRole) -> None:
        if self._uncompiled_roles.get(key) is body:
            self.remove_role(key)
            self.roles.put(key, compiled)

    def put_role(self, key: Key, stored: Object) -> None:
        self.remove_role(key)
        self.roles.put(key, compiled_role(stored.get("rules") or ()))

    def put_large_role(self, key: Key, body: bytes) -> None:
        self.remove_role(key)
        self._uncompiled_roles[key] = body

    def put_large_binding(self, key: Key, body: bytes) -> None:
        self.remove_binding(key)
        self._uncompiled_bindings.setdefault(key[0], {})[key] = body

    def remove_role(self, key: Key) -> None:
        self.roles.remove(key)
        self._uncompiled_roles.pop(key, None)

    def put_binding(self, key: Key, stored: Object) -> None:
        self.remove_binding(key)
        binding = self._bindings[key] = compiled_binding(*key, stored)
        for index, names in self._indexes(binding):
            for name in names:
                index.setdefault((binding.namespace, name), {})[key] = binding

    def remove_binding(self, key: Key) -> None:
        _remove(self._large_bindings, key)
        _remove(self._uncompiled_bindings, key)
        binding = self._bindings.pop(key, None)
        if binding is None:
            return
        for index, names in self._indexes(binding):
            for name in names:
                others = index.get((binding.namespace, name), {})
                others.pop(key, None)
                if not others:
                    index.pop((binding.namespace, name), None)

    def _indexes(
        self, binding: CompiledBinding
    ) -> tuple[tuple[dict[Key, Bindings], Iterator[str]], tuple[dict[Key, Bindings], Iterator[str]]]:
        return (self._of_users, binding.users()), (self._of_groups, binding.groups())


def _ignore() -> None:
    return


def _remove(by_namespace: dict[str, dict[Key, T]], key: Key) -> None:
    others = by_namespace.get(key[0])
    if others is not None and others.pop(key, None) is not None and not others:
        del by_namespace[key[0]]


def _role(body: bytes) -> CompiledRole:
    return compiled_role(decode(body).get("rules") or ())


def _large_binding(key: Key, body: bytes) -> LargeBinding:
    return large_binding(*key, decode(body))


def stored_policy(names: Names, journal: Journal, feed: Feed) -> RbacPolicy:
    """The policy of the stored roles and bindings, which follows the feed."""
    policy = RbacPolicy(names.group("rbac.authorization"))
    follower = _Follower(policy, journal)
    follower.load(journal)
    feed.follow(follower.committed, follower.role_types | follower.binding_types)
    return policy


class _Follower:
    def __init__(self, policy: RbacPolicy, journal: Journal) -> None:
        self._policy = policy

        def types(*plurals: str) -> frozenset[int]:
            return frozenset({journal.type_id(f"{plural}.{policy.group}") for plural in plurals} - {0})

        self.role_types = types("roles", "clusterroles")
        self.binding_types = types("rolebindings", "clusterrolebindings")

    def load(self, journal: Journal) -> None:
        with journal.read() as view:
            for type_id in self.role_types:
                each_usable("roles", view.rows(type_id, None), self._load_role)
            for type_id in self.binding_types:
                each_usable("role bindings", view.rows(type_id, None), self._load_binding)

    def _load_role(self, namespace: str, name: str, body: bytes) -> None:
        key = (namespace, name)
        if not name.startswith(_DEFAULT) or not self._policy.roles.defer(key, body):
            self._policy.put_role(key, decode(body))

    def _load_binding(self, namespace: str, name: str, body: bytes) -> None:
        self._policy.put_binding((namespace, name), decode(body))

    def committed(self, events: Sequence[Event]) -> None:
        for event in events:
            try:
                self._take(event)
            except Exception:  # the others must still count: they may revoke permissions
                self._forget(event)
                logger.exception("the role or binding %r cannot be compiled: it grants nothing", event.name)
        self._policy.changed()

    def _forget(self, event: Event) -> None:
        """Drop the previous version of a role or binding, too."""
        forget = self._policy.remove_role if event.type_id in self.role_types else self._policy.remove_binding
        forget((event.namespace, event.name))

    def _take(self, event: Event) -> None:
        policy, key = self._policy, (event.namespace, event.name)
        if event.type_id in self.role_types:
            if event.removed:
                policy.remove_role(key)
            elif len(event.body) > LARGE:
                policy.put_large_role(key, event.body)
            else:
                policy.put_role(key, decode(event.body))
        elif event.type_id in self.binding_types:
            if event.removed:
                policy.remove_binding(key)
            elif len(event.body) > LARGE:
                policy.put_large_binding(key, event.body)
            else:
                policy.put_binding(key, decode(event.body))
