"""An index from an owner's uid to its dependents, for the objects that have owner references.

The garbage collector owns it and updates it with every committed event. It has no entry for objects without owners, nor
for the owners themselves: the collector looks an owner up in the journal by kind and name, and compares the uid.

Dependents of an owner are in the order in which they were added, because the collector deletes them from the front and
waits for one at the back.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern

Key = tuple[int, str, str]  # type id, namespace, name


@dataclass(frozen=True, slots=True)
class DependentsStatistics:
    owners: int
    dependents: int


class Dependents:
    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, None]] = {}
        self._owners: dict[Key, tuple[str, ...]] = {}

    def update(self, key: Key, owners: tuple[str, ...]) -> bool:
        """Record the current owners of an object; returns whether there is a new one."""
        before = self._owners.get(key, ())
        if owners == before:
            return False
        for uid in before:
            if uid not in owners:
                self._unlink(uid, key)
        if not owners:
            del self._owners[key]
            return False
        type_id, namespace, name = key
        key = (type_id, intern(namespace), name)
        self._owners[key] = tuple(map(intern, owners))
        for uid in self._owners[key]:
            self._by_owner.setdefault(uid, {})[key] = None
        return not set(before).issuperset(owners)

    def drop(self, key: Key) -> None:
        for uid in self._owners.pop(key, ()):
            self._unlink(uid, key)

    def clear(self) -> None:
        self._by_owner.clear()
        self._owners.clear()

    def of(self, uid: str) -> list[Key]:
        return list(self._by_owner.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        return uid in self._by_owner

    def statistics(self) -> DependentsStatistics:
        return DependentsStatistics(len(self._by_owner), len(self._owners))

    def _unlink(self, uid: str, key: Key) -> None:
        keys = self._by_owner.get(uid)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self._by_owner[uid]
