"""Proof that the journal is what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal import keys, records
from journal.errors import Damaged, DamagedTail

if TYPE_CHECKING:
    from journal.records import Event
    from journal.view import View

TAIL = 512  # newest events proved at every opening: some milliseconds, whatever the journal's size


def prove_tail(view: View, depth: int = TAIL) -> None:
    """Check the newest events and the rows they led to; DamagedTail names the newest that does not hold."""
    environment = view.journal.environment
    cursor = view.txn.cursor(environment.events)
    newer: set[bytes] = set()
    for position, (key, value) in enumerate(cursor.iterprev()):
        if position == depth:
            return
        offset = keys.offset_of(key)
        try:
            _prove_event(view, records.decode_event(offset, value), newer)
        except Damaged as damage:
            raise DamagedTail(view.journal.path, offset, damage.what) from damage


def _prove_event(view: View, event: Event, newer: set[bytes]) -> None:
    """The newest event of an object must be its state."""
    key = keys.of_object(event.type_id, event.namespace, event.name)
    if key in newer:
        return
    newer.add(key)
    row = view.get(event.type_id, event.namespace, event.name)
    if event.removed:
        if row is not None:
            raise Damaged(f"{records.printable(key)} was removed and is still there")
    elif row is None:
        raise Damaged(f"the state of {records.printable(key)} is missing")
    elif (row.offset, row.facts, row.body) != (event.offset, event.facts, event.body):
        raise Damaged(f"the state of {records.printable(key)} is not what the event says")
