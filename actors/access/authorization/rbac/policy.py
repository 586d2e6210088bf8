"""All roles and bindings, compiled, with an index of the bindings of every user and group.

`stored_policy` loads them once at start, before the server listens, and keeps them from the feed: a committed change
replaces the one compiled role or binding that it concerns, whatever their number, before its client gets the response.
Authorizers read the policy without waiting, and never in the middle of a change: both happen in the event loop, without
a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.access.authorization.rbac.roles import (
    CompiledBinding,
    CompiledRole,
    compiled_binding,
    compiled_role,
)
from actors.identity import User
from actors.messages import Object
from actors.names import Names
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

Key = tuple[str, str]  # namespace, "" for cluster-wide objects, and name
Bindings = dict[Key, CompiledBinding]


class RbacPolicy:
    def __init__(self, group: str) -> None:
        self.group = group
        self.roles: dict[Key, CompiledRole] = {}
        self._bindings: Bindings = {}
        # By the namespace of the bindings ("": cluster-wide) and the name of the user or group.
        self._of_users: dict[Key, Bindings] = {}
        self._of_groups: dict[Key, Bindings] = {}
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
        return list(found.values())

    def put_role(self, key: Key, stored: Object) -> None:
        self.roles[key] = compiled_role(stored.get("rules") or ())

    def remove_role(self, key: Key) -> None:
        self.roles.pop(key, None)

    def put_binding(self, key: Key, stored: Object) -> None:
        self.remove_binding(key)
        binding = self._bindings[key] = compiled_binding(*key, stored)
        for index, names in self._indexes(binding):
            for name in names:
                index.setdefault((binding.namespace, name), {})[key] = binding

    def remove_binding(self, key: Key) -> None:
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
                for namespace, name, row in view.rows(type_id, None):
                    self._policy.put_role((namespace, name), decode(row.body))
            for type_id in self.binding_types:
                for namespace, name, row in view.rows(type_id, None):
                    self._policy.put_binding((namespace, name), decode(row.body))

    def committed(self, events: Sequence[Event]) -> None:
        policy = self._policy
        for event in events:
            key = (event.namespace, event.name)
            if event.type_id in self.role_types:
                if event.removed:
                    policy.remove_role(key)
                else:
                    policy.put_role(key, decode(event.body))
            elif event.type_id in self.binding_types:
                if event.removed:
                    policy.remove_binding(key)
                else:
                    policy.put_binding(key, decode(event.body))
        policy.changed()
