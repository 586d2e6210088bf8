"""Reads the journal from another process while the server writes it.

A server with a short retention removes events that watchers have received. So the tests read the journal from its
first event, and assert that retention removed no event before it was read.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_right
from pathlib import Path

from rewound.journal import Journal, View
from rewound.journal.records import Event
from tests.robustness.expected_events import Entry, ExpectedEvents
from tests.robustness.interest import Interest
from tests.robustness.objects import TYPES, Key

_POLL_SECONDS = 0.02


class JournalFollower:
    def __init__(self) -> None:
        self.entries: list[Entry] = []  # of the watched kinds
        self._times: list[int] = []  # of all events, microseconds since 1970
        self._offsets: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._expected: dict[Interest, ExpectedEvents] = {}

    @property
    def head(self) -> int:
        return self._offsets[-1] if self._offsets else 0

    # Reading.

    def follow(self, path: Path) -> None:
        """Read in a thread until `read_to_the_end`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()

    def read_to_the_end(self) -> None:
        self.stop()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join(60)
            self._thread = None

    def _run(self, path: Path) -> None:
        try:
            journal = Journal.open(path, readonly=True)
            try:
                while not self._stop.is_set():
                    self._poll(journal)
                    time.sleep(_POLL_SECONDS)
                self._poll(journal)
            finally:
                journal.close()
        except BaseException as error:  # raised by the thread that joins this one
            self._failure = error

    def _poll(self, journal: Journal) -> None:
        with journal.read() as view:
            self._read(
                view, {number: TYPES[name] for name, number in journal.types().items() if name in TYPES}
            )

    def _read(self, view: View, plurals: dict[int, str]) -> None:
        assert view.floor <= self.head, (
            f"retention reached {view.floor} before the events after {self.head} were read"
        )
        for event in view.all_events(self.head):
            self.add(event.time, event.offset, _entry(event, plurals))

    def add(self, when: int, offset: int, entry: Entry | None) -> None:
        if entry is not None:
            self.entries.append(entry)
        self._times.append(when)
        self._offsets.append(offset)

    # Queries of validators.

    def offset_at(self, when: float) -> int:
        """The newest offset whose event is not later than a time; 0 without one."""
        at = bisect_right(self._times, int(when * 1_000_000))
        return self._offsets[at - 1] if at else 0

    def expected(self, interest: Interest) -> ExpectedEvents:
        """The events of a perfect watch; computed once, when everything was read."""
        if interest not in self._expected:
            self._expected[interest] = ExpectedEvents(self.entries, interest)
        return self._expected[interest]


def _entry(event: Event, plurals: dict[int, str]) -> Entry | None:
    if event.type_id not in plurals:
        return None
    key = Key(plurals[event.type_id], event.namespace, event.name)
    return Entry(event.offset, key, event.removed, json.loads(event.body))
