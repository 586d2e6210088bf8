"""managedFields after a write that is no apply: the writer owns what it changed, and nobody owns what was removed.

Called for every create, replace and patch with the object as the client sent it, before admission and before the
strategy of the kind changes it, because the client does not own what the server adds. An update adds no entries to an
object without managedFields: a client reset them, or nobody owned anything; the first apply creates them. A write that
leaves list entries with equal keys (two variables of one name) clears managedFields, because no path identifies them.
So does one of a custom resource with fields that the version of another manager does not have.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.messages import Object
from actors.patch.managed_fields.comparison import Changes, compare
from actors.patch.managed_fields.field_set import difference, union
from actors.patch.managed_fields.field_view import FieldView, FieldViews
from actors.patch.managed_fields.managers import (
    UPDATE,
    Entry,
    encode_entries,
    encode_entry,
    entries_of,
    is_reset,
    read_entries,
)
from actors.patch.managed_fields.mismatch import find_mismatch
from actors.patch.managed_fields.topology import DuplicateKeys
from actors.time_limit import check_time


class UndeclaredFields(Exception):
    """A version of a custom kind that a manager used lacks fields of the object: changes cannot be compared in it."""


class Comparisons:
    """One change of an object, compared in each version that a manager wrote in. Objects are in storage form."""

    def __init__(
        self, views: FieldViews, view: FieldView, before: Object | None, after: Object, *, exact: bool = False
    ) -> None:
        self._views, self._view, self._exact = views, view, exact
        self._before, self._after = before, after
        self.changes = self._compare(view)
        self._made: dict[str, Changes | None] = {view.version: self.changes}

    def in_version(self, version: str) -> Changes | None:
        """None for a version that is not served any more."""
        if version not in self._made:
            view = self._views.find(version, self._view.subresource)
            if self._exact and view is not None:
                self._check_declared(view)
            self._made[version] = None if view is None else self._compare(view)
        return self._made[version]

    def _check_declared(self, other: FieldView) -> None:
        """UndeclaredFields if an object has a field that the version of another manager does not have."""
        for one in (self._before, self._after):
            if one is not None and not other.declares_all(self._view.show(one)):
                raise UndeclaredFields

    def _compare(self, view: FieldView) -> Changes:
        before = view.nothing if self._before is None else view.show(self._before)
        return compare(view.exact if self._exact else view.shape, before, view.show(self._after))


def owned_after(
    views: FieldViews, view: FieldView, before: Object | None, after: Object, manager: str, time: str
) -> list[Object]:
    """managedFields of the object that `after` becomes."""
    try:
        if before is None and not after["metadata"].get("managedFields"):
            found = view.new.fields(view.show(after))
            return (
                [encode_entry(manager, UPDATE, view.version, time, found, view.subresource)] if found else []
            )
        return _owned_after(views, view, before, after, manager, time)
    except (DuplicateKeys, UndeclaredFields):
        return []
    except (AttributeError, KeyError, TypeError):
        # Validation will refuse the new object; one that is stored may be older than the schema.
        if find_mismatch(view.shape, view.show(after)) or (
            before and find_mismatch(view.shape, view.show(before))
        ):
            return []
        raise


def _owned_after(
    views: FieldViews, view: FieldView, before: Object | None, after: Object, manager: str, time: str
) -> list[Object]:
    entries, kept = _entries_before(view, before, after)
    if not entries and kept:
        return []
    comparisons = Comparisons(views, view, before, after, exact=True)
    changes = comparisons.changes
    if kept and not changes:
        return before["metadata"].get("managedFields", []) if before else []
    left = without(entries, comparisons)
    if changes.changed:
        left = _with_manager(
            left, Entry(manager, UPDATE, view.version, time, changes.changed, view.subresource)
        )
    return encode_entries(left)


def _entries_before(view: FieldView, before: Object | None, after: Object) -> tuple[list[Entry], bool]:
    """The entries that the write starts from, and whether they are the stored ones."""
    stored = before["metadata"].get("managedFields", []) if before else []
    sent = after["metadata"].get("managedFields")
    if sent and sent != stored and not view.subresource:
        if is_reset(sent):
            return [], False
        entries = read_entries(sent)
        if entries:
            return entries, False
    return (entries_of(before), True) if before else ([], False)


def without(entries: Iterable[Entry], comparisons: Comparisons) -> list[Entry]:
    """The entries without the fields that this write changed or removed."""
    left: list[Entry] = []
    for entry in entries:
        check_time()
        changes = comparisons.in_version(entry.version)
        if changes is None:
            continue
        fields = difference(difference(entry.fields, changes.changed), changes.removed)
        if fields:
            left.append(entry if fields is entry.fields else entry._replace(fields=fields))
    return left


def _with_manager(entries: list[Entry], mine: Entry) -> list[Entry]:
    identity, others = mine.identity, []
    for entry in entries:
        if entry.identity == identity:
            mine = mine._replace(fields=union(entry.fields, mine.fields))
        else:
            others.append(entry)
    return [*others, mine]
