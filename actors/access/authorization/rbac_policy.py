"""All stored roles and bindings, compiled, with an index of the bindings of every user and group.

Loaded once at start, before the server listens, and kept from the feed: a committed change replaces the one compiled
role or binding that it concerns, in constant time, before its client gets the response. Roles are compiled when a
request first needs them, so a series of writes compiles nothing. Authorizers read it without waiting, and never in the
middle of a change: both happen in the event loop, without a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.access.authorization.rbac_roles import (
    CompiledBinding,
    CompiledRole,
    compiled_binding,
    compiled_role,
)
from actors.identity import User
from actors.names import Names
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

Key = tuple[str, str]  # namespace, "" for cluster-wide objects, and name
Bindings = dict[Key, CompiledBinding]


class RbacPolicy:
    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        self.group = names.group("rbac.authorization")
        self._roles: dict[Key, bytes | CompiledRole] = {}  # bytes: not compiled yet
        self._bindings: Bindings = {}
        # By the namespace of the bindings ("": cluster-wide) and the name of the user or group.
        self._of_users: dict[Key, Bindings] = {}
        self._of_groups: dict[Key, Bindings] = {}
        self._changed: list[Callable[[], None]] = []
        ids = {plural: journal.type_id(f"{plural}.{self.group}") for plural in _PLURALS}
        self._role_types = frozenset({ids["roles"], ids["clusterroles"]} - {0})
        self._binding_types = frozenset({ids["rolebindings"], ids["clusterrolebindings"]} - {0})
        self._load(journal)
        feed.follow(self._committed, self._role_types | self._binding_types)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every change of a role or binding."""
        self._changed.append(changed)

    def role(self, key: Key) -> CompiledRole | None:
        found = self._roles.get(key)
        if isinstance(found, bytes):
            found = self._roles[key] = compiled_role(decode(found).get("rules") or ())
        return found

    def bindings_of(self, user: User, namespace: str) -> Iterator[CompiledBinding]:
        """The bindings that have the user or one of its groups as subject: cluster-wide ones, then the namespace's."""
        yield from self._in_namespace(user, "")
        if namespace:
            yield from self._in_namespace(user, namespace)

    def _in_namespace(self, user: User, namespace: str) -> Iterator[CompiledBinding]:
        found = self._of_users.get((namespace, user.name), {})
        of_groups = [
            bindings
            for group in dict.fromkeys(user.groups)
            if (bindings := self._of_groups.get((namespace, group)))
        ]
        yield from found.values()
        seen = [found]
        for bindings in of_groups:
            for key, binding in bindings.items():
                if not any(key in earlier for earlier in seen):
                    yield binding
            seen.append(bindings)

    def _load(self, journal: Journal) -> None:
        with journal.read() as view:
            for type_id in self._role_types:
                for namespace, name, row in view.rows(type_id, None):
                    self._roles[namespace, name] = row.body
            for type_id in self._binding_types:
                for namespace, name, row in view.rows(type_id, None):
                    self._add(compiled_binding(namespace, name, decode(row.body)))

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id in self._role_types:
                self._put_role(event)
            elif event.type_id in self._binding_types:
                self._put_binding(event)
        for changed in self._changed:
            changed()

    def _put_role(self, event: Event) -> None:
        key = (event.namespace, event.name)
        if event.removed:
            self._roles.pop(key, None)
        else:
            self._roles[key] = event.body

    def _put_binding(self, event: Event) -> None:
        old = self._bindings.pop((event.namespace, event.name), None)
        if old is not None:
            self._remove(old)
        if not event.removed:
            self._add(compiled_binding(event.namespace, event.name, decode(event.body)))

    def _add(self, binding: CompiledBinding) -> None:
        key = (binding.namespace, binding.name)
        self._bindings[key] = binding
        for index, names in ((self._of_users, binding.users()), (self._of_groups, binding.groups())):
            for name in names:
                index.setdefault((binding.namespace, name), {})[key] = binding

    def _remove(self, binding: CompiledBinding) -> None:
        key = (binding.namespace, binding.name)
        for index, names in ((self._of_users, binding.users()), (self._of_groups, binding.groups())):
            for name in names:
                bindings = index.get((binding.namespace, name), {})
                bindings.pop(key, None)
                if not bindings:
                    index.pop((binding.namespace, name), None)


_PLURALS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
