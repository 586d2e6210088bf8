"""Who owns `spec.replicas` of a built-in object after a write through its scale (rule `scale-owner`: `writer`).

A client that changes the replicas through /scale owns them in an entry of its own, with the subresource `scale` and
without a time; everybody else loses them. A write that leaves the number as it is changes no owner. If nobody owned
them, as after a reset of managedFields, an update records nobody. An apply with another number conflicts with the
other owners; one with the same number shares the field.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.apply import BEFORE_FIRST_APPLY, Conflict, refusal
from rewound.actors.patch.managed_fields.field_set import Fields, difference, intersection
from rewound.actors.patch.managed_fields.managers import APPLY, UPDATE, Entry, encode_entries, entries_of

SCALE: Final = "scale"
SCALE_VERSION: Final = "autoscaling/v1"  # the version that conflicts name
REPLICAS: Final[Fields] = {"f:spec": {"f:replicas": {}}}


def owned_by_scale(definition: Definition, subresource: str) -> bool:
    """Whether writes through this subresource record who owns the replicas."""
    return subresource == SCALE and definition.rules.scale_owner == "writer" and not definition.is_custom


def owners_after_update(before: Object, after: Object, version: str, manager: str) -> list[Object]:
    """Return managedFields after an update or a patch of the scale; both objects are in storage form."""
    entries = entries_of(before)
    if _replicas(before) == _replicas(after) or not any(map(_owns, entries)):
        return _stored(before)
    return encode_entries([*_without_replicas(entries), Entry(manager, UPDATE, version, "", REPLICAS, SCALE)])


def owners_after_apply(
    before: Object, config: Object, version: str, manager: str, *, force: bool
) -> list[Object]:
    """Return managedFields after an apply of the scale. Raises ApplyConflict if others own another number."""
    wanted = (config.get("spec") or {}).get("replicas")
    if wanted is None:
        return _stored(before)
    entries, mine = entries_of(before), Entry(manager, APPLY, version, "", REPLICAS, SCALE)
    if not any(map(_owns, entries)) and _replicas(before):
        entries.append(Entry(BEFORE_FIRST_APPLY, UPDATE, version, "", REPLICAS, SCALE))
    others = [entry for entry in entries if entry.identity != mine.identity]
    if wanted != _replicas(before):
        owners = [entry for entry in others if _owns(entry)]
        if owners and not force:
            raise refusal([Conflict(entry._replace(version=SCALE_VERSION), REPLICAS) for entry in owners])
        others = _without_replicas(others)
    return encode_entries([*others, mine])


def _stored(before: Object) -> list[Object]:
    found: list[Object] = before["metadata"].get("managedFields", [])
    return found


def _replicas(stored: Object) -> int:
    found: int = stored["spec"].get("replicas") or 0
    return found


def _owns(entry: Entry) -> bool:
    return bool(intersection(entry.fields, REPLICAS))


def _without_replicas(entries: list[Entry]) -> list[Entry]:
    left = [entry._replace(fields=difference(entry.fields, REPLICAS)) for entry in entries]
    return [entry for entry in left if entry.fields]
