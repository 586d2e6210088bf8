"""Who owns what after a write that is no apply: the writer owns what it changed, nobody what is gone.

Called for every create, replace and patch, with the object as the client wants it: before admission and before
what the kind puts right, because what the server adds is not the client's doing. An object without any owners gets
none by an update: it was reset, or nothing in it was ever anybody's; the first apply starts the books. A change to
lists whose entries cannot be told apart (two variables of one name) ends the books: no path leads to such an entry.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.messages import Object
from actors.patch.managed_fields.comparison import Changes, compare, found_new
from actors.patch.managed_fields.field_set import difference, union
from actors.patch.managed_fields.field_view import Door, Doors
from actors.patch.managed_fields.managers import (
    UPDATE,
    Entry,
    entries_of,
    is_reset,
    read_entries,
    shown,
    shown_alone,
)
from actors.patch.managed_fields.topology import Indistinct


class Comparisons:
    """One change of an object, looked at in whatever version an owner wrote. Objects are in storage form."""

    def __init__(
        self, doors: Doors, door: Door, before: Object | None, after: Object, *, exact: bool = False
    ) -> None:
        self._doors, self._door, self._exact = doors, door, exact
        self._before, self._after = before, after
        self.changes = self._compare(door)
        self._made: dict[str, Changes | None] = {door.version: self.changes}

    def in_version(self, version: str) -> Changes | None:
        """None for a version that is not served any more."""
        if version not in self._made:
            door = self._doors.find(version, self._door.subresource)
            self._made[version] = None if door is None else self._compare(door)
        return self._made[version]

    def _compare(self, door: Door) -> Changes:
        before = door.nothing if self._before is None else door.show(self._before)
        return compare(door.exact if self._exact else door.shape, before, door.show(self._after))


def owned_after(
    doors: Doors, door: Door, before: Object | None, after: Object, manager: str, time: str
) -> list[Object]:
    """managedFields of the object that `after` becomes."""
    try:
        return _owned_after(doors, door, before, after, manager, time)
    except Indistinct:
        return []


def _owned_after(
    doors: Doors, door: Door, before: Object | None, after: Object, manager: str, time: str
) -> list[Object]:
    if before is None and not after["metadata"].get("managedFields"):
        found = found_new(door.exact, door.nothing, door.show(after))
        return [shown_alone(manager, UPDATE, door.version, time, found, door.subresource)] if found else []
    entries, kept = _standing(door, before, after)
    if not entries and kept:
        return []
    comparisons = Comparisons(doors, door, before, after, exact=True)
    changes = comparisons.changes
    if kept and not changes:
        return before["metadata"].get("managedFields", []) if before else []
    left = without(entries, comparisons)
    if changes.changed:
        left = _credited(left, Entry(manager, UPDATE, door.version, time, changes.changed, door.subresource))
    return shown(left)


def _standing(door: Door, before: Object | None, after: Object) -> tuple[list[Entry], bool]:
    """The entries that the write starts from, and whether they are as they were stored."""
    stored = before["metadata"].get("managedFields", []) if before else []
    sent = after["metadata"].get("managedFields")
    if sent and sent != stored and not door.subresource:
        if is_reset(sent):
            return [], False
        entries = read_entries(sent)
        if entries:
            return entries, False
    return (entries_of(before), True) if before else ([], False)


def without(entries: Iterable[Entry], comparisons: Comparisons) -> list[Entry]:
    """What owners are left with when what changed is another's now and what is gone nobody's."""
    left: list[Entry] = []
    for entry in entries:
        changes = comparisons.in_version(entry.version)
        if changes is None:
            continue
        fields = difference(difference(entry.fields, changes.changed), changes.removed)
        if fields:
            left.append(entry if fields is entry.fields else entry._replace(fields=fields))
    return left


def _credited(entries: list[Entry], mine: Entry) -> list[Entry]:
    rest = [entry for entry in entries if entry.identity != mine.identity]
    for entry in entries:
        if entry.identity == mine.identity:
            mine = mine._replace(fields=union(entry.fields, mine.fields))
    return [*rest, mine]
