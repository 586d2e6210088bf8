"""Reads the journal of a server that is not running: its events, its state, and the result of `verify`.

`at` computes the state from the events without the server's replay, which is under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from rewound.journal import Journal
from rewound.journal.records import Event
from rewound.journal.repair import verify
from tests.robustness.objects import TEST_KEYS, TYPES, Document, Key


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of an object that the tests write."""

    offset: int
    key: Key
    removed: bool
    body: Document


@dataclass(frozen=True, slots=True)
class JournalContents:
    head: int = 0
    floor: int = 0  # older versions are compacted
    entries: tuple[Entry, ...] = ()  # ascending
    rows: dict[Key, Document] = field(default_factory=dict)  # the stored state
    events: int = 0
    differences: tuple[str, ...] = ()

    def at(self, version: int) -> dict[Key, Document]:
        """The state after the events up to a version."""
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


def read_journal(path: Path) -> JournalContents:
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
                if (key := Key(plural, namespace, name)) in TEST_KEYS
            }
            return JournalContents(
                view.head,
                view.floor,
                tuple(entry for entry in found if entry.key in TEST_KEYS),
                rows,
                report.events,
                tuple(report.differences),
            )
    finally:
        journal.close()


def _entry(event: Event, plurals: dict[int, str]) -> Entry:
    key = Key(plurals[event.type_id], event.namespace, event.name)
    return Entry(event.offset, key, event.removed, json.loads(event.body))
