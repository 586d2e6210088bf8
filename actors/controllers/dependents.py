"""Who depends on whom: from an owner's uid to its dependents, for the objects that have owners.

Owned by the garbage collector, which keeps it in step with the journal. Objects without owners cost nothing
here, and no owner is held as such: whether one exists is asked of the journal, by kind and name, and then
its uid is compared.

Dependents of an owner are kept in the order in which they came, because the collector sends them off from
the front and waits for one at the back.
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
        self._of: dict[str, dict[Key, None]] = {}
        self._owners: dict[Key, tuple[str, ...]] = {}

    def put(self, key: Key, owners: tuple[str, ...]) -> bool:
        """Take down an object's owners as they are now; answers whether there is one it did not have."""
        before = self._owners.get(key, ())
        if owners == before:
            return False
        for uid in before:
            if uid not in owners:
                self._separate(uid, key)
        if not owners:
            del self._owners[key]
            return False
        type_id, namespace, name = key
        key = (type_id, intern(namespace), name)
        self._owners[key] = tuple(map(intern, owners))
        for uid in self._owners[key]:
            self._of.setdefault(uid, {})[key] = None
        return not set(before).issuperset(owners)

    def drop(self, key: Key) -> None:
        for uid in self._owners.pop(key, ()):
            self._separate(uid, key)

    def clear(self) -> None:
        self._of.clear()
        self._owners.clear()

    def of(self, uid: str) -> list[Key]:
        return list(self._of.get(uid, ()))

    def any_of(self, uid: str) -> bool:
        return uid in self._of

    def statistics(self) -> DependentsStatistics:
        return DependentsStatistics(len(self._of), len(self._owners))

    def _separate(self, uid: str, key: Key) -> None:
        keys = self._of.get(uid)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self._of[uid]
