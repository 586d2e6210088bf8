"""managedFields after a write other than an apply: the writer owns what it changed, and nobody owns what was removed.

Called for every create, replace and patch with the object as the client sent it, before admission and before the
strategy of the kind changes it, because the client does not own what the server adds. An update adds no entries to an
object without managedFields: a client reset them, or nobody owned anything; the first apply creates them. A write
that leaves list entries with equal keys (two variables of one name) clears managedFields, because no path identifies
them. So does a write of a custom resource with fields that the version of another manager does not have, or that a
webhook cannot convert to that version: a webhook that is down must not block writes in the storage version.

Objects of built-in kinds have the right types once they are decoded. Those of custom kinds are validated only after
their managers were found, and stored objects may have the types of an earlier schema: `find_mismatch` finds values of
other types than the schema declares.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from rewound.actors.errors import ConversionFailed
from rewound.actors.golang.quoting import cut
from rewound.actors.kinds.declaration.definition import ConvertByWebhook, Definition, Versions
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.comparison import Changes, compare
from rewound.actors.patch.managed_fields.field_set import (
    FIELD,
    Fields,
    difference,
    has_exactly,
    path_text,
    union,
)
from rewound.actors.patch.managed_fields.field_view import FieldView, FieldViews
from rewound.actors.patch.managed_fields.managers import (
    UPDATE,
    Entry,
    encode_entries,
    encode_entry,
    entries_of,
    is_reset,
    read_entries,
)
from rewound.actors.patch.managed_fields.topology import Dictionary, DuplicateKeys, Leaf, Open, Record, Shape
from rewound.actors.runtime.coroutines import without_waiting
from rewound.actors.runtime.time_limit import check_time

_LONGEST = 64  # characters of the value in a message


def find_mismatch(shape: Shape, value: Any) -> str:
    """Return an error such as `.spec.ports: expected list, got 5`, or "" if there is none."""
    found = _find(shape, value, ())
    if found is None:
        return ""
    path, expected, wrong = found
    return f"{path_text(path)}: expected {expected}, got {cut(str(wrong), _LONGEST)}"


def _find(shape: Shape, value: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], str, Any] | None:
    if value is None or type(shape) is Leaf or type(shape) is Open:
        return None
    check_time()
    if isinstance(shape, Record | Dictionary):
        if not isinstance(value, dict):
            return path, "map", value
        parts = [(element, value[element[len(FIELD) :]]) for element in shape.parts(value)]
    else:
        if not isinstance(value, list):
            return path, "list", value
        parts = [(f"i:{index}", item) for index, item in enumerate(value)]
    for element, part in parts:
        found = _find(shape.part(element), part, (*path, element))
        if found is not None:
            return found
    return None


class UndeclaredFields(Exception):
    """Changes cannot be compared in a version that another manager used, because it lacks fields of the object."""


class Comparisons:
    """One change of an object, compared in each version that a manager wrote in. Objects are in storage form."""

    def __init__(
        self,
        views: FieldViews,
        view: FieldView,
        before: Object | None,
        after: Object,
        convert: ConvertByWebhook,
        *,
        exact: bool = False,
    ) -> None:
        self._views, self._view, self._exact = views, view, exact
        self._before, self._after, self._convert = before, after, convert
        # The view is that of the command: objects are in its version.
        here = view.nothing if before is None else view.show(before)
        self.changes = self._compare(view, here, view.show(after))
        self._made: dict[str, Changes | None] = {view.version: self.changes}

    async def in_version(self, version: str) -> Changes | None:
        """Return the changes in a version, or None if it is no longer served."""
        if version not in self._made:
            view = self._views.find(version, self._view.subresource)
            if self._exact and view is not None:
                self._check_declared(view)
            self._made[version] = None if view is None else await self._compare_in(view)
        return self._made[version]

    def _check_declared(self, other: FieldView) -> None:
        """Raise UndeclaredFields if an object has a field that the version of another manager does not have."""
        for one in (self._before, self._after):
            if one is not None and not other.declares_all(self._view.show(one)):
                raise UndeclaredFields

    async def _compare_in(self, view: FieldView) -> Changes:
        before = view.nothing
        if self._before is not None:
            before = await view.shown(self._before, self._convert)
        return self._compare(view, before, await view.shown(self._after, self._convert))

    def _compare(self, view: FieldView, before: Object, after: Object) -> Changes:
        return compare(view.exact if self._exact else view.shape, before, after)


async def no_conversion(versions: Versions, one: Object, source: str, target: str) -> Object:
    """For objects that no manager wrote in another version."""
    raise ConversionFailed(f"no webhook converts from {source} to {target} here")


async def owned_after(
    views: FieldViews,
    view: FieldView,
    before: Object | None,
    after: Object,
    manager: str,
    time: str,
    convert: ConvertByWebhook = no_conversion,
) -> list[Object]:
    """Return managedFields after the object becomes `after`. It waits only where `convert` does."""
    try:
        if before is None and not after["metadata"].get("managedFields"):
            found = view.new.fields(view.show(after))
            return (
                [encode_entry(manager, UPDATE, view.version, time, found, view.subresource)] if found else []
            )
        return await _owned_after(views, view, before, after, manager, time, convert)
    except (DuplicateKeys, UndeclaredFields, ConversionFailed):
        return []
    except (AttributeError, KeyError, TypeError):
        # Validation will refuse the new object, or the stored one is older than the schema.
        if find_mismatch(view.shape, view.show(after)) or (
            before and find_mismatch(view.shape, view.show(before))
        ):
            return []
        raise


def creator_entries(
    definition: Definition, subresource: str, sent: Object, manager: str, time: str
) -> list[Object]:
    """Return managedFields of an object that is never stored, such as a review or a binding."""
    views, view = _views_of_unstored(definition, subresource)
    return without_waiting(owned_after(views, view, None, sent, manager, time))


@lru_cache(maxsize=64)  # more than there are kinds of such objects
def _views_of_unstored(definition: Definition, subresource: str) -> tuple[FieldViews, FieldView]:
    views = FieldViews({definition.api_version: definition})
    return views, replace(views(definition.api_version, ""), subresource=subresource)


# Bounds of the caches in `Creation`, because clients choose keys and managers.
MAX_SHAPES: Final = 32
MAX_KEYS: Final = 32  # combinations of keys, for each shape
MAX_CHARACTERS: Final = 512  # in the keys of one object
MAX_CREATORS: Final = 64

_Keys = tuple[str, ...]
# The flat maps in metadata and in the object, and the fields for each combination of their keys.
_Shape = tuple[_Keys, _Keys, dict[tuple[_Keys, ...], Fields]]


class Creation:
    """managedFields of new objects in one version: one entry, with everything that the creator sent.

    Creates are the most frequent writes. Many objects have only single values and flat maps, such as labels: their
    fields depend only on the keys, which are mostly the same, and are computed once for each combination of keys.
    """

    __slots__ = ("_creators", "_shapes", "_view", "_views")

    def __init__(self, views: FieldViews, view: FieldView) -> None:
        self._views, self._view = views, view
        # By the members of the object and of metadata. None: some are neither single values nor flat maps.
        self._shapes: dict[tuple[_Keys, _Keys], _Shape | None] = {}
        self._creators: dict[tuple[str, int], Object] = {}  # entries without fields, by manager and second

    def known_entries(self, new: Object, manager: str, time: int) -> list[Object] | None:
        """Return managedFields of a new object, or None if `find_entries` has to compute them first.

        They share parts with those of other objects. `time` is in microseconds.
        """
        metadata = new["metadata"]
        shape = self._shapes.get((tuple(new), tuple(metadata)))
        if shape is None:
            return None
        of_metadata, of_object, known = shape
        keys: list[_Keys] = []
        try:
            for name in of_metadata:
                keys.append(tuple(metadata[name]))
            for name in of_object:
                keys.append(tuple(new[name]))
            fields = known[tuple(keys)]
        except (KeyError, TypeError):  # other keys, or null instead of a map
            return None
        creator = self._creators.get((manager, time // 1_000_000))
        if creator is None:
            creator = self._find_creator(manager, time)
        return [{**creator, "fieldsV1": fields}]

    async def find_entries(
        self, new: Object, manager: str, time: int, convert: ConvertByWebhook = no_conversion
    ) -> list[Object]:
        """Compute managedFields as for other writes, and cache the fields."""
        found = await owned_after(self._views, self._view, None, new, manager, seconds_text(time), convert)
        metadata = new["metadata"]
        if len(found) == 1 and "managedFields" not in metadata and self._view.shows_unchanged:
            shape = self._shape(new)
            if shape is not None:
                self._cache(shape, new, found[0]["fieldsV1"])
        return found

    def _shape(self, new: Object) -> _Shape | None:
        members = tuple(new), tuple(new["metadata"])
        if members not in self._shapes:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            maps = self._view.new.flat_maps(*members)
            self._shapes[members] = None if maps is None else (*maps, {})
        return self._shapes[members]

    def _cache(self, shape: _Shape, new: Object, fields: Fields) -> None:
        of_metadata, of_object, known = shape
        maps = *(new["metadata"][name] for name in of_metadata), *(new[name] for name in of_object)
        if None not in maps and sum(len(key) for one in maps for key in one) <= MAX_CHARACTERS:
            if len(known) >= MAX_KEYS:
                known.clear()
            known[tuple(map(tuple, maps))] = fields

    def _find_creator(self, manager: str, time: int) -> Object:
        if len(self._creators) >= MAX_CREATORS:
            self._creators.clear()
        entry = encode_entry(manager, UPDATE, self._view.version, seconds_text(time), {})
        self._creators[manager, time // 1_000_000] = entry
        return entry


async def _owned_after(
    views: FieldViews,
    view: FieldView,
    before: Object | None,
    after: Object,
    manager: str,
    time: str,
    convert: ConvertByWebhook,
) -> list[Object]:
    entries, kept = _entries_before(view, before, after)
    if not entries and (kept or (before and view.reset_clears_owners)):
        return []
    comparisons = Comparisons(views, view, before, after, convert, exact=True)
    changes = comparisons.changes
    if kept and not changes:
        return before["metadata"].get("managedFields", []) if before else []
    mine = Entry(manager, UPDATE, view.version, time, changes.changed, view.subresource)
    if not changes.removed and (known := _writes_its_own(entries, mine)) is not None:
        # As with renewals of leases: nothing but the time of the entry changes.
        others = await without((one for one in entries if one is not known), comparisons)
        return encode_entries([*others, mine._replace(fields=known.fields)])
    left = await without(entries, comparisons)
    if changes.changed:
        left = _with_manager(left, mine)
    return encode_entries(left)


def _writes_its_own(entries: Iterable[Entry], mine: Entry) -> Entry | None:
    """The entry of the writer, if it has all fields that the write changed."""
    for one in entries:
        if one.identity == mine.identity:
            return one if mine.fields and has_exactly(one.fields, mine.fields) else None
    return None


def _entries_before(view: FieldView, before: Object | None, after: Object) -> tuple[list[Entry], bool]:
    """Return the entries that the write starts from, and whether they are the stored ones."""
    stored = before["metadata"].get("managedFields", []) if before else []
    sent = after["metadata"].get("managedFields")
    if sent == [] and view.empty_resets and not view.subresource:
        return [], False
    if sent and sent != stored and not view.subresource:
        if is_reset(sent):
            return [], False
        entries = read_entries(sent)
        if entries:
            return entries, False
    return (entries_of(before), True) if before else ([], False)


async def without(entries: Iterable[Entry], comparisons: Comparisons) -> list[Entry]:
    """Return the entries without the fields that this write changed or removed."""
    left: list[Entry] = []
    for entry in entries:
        check_time()
        changes = await comparisons.in_version(entry.version)
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
