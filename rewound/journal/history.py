"""Reads of the log by index: events of one object or type, changes between two offsets, the offset of a time.

Called through `View`, by `replay` and by the command line. No function scans the whole log: events are indexed
by type and by object, and times never decrease along the log, so a time is found by binary search. Events that
retention removed are not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rewound.journal import keys, records, state
from rewound.journal.errors import Damaged
from rewound.journal.records import Event, Link
from rewound.journal.transaction import ReadTransaction


class Index(msgspec.Struct, frozen=True):
    """A database whose keys are `prefix` followed by an offset."""

    database: Any
    prefix: bytes


def whole_log(reading: ReadTransaction) -> Index:
    return Index(reading.databases.events, b"")


def of_type(reading: ReadTransaction, type_id: int) -> Index:
    return Index(reading.databases.by_type, keys.pack_type(type_id))


def of_object(reading: ReadTransaction, key: bytes) -> Index:
    return Index(reading.databases.by_object, key + b"\0")


def ascending(reading: ReadTransaction, index: Index, start: int) -> Iterator[int]:
    """Offsets from `start` upwards."""
    cursor = reading.txn.cursor(index.database)
    limit = reading.limit
    if cursor.set_range(index.prefix + keys.pack_offset(start)):
        for offset in _offsets(index, cursor.iternext(values=False)):
            if offset > limit:
                return
            yield offset


def descending(reading: ReadTransaction, index: Index, start: int) -> Iterator[int]:
    """Offsets from `start` downwards."""
    cursor = reading.txn.cursor(index.database)
    wanted = index.prefix + keys.pack_offset(min(start, reading.limit))
    # set_range finds the first key that is not smaller; the key before it is the last one that is not larger.
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


def links(reading: ReadTransaction, type_id: int, after: int, upto: int) -> Iterator[Link]:
    """The events of one type after `after` and up to `upto`, ascending, as links without contents.

    The entries on both sides of the range are checked too, because a damaged key may have moved an entry out of it.
    """
    cursor = reading.txn.cursor(reading.databases.by_type)
    decode = records.decode_link
    found = cursor.set_range(keys.by_type(type_id, after + 1))
    if cursor.prev() if found else cursor.last():
        decode(bytes(cursor.key()), cursor.value())
        found = cursor.next()
    elif found:
        cursor.first()
    if not found:
        return
    beyond = keys.by_type(type_id, upto)
    for view_of_key, value in cursor.iternext():
        key = bytes(view_of_key)
        link = decode(key, value)
        if key > beyond:
            return
        yield link


class ObjectChange(NamedTuple):
    """The offsets of an object's state at both ends of a range of the log; 0 where it did not exist."""

    before: int
    after: int
    last: int  # its last event in the range


def changed_objects(
    reading: ReadTransaction, type_id: int, after: int, upto: int
) -> dict[bytes, ObjectChange]:
    """The objects of a type that have events after `after` up to `upto`, by state key."""
    found: dict[bytes, ObjectChange] = {}
    for offset, key, previous, removed in links(reading, type_id, after, upto):
        before = found[key].before if key in found else previous
        found[key] = ObjectChange(before, 0 if removed else offset, offset)
    return found


def first_event_after(reading: ReadTransaction, key: bytes, offset: int) -> int:
    """The offset of an object's first event after `offset`; 0 if there is none."""
    cursor = reading.txn.cursor(reading.databases.by_object)
    if not cursor.set_range(keys.by_object(key, offset + 1)):
        return 0
    found = cursor.key()
    return keys.offset_of(found) if found[:-8] == key + b"\0" else 0


def history(reading: ReadTransaction, key: bytes, *, contents: bool = True) -> Iterator[Event]:
    """All remaining events of one object, ascending. Raises Damaged if the index has lost one."""
    floor, live = reading.floor, 0
    for offset in ascending(reading, of_object(reading, key), 0):
        event = reading.event_of(key, offset, contents=contents)
        if offset > floor and event.previous != live:
            raise Damaged(f"the index by object has lost an event of {records.printable(key)}")
        live = 0 if event.removed else offset
        yield event
    if reading.limit < keys.MAX_OFFSET:
        return  # the stored state is of a later offset
    row = state.get(reading.txn, reading.databases.state, key)
    if live != (0 if row is None else row.offset):
        raise Damaged(f"the index by object has lost an event of {records.printable(key)}")


def offset_at(reading: ReadTransaction, time: int, low: int = 0, high: int | None = None) -> int:
    """The newest offset whose event is not later than `time`; 0 if there is none.

    `low` and `high` narrow the search: the event at `low` is not later than `time`, and all events above `high` are.
    """
    cursor = reading.txn.cursor(reading.databases.events)
    high = reading.head if high is None else high
    while low < high:
        middle = (low + high + 1) // 2
        cursor.set_range(keys.pack_offset(middle))
        # Offsets have gaps: this is the first event at or after the middle, and may have been ruled out already.
        offset = keys.offset_of(cursor.key())
        if offset <= high and records.decode_event(offset, cursor.value(), contents=False).time <= time:
            low = offset
        else:
            high = middle - 1
    return low
