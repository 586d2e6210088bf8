"""Checks the newest events at every opening, in a few milliseconds, whatever the size of the journal.

`Journal.open` calls `check_tail`. `rewound journal verify` (`journal.repair.verify`) checks every event of a journal
in the same way.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from rewound.journal import keys, records, state
from rewound.journal.environment import PageError
from rewound.journal.errors import Damaged, DamagedTail, Unreadable
from rewound.journal.records import Event, Link, checked_event, printable
from rewound.journal.transaction import ReadTransaction

TAIL = 512  # events


def check_tail(reading: ReadTransaction, path: Path, depth: int = TAIL) -> list[tuple[int, str]]:
    """Check the newest events and their rows. Raises DamagedTail with the newest event that fails.

    Returns the offsets of events whose contents cannot be read, but which are otherwise sound, and what is wrong: the
    state of their objects has rows of its own, so everything else is served.
    """
    unreadable: list[tuple[int, str]] = []
    newer: set[bytes] = set()
    counted: set[bytes] = set()
    offset = 0
    try:
        cursor = reading.txn.cursor(reading.databases.events)
        for key, value in islice(cursor.iterprev(), depth):
            offset = keys.offset_of(key)
            readable = True
            try:
                event = checked_event(offset, value)
            except Unreadable as error:
                event = records.decode_event(offset, value, contents=False)
                if records.field_problem(event):
                    raise
                unreadable.append((offset, reading.named(link_of(event).key, error)))
                readable = False
            link = link_of(event)
            check_indexed(reading, link)
            if link.key not in newer:
                newer.add(link.key)
                _check_counts(reading, link.key, counted)
                _check_newest(reading, link.key, event, readable=readable)
    except Damaged as damage:
        raise DamagedTail(path, offset, damage.what) from damage
    except PageError as damage:
        raise DamagedTail(path, offset, str(damage)) from damage
    return unreadable


def _check_counts(reading: ReadTransaction, key: bytes, counted: set[bytes]) -> None:
    """Check that the counts of an object's scopes are readable. `counted` has the scopes checked before."""
    for scope in keys.scopes_of(key):
        if scope not in counted:
            counted.add(scope)
            state.count(reading.txn, reading.databases.counts, scope)


def _check_newest(reading: ReadTransaction, key: bytes, event: Event, *, readable: bool) -> None:
    """Check that the newest event of an object is its state."""
    row = state.get(reading.txn, reading.databases.state, key)
    if event.removed:
        if row is not None:
            raise Damaged(f"{printable(key)} was removed and is still there")
    elif row is None:
        raise Damaged(f"the state of {printable(key)} is missing")
    elif not readable and row.offset == event.offset:
        return
    elif (row.offset, row.facts, row.body) != (event.offset, event.facts, event.body):
        raise Damaged(f"the state of {printable(key)} is not what its event says")


def check_indexed(reading: ReadTransaction, link: Link) -> None:
    """Check that both indexes have the event."""
    type_key = link.key[:2] + keys.pack_offset(link.offset)
    value = reading.txn.get(type_key, db=reading.databases.by_type)
    if value is None or records.decode_link(type_key, value) != link:
        raise Damaged(f"the index by type does not have event {link.offset}")
    object_key = keys.by_object(link.key, link.offset)
    if reading.txn.get(object_key, db=reading.databases.by_object) is None:
        raise Damaged(f"the index by object does not have event {link.offset}")


def link_of(event: Event) -> Link:
    key = keys.of_object(event.type_id, event.namespace, event.name)
    return Link(event.offset, key, event.previous, event.removed)
