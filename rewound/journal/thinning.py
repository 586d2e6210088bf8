"""Thinning: drops old events of some types that change nothing but times, such as renewals of a Lease.

The caller names the types and how far to thin (`--journal-retention KIND=TIME`), and decides which event only renews
(`Renews`). An event is dropped when it only renews what the event before it says and a later event follows it. That
later event gets a new `previous`, in the same transaction:

    events  1 create a   2 renew a   3 renew a   4 change a   5 renew a   6 renew a        thinned up to 5
    left    1 create a                           4 change a   5 renew a   6 renew a        4 follows 1

So the journal is what it would be if the dropped events had never been written: every chain of `previous` is whole,
and replay, history, blame, export and `verify` need no exception. Versions after the mark, up to which a type is
thinned, are exact. Before it, an object has the content of the event that was kept, which differs in times only; the
readers say so (`ReadTransaction.thinned`). What remains in any case: events that create, remove or change an object,
the newest event of each object up to the mark, events up to the retention floor, and those that a snapshot refers to.

Every step stores the mark with what it drops. A kill between two steps leaves objects that are not thinned yet; the
first run of the next process looks at all of them.

`forget` does the same with kinds whose past nobody needs for long, such as Events (`rewound flight --forget`): every
event goes that a later one follows, unless it creates an object that has not been removed up to the mark, and objects
that were removed up to the mark go with all their events, as if they had never been written. So present objects and
versions after the mark stay exact here too; before it, objects may be missing, or older than they were.

Rejected: a retention floor for each type, which would also drop who held a Lease when, and the removal of objects; and
leaving `previous` dangling, which every reader would have to expect.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rewound.journal import failpoints, keys, records, snapshots
from rewound.journal.environment import Databases
from rewound.journal.errors import Damaged, Unreadable
from rewound.journal.log import Journal
from rewound.journal.records import Event, Thinned
from rewound.journal.transaction import ReadTransaction

# Whether the second event changes nothing but times since the first, which is an earlier event of the same object.
Renews = Callable[[Event, Event], bool]

# Events looked at in one transaction: like a batch of `retention`, it delays other writes by some milliseconds.
BATCH = 256

_failpoint = failpoints.from_environment("journal.thin")


def thin(
    journal: Journal, type_id: int, upto: int, renews: Renews, *, after: int = 0, max_events: int = BATCH
) -> Iterator[int]:
    """Drop events of a type up to an offset, one transaction per step; yields the number dropped by each.

    `after` is the offset up to which this process has thinned the type before.
    """
    return _steps(journal, type_id, upto, after, _Thinner(renews, max_events))


def forget(journal: Journal, type_id: int, upto: int, *, max_events: int = BATCH) -> Iterator[int]:
    """Drop the events of a type up to an offset that no present object needs; otherwise like `thin`.

    It looks at all that is left of them each time: what a snapshot needed may have become unnecessary.
    """
    return _steps(journal, type_id, upto, 0, _Thinner(lambda *_: True, max_events, whole=True))


def _steps(journal: Journal, type_id: int, upto: int, after: int, thinner: _Thinner) -> Iterator[int]:
    with journal.read() as view:
        upto = min(upto, view.head - 1)
        if upto <= max(after, view.floor) or not type_id:
            return
    thinner.begin(journal.environment.databases, type_id, upto, after)
    position: bytes | None = keys.pack_type(type_id)
    while position is not None:
        # Nothing in `thinner` changes: LMDB may repeat the transaction in a larger map.
        position, dropped = journal.environment.write(partial(thinner.step, position))
        yield dropped


class _Thinner:
    def __init__(self, renews: Renews, max_events: int, *, whole: bool = False) -> None:
        self._renews, self._max_events, self._whole = renews, max_events, whole

    def begin(self, databases: Databases, type_id: int, upto: int, after: int) -> None:
        self._databases, self._type_id, self._upto, self._after = databases, type_id, upto, after

    def step(self, position: bytes, txn: Any) -> tuple[bytes | None, int]:
        """Thin objects from a position in by_object on; return where to continue, and how many events it dropped."""
        databases = self._databases
        floor = int.from_bytes(txn.get(keys.FLOOR, db=databases.meta), "big")
        # An event is needed by the snapshots that were taken while it was its object's newest.
        needed = sorted({offset for offset, _ in snapshots.chunks_in(txn, databases)})
        following: bytes | None = position
        left, dropped = self._max_events, 0
        while left > 0 and following is not None:
            found = _next_object(txn, databases, following, self._type_id)
            if found is None:
                following = None
                break
            key, start = found
            offsets = self._offsets(txn, key, max(start, floor + 1), left)
            left -= len(offsets) + 1
            dropped += self._thin_object(txn, key, offsets, floor, needed)
            if self._whole:
                dropped += sum(self._forget_removed(txn, key, offset, floor, needed) for offset in offsets)
            following = key + b"\1" if left > 0 or not offsets else keys.by_object(key, offsets[-1])
        put_mark(txn, databases, self._type_id, Thinned(self._upto, dropped, self._whole))
        if _failpoint is not None:
            _failpoint("before-commit")
        return following, dropped

    def _offsets(self, txn: Any, key: bytes, start: int, count: int) -> list[int]:
        """The offsets of an object's next events that may make the one before them unnecessary."""
        cursor = txn.cursor(self._databases.by_object)
        if not cursor.set_range(keys.by_object(key, max(start, self._after + 1))):
            return []
        return list(_upto(cursor, key, self._upto, count))

    def _thin_object(self, txn: Any, key: bytes, offsets: list[int], floor: int, needed: list[int]) -> int:
        """Drop those events before `offsets` that only renew; return how many."""
        dropped = 0
        last: Event | None = None  # the newest event that is kept so far
        before: Event | None = None  # and the one before it
        relinked = False  # whether `last` follows another event than the stored one says
        for offset in offsets:
            event = _event(txn, self._databases, key, offset)
            if last is None and event.previous:
                last = _event(txn, self._databases, key, event.previous)
                before = self._before(txn, key, last, floor)
            elif event.previous != (0 if last is None or last.removed else last.offset):
                raise Damaged(f"event {offset} does not follow the state of {records.printable(key)}")
            if (
                last is not None
                and before is not None
                and event.previous
                and event.body  # otherwise it cannot be read, and not be stored again
                and not _is_needed(needed, last.offset, offset)
                and self._renews(before, last)
            ):
                _delete(txn, self._databases, key, last.offset)
                dropped += 1
                last, relinked = event._replace(previous=before.offset), True
                continue
            if relinked and last is not None:
                _store(txn, self._databases, key, last)
            before, last, relinked = last if event.previous else None, event, False
        if relinked and last is not None:
            _store(txn, self._databases, key, last)
        return dropped

    def _forget_removed(self, txn: Any, key: bytes, offset: int, floor: int, needed: list[int]) -> int:
        """Drop all events of an object that the event at an offset removed, if it is still there; return how many."""
        if not _has_event(txn, self._databases, offset):
            return 0
        event = _event(txn, self._databases, key, offset)
        if not event.removed:
            return 0
        of_object = [offset]
        while event.previous:
            if event.previous <= floor:
                return 0
            event = _event(txn, self._databases, key, event.previous)
            of_object.append(event.offset)
        if _is_needed(needed, event.offset, offset):
            return 0
        for one in of_object:
            _delete(txn, self._databases, key, one)
        return len(of_object)

    def _before(self, txn: Any, key: bytes, last: Event, floor: int) -> Event | None:
        """The event before one that may be dropped; None if it must stay."""
        if last.offset <= floor or not last.previous:
            return None
        return _event(txn, self._databases, key, last.previous)


def _next_object(txn: Any, databases: Databases, position: bytes, type_id: int) -> tuple[bytes, int] | None:
    """The key of the first object of a type at or after a position in by_object, and the offset there."""
    cursor = txn.cursor(databases.by_object)
    if not cursor.set_range(position):
        return None
    found = bytes(cursor.key())
    return (found[:-9], keys.offset_of(found)) if found[:2] == keys.pack_type(type_id) else None


def _upto(cursor: Any, key: bytes, upto: int, count: int) -> Iterator[int]:
    prefix = key + b"\0"
    for found in cursor.iternext(values=False):
        offset = keys.offset_of(found)
        if not count or found[:-8] != prefix or offset > upto:
            return
        count -= 1
        yield offset


def _event(txn: Any, databases: Databases, key: bytes, offset: int) -> Event:
    value = txn.get(keys.pack_offset(offset), db=databases.events)
    if value is None:
        raise Damaged(f"event {offset} of {records.printable(key)} is missing")
    try:
        return records.decode_event(offset, value)
    except Unreadable:
        return records.decode_event(offset, value, contents=False)


def _has_event(txn: Any, databases: Databases, offset: int) -> bool:
    return txn.get(keys.pack_offset(offset), db=databases.events) is not None


def _is_needed(needed: Sequence[int], offset: int, following: int) -> bool:
    """Whether a snapshot was taken after the event at `offset` and before the one that follows it."""
    at = bisect_left(needed, offset)
    return at < len(needed) and needed[at] < following


def _delete(txn: Any, databases: Databases, key: bytes, offset: int) -> None:
    packed = keys.pack_offset(offset)
    txn.delete(packed, db=databases.events)
    txn.delete(key[:2] + packed, db=databases.by_type)
    txn.delete(keys.by_object(key, offset), db=databases.by_object)


def _store(txn: Any, databases: Databases, key: bytes, event: Event) -> None:
    """Store an event with a new `previous`."""
    packed = keys.pack_offset(event.offset)
    type_key = key[:2] + packed
    txn.put(packed, records.encode_event(packed, event), db=databases.events)
    link = records.encode_link(type_key, key, event.previous, event.removed)
    txn.put(type_key, link, db=databases.by_type)


def put_mark(txn: Any, databases: Databases, type_id: int, step: Thinned) -> None:
    """Add what a step has dropped to the mark of a type."""
    marks = records.decode_thinned(bytes(txn.get(keys.THINNED, b"", db=databases.meta)))
    before = marks.get(type_id, Thinned(0, 0))
    marks[type_id] = Thinned(
        max(step.upto, before.upto), before.dropped + step.dropped, before.whole or step.whole
    )
    records.put_meta(txn, databases.meta, {keys.THINNED: records.encode_thinned(marks)})


def relinked(
    reading: ReadTransaction, events: Sequence[Event], values: Sequence[bytes]
) -> tuple[list[Event], list[bytes]]:
    """Events of a journal that may be thinned, and their bytes, for a journal that may have more of it: the same, but
    each follows the event that its object has here.

    A follower that was away has renewals that its leader dropped meanwhile; the leader's next event of such an object
    follows an older one. Events that cannot be explained like this stay as they are, and are refused later.
    """
    found, stored = list(events), list(values)
    written: dict[bytes, list[int]] = {}  # the events of each object among these; empty: it was removed
    for at, event in enumerate(events):
        key = keys.of_object(event.type_id, event.namespace, event.name)
        here = written[key][-1:] if key in written else _newest(reading, key)
        if here and 0 < event.previous < here[-1]:
            older = written.get(key, ())
            if event.previous in older or _has(reading, key, event.previous):
                found[at] = event._replace(previous=here[-1])
                stored[at] = records.encode_event(keys.pack_offset(event.offset), found[at])
        written[key] = [] if event.removed else [*written.get(key, ()), event.offset]
    return found, stored


def _newest(reading: ReadTransaction, key: bytes) -> list[int]:
    """The offset of an object's state, if it exists."""
    value = reading.txn.get(key, db=reading.databases.state)
    return [] if value is None else [int(records.row_identity(value)[1])]


def _has(reading: ReadTransaction, key: bytes, offset: int) -> bool:
    """Whether there is, or retention may have removed, this event of an object."""
    value = reading.txn.get(keys.by_object(key, offset), db=reading.databases.by_object)
    return value is not None or offset <= reading.floor
