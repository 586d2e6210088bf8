"""The entries of metadata.managedFields: which manager owns which fields.

An entry belongs to one manager, operation (Apply or Update) and subresource ("" for the object itself). An updater
has one entry for each version that it wrote in; an applier has one, whatever its version. Entries of appliers come
first, then those of updaters, both by time. Stored entries are trusted; `read_entries` checks those that a client
sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rewound.actors.messages import Object
from rewound.actors.patch.managed_fields.field_set import Fields, NotFields, read_fields, union_of_all
from rewound.actors.runtime.time_limit import check_time

APPLY: Final = "Apply"
UPDATE: Final = "Update"
FIELDS_V1: Final = "FieldsV1"

# Without a bound, the entries of a thousand one-off tools would be most of an object.
MAX_UPDATERS: Final = 10
MAX_SENT: Final = 500  # choosing the oldest takes quadratic time
OLDEST: Final = "ancient-changes"
LONGEST_NAME: Final = 128

Identity = tuple[str, str, str, str]


class Entry(NamedTuple):
    manager: str
    operation: str
    version: str
    time: str
    fields: Fields
    subresource: str = ""

    @property
    def identity(self) -> Identity:
        version = "" if self.operation == APPLY else self.version
        return self.manager, self.operation, self.subresource, version


def entries_of(stored: Object) -> list[Entry]:
    """Return the entries of a stored object."""
    return [
        Entry(
            one.get("manager", ""),
            one["operation"],
            one["apiVersion"],
            one.get("time", ""),
            one["fieldsV1"],
            one.get("subresource", ""),
        )
        for one in stored["metadata"].get("managedFields", ())
        if "operation" in one and "apiVersion" in one and "fieldsV1" in one  # else of a foreign writer
    ]


def encode_entries(entries: Iterable[Entry]) -> list[Object]:
    """Encode entries in order; if there are too many, the oldest updaters are merged."""
    in_order = sorted(entries, key=_order)
    return [
        encode_entry(*entry) for entry in (_bounded(in_order) if len(in_order) > MAX_UPDATERS else in_order)
    ]


def encode_entry(
    manager: str, operation: str, version: str, time: str, fields: Fields, subresource: str = ""
) -> Object:
    """Encode one entry; a new object has only one."""
    one: Object = {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": time,
        "fieldsType": FIELDS_V1,
        "fieldsV1": fields,
    }
    if not manager:
        del one["manager"]
    if not time:
        del one["time"]
    if subresource:
        one["subresource"] = subresource
    return one


def _order(entry: Entry) -> tuple[str, ...]:
    return entry.operation, entry.time, entry.manager, entry.version, entry.subresource


def _bounded(entries: list[Entry]) -> list[Entry]:
    """Return `entries` in order; merge the two oldest updaters of one version until there are few enough.

    Their fields are united only at the end, in pairs: adding each set to all before it would take quadratic time.
    """
    merged: dict[int, list[Fields]] = {}  # fields to unite, by the id of the entry that gets them
    while sum(entry.operation == UPDATE for entry in entries) > MAX_UPDATERS:
        check_time()
        pair = _two_oldest(entries)
        if pair is None:
            break
        one, other = pair
        together = Entry(OLDEST, UPDATE, other.version, other.time, {})
        merged[id(together)] = [
            *merged.pop(id(one), (one.fields,)),
            *merged.pop(id(other), (other.fields,)),
        ]
        entries = [entry for entry in entries if entry is not one and entry is not other]
        entries = sorted([*entries, together], key=_order)
    return [
        entry._replace(fields=union_of_all(merged[id(entry)])) if id(entry) in merged else entry
        for entry in entries
    ]


def _two_oldest(entries: Sequence[Entry]) -> tuple[Entry, Entry] | None:
    seen: dict[str, Entry] = {}
    for entry in entries:
        if entry.operation != UPDATE:
            continue
        if entry.version in seen:
            return seen[entry.version], entry
        seen[entry.version] = entry
    return None


def is_reset(sent: Sequence[Object]) -> bool:
    """Whether the client asks to clear managedFields, with one empty entry. The rule `empty-owner-list` is about []."""
    return len(sent) == 1 and not sent[0]


def read_entries(sent: Sequence[Object]) -> list[Entry] | None:
    """Return the entries that a client sent, or None if they are invalid or too many."""
    if len(sent) > MAX_SENT:
        return None
    found: dict[Identity, Entry] = {}
    for one in sent:
        entry = _read(one)
        if entry is None:
            return None
        found[entry.identity] = entry
    return list(found.values())


def _read(sent: Object) -> Entry | None:
    manager, operation, version = (sent.get(name, "") for name in ("manager", "operation", "apiVersion"))
    if operation not in (APPLY, UPDATE) or not version or sent.get("fieldsType") != FIELDS_V1:
        return None
    if not manager.isprintable() or len(manager.encode()) > LONGEST_NAME:
        return None
    try:
        fields = read_fields(sent.get("fieldsV1", {}))
    except NotFields:
        return None
    return Entry(manager, operation, version, sent.get("time") or "", fields, sent.get("subresource", ""))


def same_but_for_times(some: Sequence[Object], others: Sequence[Object]) -> bool:
    """Whether two lists of entries differ at most in their times."""
    return len(some) == len(others) and _by_owner(some) == _by_owner(others)


def _by_owner(entries: Sequence[Object]) -> dict[tuple[str, ...], Fields]:
    return {
        tuple(one.get(name, "") for name in ("manager", "operation", "apiVersion", "subresource")): one[
            "fieldsV1"
        ]
        for one in entries
    }
