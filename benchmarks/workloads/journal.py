"""The journal alone, in this process: append, open, snapshot, replay, old versions.

The workloads run on a `LargeJournal`, built once, or on a new journal where they write. No figure here is CPU per
request; they show how long a start, a rebuild and a read of an old version wait for the journal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.large_journal import NAMESPACE, TYPE, Events, LargeJournal
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.workload import Workload
from rewound.journal import history, snapshot_writer
from rewound.journal.replay import fold

BATCH = 16  # what group commit gathers from 16 connections
PAGE = 100


@dataclass(slots=True)
class Stopwatch:
    seconds: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        begin, used = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - begin
        self.cpu += time.process_time() - used

    def per(self, count: int) -> dict[str, float]:
        """Rate and CPU of this many operations."""
        return {"rate": round(count / self.seconds, 1), "cpu_us": round(self.cpu / count * 1e6, 2)}


def append(large_journal: LargeJournal) -> Measurement:
    """Append durable batches of 16: the journal's share of a create."""
    stopwatch, events = Stopwatch(), 0
    with large_journal.open(large_journal.new_folder()) as journal:
        writer = Events(journal.register_type(TYPE), large_journal.objects)
        while stopwatch.seconds < large_journal.sizes.seconds:
            batch = list(writer.take(BATCH))
            with stopwatch.timed():
                journal.append(batch)
            events += BATCH
    return Measurement("journal-append", stopwatch.per(events), {"batch": BATCH, "events": events})


def opening(large_journal: LargeJournal) -> Measurement:
    """Open the journal, as a start does. At the first time nothing is in the page cache, as after a reboot."""
    large_journal.path()
    large_journal.drop_page_cache()
    cold = _open(large_journal)
    warm = min(_open(large_journal) for _ in range(3))
    notes = {
        "warm_seconds": warm,
        "events": large_journal.sizes.events,
        "objects": large_journal.objects,
        "bytes": large_journal.bytes(),
        "build_seconds": round(large_journal.build_seconds, 1),
    }
    return Measurement("journal-open", {"seconds": cold}, notes)


def _open(large_journal: LargeJournal) -> float:
    stopwatch = Stopwatch()
    large_journal.path()
    with stopwatch.timed(), large_journal.open():
        pass
    return round(stopwatch.seconds, 4)


def rebuild(large_journal: LargeJournal) -> Measurement:
    """Fold all events into the current state of each object."""
    stopwatch = Stopwatch()
    with large_journal.open() as journal, journal.read() as view:
        with stopwatch.timed():
            state = fold({}, history.links(view, journal.type_id(TYPE), 0, view.head))
        events = view.head
    return Measurement(
        "journal-replay",
        {**stopwatch.per(events), "seconds": round(stopwatch.seconds, 3)},
        {"events": events, "objects": len(state)},
    )


def past(large_journal: LargeJournal) -> Measurement:
    """Read a page of the collection at half of the log, with nothing cached and no snapshot."""
    stopwatch = Stopwatch()
    with large_journal.open() as journal, journal.read() as view, stopwatch.timed():
        found = view.at(view.head // 2).page(journal.type_id(TYPE), NAMESPACE, limit=PAGE)
    return Measurement("journal-past", {"seconds": round(stopwatch.seconds, 4)}, {"items": len(found.bodies)})


def snapshot(large_journal: LargeJournal) -> Measurement:
    stopwatch, rows = Stopwatch(), 0
    with large_journal.open() as journal, stopwatch.timed():
        for written in snapshot_writer.take(journal):
            rows = written
    figures = {**stopwatch.per(max(rows, 1)), "seconds": round(stopwatch.seconds, 3)}
    return Measurement("journal-snapshot", figures, {"objects": rows})


JOURNAL: tuple[Workload[LargeJournal], ...] = (
    Workload("journal-append", "append 1 kB events, batches of 16", append),
    Workload("journal-open", "open a journal of {events} events", opening),
    Workload("journal-replay", "replay {events} events", rebuild),
    Workload("journal-past", "a page, half of {events} events ago", past),
    Workload("journal-snapshot", "snapshot of all objects of that journal", snapshot),
)
