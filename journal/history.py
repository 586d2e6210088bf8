"""What happened to one object, and where in the log a moment lies.

Called through `View`. Both go by keys, never through the whole log: an object's events are indexed, and times
never fall along the log, so a moment is found by halving. What retention removed is not found any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from journal import keys, records

if TYPE_CHECKING:
    from journal.records import Event
    from journal.view import View


def offsets_of(view: View, key: bytes) -> Iterator[int]:
    """Offsets of an object's events, ascending."""
    cursor = view.txn.cursor(view.journal.environment.by_object)
    prefix = key + b"\0"
    if cursor.set_range(prefix):
        for found in cursor.iternext(values=False):
            if found[: len(prefix)] != prefix:
                return
            yield keys.offset_of(found)


def first_behind(view: View, key: bytes, offset: int) -> int:
    """The offset of an object's first event behind `offset`; 0 without one."""
    cursor = view.txn.cursor(view.journal.environment.by_object)
    if not cursor.set_range(keys.by_object(key, offset + 1)):
        return 0
    found = cursor.key()
    return keys.offset_of(found) if found[:-8] == key + b"\0" else 0


def history(view: View, key: bytes) -> Iterator[Event]:
    return (view.event_of(key, offset) for offset in offsets_of(view, key))


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
