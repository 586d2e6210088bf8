"""The journal as it is written: read again and again by another process while the server runs.

A server with a short retention forgets events that watchers have seen. So whoever judges them follows the
journal from the first event on, and asserts that nothing was forgotten before it was read here.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_right
from pathlib import Path

from journal import Journal, View
from journal.records import Event
from tests.robustness.expected import Entry, Expected
from tests.robustness.interest import Interest
from tests.robustness.objects import TYPES, Key

_LOOK_EVERY = 0.02


class Chronicle:
    def __init__(self) -> None:
        self.entries: list[Entry] = []  # of the kinds that are watched
        self._times: list[int] = []  # of all events, microseconds since 1970
        self._offsets: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._expected: dict[Interest, Expected] = {}

    @property
    def head(self) -> int:
        return self._offsets[-1] if self._offsets else 0

    # Following.

    def follow(self, path: Path) -> None:
        """Read on in a thread, until `read_to_the_end`."""
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
            self._thread.join()
            self._thread = None

    def _run(self, path: Path) -> None:
        try:
            journal = Journal.open(path, readonly=True)
            try:
                while not self._stop.is_set():
                    self._look(journal)
                    time.sleep(_LOOK_EVERY)
                self._look(journal)
            finally:
                journal.close()
        except BaseException as error:  # told by whoever joins this thread
            self._failure = error

    def _look(self, journal: Journal) -> None:
        with journal.read() as view:
            self._take(
                view, {number: TYPES[name] for name, number in journal.types().items() if name in TYPES}
            )

    def _take(self, view: View, plurals: dict[int, str]) -> None:
        assert view.floor <= self.head, f"retention reached {view.floor} before {self.head} was read on"
        for event in view.all_events(self.head):
            self.add(event.time, event.offset, _entry(event, plurals))

    def add(self, moment: int, offset: int, entry: Entry | None) -> None:
        if entry is not None:
            self.entries.append(entry)
        self._times.append(moment)
        self._offsets.append(offset)

    # Judging.

    def offset_at(self, moment: float) -> int:
        """The newest event that is not later than a moment; 0 without one."""
        at = bisect_right(self._times, int(moment * 1_000_000))
        return self._offsets[at - 1] if at else 0

    def expected(self, interest: Interest) -> Expected:
        """Worked out once, when all has been read."""
        if interest not in self._expected:
            self._expected[interest] = Expected(self.entries, interest)
        return self._expected[interest]


def _entry(event: Event, plurals: dict[int, str]) -> Entry | None:
    if event.type_id not in plurals:
        return None
    key = Key(plurals[event.type_id], event.namespace, event.name)
    return Entry(event.offset, key, event.removed, json.loads(event.body))
