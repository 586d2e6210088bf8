"""Who owns the replicas of an object after a write through its scale (rule `scale-owner`: `writer`).

A client that changes the replicas through /scale owns them in an entry of its own, with the subresource `scale` and
without a time; everybody else loses them. A write that leaves the number as it is changes no owner. If nobody owned
them, as after a reset of managedFields, an update records nobody. An apply with another number conflicts with the
other owners; one with the same number shares the field.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.apply import BEFORE_FIRST_APPLY, Conflict, refusal
from rewound.actors.patch.managed_fields.field_set import Fields, difference, intersection
from rewound.actors.patch.managed_fields.managers import APPLY, UPDATE, Entry, encode_entries, entries_of

SCALE: Final = "scale"
SCALE_VERSION: Final = "autoscaling/v1"  # the version that conflicts name


def scale_owners(definition: Definition, subresource: str) -> ScaleOwners | None:
    """Return what records who owns the replicas, or None if writes through this subresource record nobody."""
    if subresource != SCALE or definition.rules.scale_owner != "writer":
        return None
    found = definition.subresource(SCALE)
    return ScaleOwners(definition.api_version, found.replicas) if found and found.replicas else None


class ScaleOwners:
    def __init__(self, version: str, path: tuple[str, ...]) -> None:
        """`path` is that of the replicas in an object, `version` the one that entries name."""
        self._version, self._path = version, path
        nothing: Fields = {}
        self._fields = reduce(lambda inner, name: {f"f:{name}": inner}, reversed(path), nothing)

    def after_update(self, before: Object, after: Object, manager: str) -> list[Object]:
        """Return managedFields after an update or a patch of the scale; both objects are in storage form."""
        entries = entries_of(before)
        if self._replicas(before) == self._replicas(after) or not any(map(self._owns, entries)):
            return _stored(before)
        return encode_entries([*self._without_replicas(entries), self._entry(manager, UPDATE)])

    def after_apply(self, before: Object, config: Object, manager: str, *, force: bool) -> list[Object]:
        """Return managedFields after an apply of the scale. Raises ApplyConflict if others own another number."""
        wanted = (config.get("spec") or {}).get("replicas")
        if wanted is None:
            return _stored(before)
        entries, mine = entries_of(before), self._entry(manager, APPLY)
        if not any(map(self._owns, entries)) and self._replicas(before):
            entries.append(self._entry(BEFORE_FIRST_APPLY, UPDATE))
        others = [entry for entry in entries if entry.identity != mine.identity]
        if wanted != self._replicas(before):
            owners = [entry for entry in others if self._owns(entry)]
            if owners and not force:
                raise refusal(
                    [Conflict(entry._replace(version=SCALE_VERSION), _OF_SCALE) for entry in owners]
                )
            others = self._without_replicas(others)
        return encode_entries([*others, mine])

    def _entry(self, manager: str, operation: str) -> Entry:
        return Entry(manager, operation, self._version, "", self._fields, SCALE)

    def _replicas(self, stored: Object) -> int:
        found: Any = stored
        for name in self._path:
            found = found.get(name) if isinstance(found, dict) else None
        return found or 0

    def _owns(self, entry: Entry) -> bool:
        return bool(intersection(entry.fields, self._fields))

    def _without_replicas(self, entries: list[Entry]) -> list[Entry]:
        left = [entry._replace(fields=difference(entry.fields, self._fields)) for entry in entries]
        return [entry for entry in left if entry.fields]


_OF_SCALE: Final[Fields] = {"f:spec": {"f:replicas": {}}}  # the field that conflicts name


def _stored(before: Object) -> list[Object]:
    found: list[Object] = before["metadata"].get("managedFields", [])
    return found
