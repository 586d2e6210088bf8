"""Retention: removes events that only versions below the retention floor need; all later versions stay exact.

The caller chooses the floor (from `--journal-retention`) and calls `advance` until it is reached; each call
is one short transaction. Moving the floor is compaction: an event that the floor passes makes the event before
it (`previous`) unnecessary, and one that removed its object is unnecessary itself:

    events  1 create a   2 create b   3 update a   4 delete b   5 create c        floor 0 -> 4
    left                              3 update a                5 create c

So the events left up to the floor are exactly the state at the floor; `previous` resolves at every later version, and
a replay of the remaining events gives the state at any of them. Rejected: deleting by age alone, which would lose
objects that have not changed for a long time.

The newest event always stays: the head is read from it, and no offset may be used twice.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from rewound.journal import keys, records
from rewound.journal.environment import Databases
from rewound.journal.log import Journal
from rewound.journal.records import Event

# An event is deleted with three deletions: a batch delays other writes by at most five milliseconds.
BATCH = 256


class Progress(msgspec.Struct, frozen=True):
    """The result of one step of `advance`. `done`: the floor is at the requested offset, or as high as it can be."""

    floor: int
    passed: int  # events that the floor passed in this step
    deleted: int  # events deleted in this step
    done: bool


def advance(journal: Journal, floor: int, max_events: int = BATCH) -> Progress:
    """Raise the floor towards `floor` over at most `max_events` events, in one transaction."""
    with journal.read() as view:
        current, target = view.floor, min(floor, view.head - 1)
    if target <= current:
        return Progress(current, 0, 0, True)
    databases = journal.environment.databases
    return journal.environment.write(lambda txn: _step(txn, databases, current, target, max_events))


def _step(txn: Any, databases: Databases, current: int, target: int, max_events: int) -> Progress:
    passing = _events_between(txn, databases, current, target, max_events)
    deleted = sum(_compact(txn, databases, event) for event in passing)
    done = len(passing) < max_events
    floor = target if done else passing[-1].offset
    records.put_meta(txn, databases.meta, {keys.FLOOR: keys.pack_offset(floor)})
    return Progress(floor, len(passing), deleted, done)


def _events_between(txn: Any, databases: Databases, after: int, upto: int, count: int) -> list[Event]:
    cursor = txn.cursor(databases.events)
    if not cursor.set_range(keys.pack_offset(after + 1)):
        return []
    found = ((keys.offset_of(key), value) for key, value in islice(cursor.iternext(), count))
    return [records.decode_event(offset, value, contents=False) for offset, value in found if offset <= upto]


def _compact(txn: Any, databases: Databases, event: Event) -> int:
    """Delete the events that an event below the floor makes unnecessary; return how many."""
    unnecessary = [event.previous] if event.previous else []
    if event.removed:
        unnecessary.append(event.offset)
    object_key = keys.of_object(event.type_id, event.namespace, event.name)
    for gone in unnecessary:
        txn.delete(keys.pack_offset(gone), db=databases.events)
        txn.delete(keys.by_type(event.type_id, gone), db=databases.by_type)
        txn.delete(keys.by_object(object_key, gone), db=databases.by_object)
    return len(unnecessary)
