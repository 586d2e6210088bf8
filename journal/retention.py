"""Retention: the log forgets what nobody may ask for any more, and stays exact for everything else.

The caller decides the floor (from `--journal-retention`) and calls `advance` until it is reached; each call
is one short transaction. Moving the floor is compaction: an event that the floor passes makes the one before it
(`previous`) superfluous, and one that removed its object makes itself superfluous too:

    events  1 create a   2 create b   3 update a   4 delete b   5 create c        floor 0 -> 4
    left                              3 update a                5 create c

So the events left up to the floor are exactly the state at the floor; `previous` resolves for every version
from there on, and a replay of what is left gives the state at any of them. Deleting by age alone was
rejected: it would lose objects that have not changed for long.

The newest event always stays: offsets must never be given out again, and the head is read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from journal import keys, records
from journal.records import NAME, NAMESPACE, PREVIOUS, REMOVED, TYPE_ID

if TYPE_CHECKING:
    from journal.log import Journal

# Three deletions each; the writer waits for a batch some five milliseconds at most.
BATCH = 256


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the floor has come. `done`: it is where it was asked to be, or as high as it can be."""

    floor: int
    passed: int  # events at or below the floor since the last step
    deleted: int  # events that are gone since the last step
    done: bool


def advance(journal: Journal, floor: int, max_events: int = BATCH) -> Progress:
    """Raise the floor towards `floor` over at most `max_events` events, in one transaction."""
    with journal.read() as view:
        current, target = view.floor, min(floor, view.head - 1)
    if target <= current:
        return Progress(current, 0, 0, True)
    return journal.environment.write(lambda txn: _step(txn, journal, current, target, max_events))


def _step(txn: Any, journal: Journal, current: int, target: int, max_events: int) -> Progress:
    passing = _events_between(txn, journal, current, target, max_events)
    deleted = sum(_compact(txn, journal, offset, fields) for offset, fields in passing)
    done = len(passing) < max_events
    floor = target if done else passing[-1][0]
    txn.put(keys.FLOOR, keys.pack_offset(floor), db=journal.environment.meta)
    return Progress(floor, len(passing), deleted, done)


def _events_between(
    txn: Any, journal: Journal, after: int, upto: int, count: int
) -> list[tuple[int, records.Fields]]:
    cursor = txn.cursor(journal.environment.events)
    if not cursor.set_range(keys.pack_offset(after + 1)):
        return []
    found = ((keys.offset_of(key), value) for key, value in islice(cursor.iternext(), count))
    return [(offset, records.event_fields(offset, value)) for offset, value in found if offset <= upto]


def _compact(txn: Any, journal: Journal, offset: int, fields: records.Fields) -> int:
    """Delete what an event at the floor makes superfluous; how many events that were."""
    superfluous = [previous] if (previous := fields[PREVIOUS]) else []
    if fields[REMOVED]:
        superfluous.append(offset)
    object_key = keys.of_object(fields[TYPE_ID], fields[NAMESPACE], fields[NAME])
    for gone in superfluous:
        txn.delete(keys.pack_offset(gone), db=journal.environment.events)
        txn.delete(keys.by_type(fields[TYPE_ID], gone), db=journal.environment.by_type)
        txn.delete(keys.by_object(object_key, gone), db=journal.environment.by_object)
    return len(superfluous)
