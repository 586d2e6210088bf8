"""The journal of a server that is not running: what its events say, and whether it verifies.

Read with the journal's own readers but folded here, by a few lines of its own: a fold that agreed with the
server's because it was the server's would prove nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from journal import Journal, verify
from journal.records import Event
from tests.robustness.objects import OURS, TYPES, Document, Key


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of an object that is ours."""

    offset: int
    key: Key
    removed: bool
    body: Document


@dataclass(frozen=True, slots=True)
class Ledger:
    head: int = 0
    floor: int = 0  # older versions cannot be told any more
    entries: tuple[Entry, ...] = ()  # ascending
    rows: dict[Key, Document] = field(default_factory=dict)  # the state as it is stored
    events: int = 0
    differences: tuple[str, ...] = ()

    def at(self, version: int) -> dict[Key, Document]:
        """The state that the events up to a version lead to."""
        assert version >= self.floor, "compacted"
        state: dict[Key, Document] = {}
        for entry in self.entries:
            if entry.offset > version:
                break
            if entry.removed:
                state.pop(entry.key, None)
            else:
                state[entry.key] = entry.body
        return state


def read_ledger(path: Path) -> Ledger:
    journal = Journal.open(path, readonly=True)
    try:
        with journal.read() as view:
            plurals = {number: TYPES[name] for name, number in journal.types().items() if name in TYPES}
            report = verify.verify(view)
            found = (_entry(event, plurals) for event in view.all_events(0) if event.type_id in plurals)
            rows = {
                key: json.loads(row.body)
                for number, plural in plurals.items()
                for namespace, name, row in view.rows(number)
                if (key := Key(plural, namespace, name)) in OURS
            }
            return Ledger(
                view.head,
                view.floor,
                tuple(entry for entry in found if entry.key in OURS),
                rows,
                report.events,
                tuple(report.differences),
            )
    finally:
        journal.close()


def _entry(event: Event, plurals: dict[int, str]) -> Entry:
    key = Key(plurals[event.type_id], event.namespace, event.name)
    return Entry(event.offset, key, event.removed, json.loads(event.body))
