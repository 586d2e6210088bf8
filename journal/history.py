"""What happened: to one object, to a type, between two versions; and where in the log a moment lies.

Called through `View` and by the command line. All of it goes by keys, never through the whole log: events are
indexed by type and by object, and times never fall along the log, so a moment is found by halving. What
retention removed is not found any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from journal import keys, records, replay

if TYPE_CHECKING:
    from journal.records import Event
    from journal.view import View


@dataclass(frozen=True, slots=True)
class Index:
    """A way through the log: the keys that are `prefix` and an offset."""

    database: Any
    prefix: bytes


def whole_log(view: View) -> Index:
    return Index(view.journal.environment.events, b"")


def of_type(view: View, type_id: int) -> Index:
    return Index(view.journal.environment.by_type, keys.pack_type(type_id))


def of_object(view: View, key: bytes) -> Index:
    return Index(view.journal.environment.by_object, key + b"\0")


def ascending(view: View, index: Index, start: int) -> Iterator[int]:
    """Offsets from `start` on, upwards."""
    cursor = view.txn.cursor(index.database)
    if cursor.set_range(index.prefix + keys.pack_offset(start)):
        yield from _offsets(index, cursor.iternext(values=False))


def descending(view: View, index: Index, start: int) -> Iterator[int]:
    """Offsets from `start` on, downwards."""
    cursor = view.txn.cursor(index.database)
    wanted = index.prefix + keys.pack_offset(start)
    # LMDB finds the first key that is not smaller; the one in front of it is the last that is not larger.
    found = cursor.set_range(wanted)
    if not found and not cursor.last():
        return
    if found and cursor.key() != wanted and not cursor.prev():
        return
    yield from _offsets(index, cursor.iterprev(values=False))


def _offsets(index: Index, found: Iterator[Any]) -> Iterator[int]:
    for key in found:
        if key[:-8] != index.prefix:
            return
        yield keys.offset_of(key)


class Ends(NamedTuple):
    """The versions that an object had at both ends of a stretch of the log, 0 where it was not there."""

    before: int
    after: int
    last: int  # its last event in between


def touched(view: View, type_id: int, after: int, upto: int) -> dict[bytes, Ends]:
    """The objects of a type that have events behind `after` up to `upto`, by state key."""
    found: dict[bytes, Ends] = {}
    for offset, key, previous, removed in replay.links(view, type_id, after, upto):
        before = found[key].before if key in found else previous
        found[key] = Ends(before, 0 if removed else offset, offset)
    return found


def first_behind(view: View, key: bytes, offset: int) -> int:
    """The offset of an object's first event behind `offset`; 0 without one."""
    cursor = view.txn.cursor(view.journal.environment.by_object)
    if not cursor.set_range(keys.by_object(key, offset + 1)):
        return 0
    found = cursor.key()
    return keys.offset_of(found) if found[:-8] == key + b"\0" else 0


def history(view: View, key: bytes) -> Iterator[Event]:
    return (view.event_of(key, offset) for offset in ascending(view, of_object(view, key), 0))


def offset_at(view: View, time: int) -> int:
    """The newest offset whose event is not later than `time`; 0 without one."""
    cursor = view.txn.cursor(view.journal.environment.events)
    low, high = 0, view.head
    while low < high:
        middle = (low + high + 1) // 2
        cursor.set_range(keys.pack_offset(middle))
        # Offsets have gaps: this is the first event at or behind the middle, perhaps one already ruled out.
        offset = keys.offset_of(cursor.key())
        if offset <= high and records.event_fields(offset, cursor.value())[records.TIME] <= time:
            low = offset
        else:
            high = middle - 1
    return low
