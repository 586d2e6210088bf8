"""The journal by itself, in this process: appending, opening, snapshots, replay, old versions.

`Archive` is the ground: a large journal made once, or a fresh one where the work writes. No figure here is
CPU per request; they say what a start, a rebuild and a look into the past wait for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.archive import NAMESPACE, TYPE, Archive, Events
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.workload import Workload
from journal import history, replay, snapshot_writer

BATCH = 16  # what group commit gathers from 16 connections
PAGE = 100


@dataclass(slots=True)
class Spent:
    seconds: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        begin, used = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - begin
        self.cpu += time.process_time() - used

    def per(self, count: int) -> dict[str, float]:
        """Figures of so many operations."""
        return {"rate": round(count / self.seconds, 1), "cpu_us": round(self.cpu / count * 1e6, 2)}


def append(archive: Archive) -> Measurement:
    """Durable appends in batches of 16, the journal's share of a create."""
    spent, events = Spent(), 0
    with archive.open(archive.fresh()) as journal:
        writer = Events(journal.register_type(TYPE), archive.objects)
        while spent.seconds < archive.sizes.seconds:
            batch = list(writer.take(BATCH))
            with spent.timed():
                journal.append(batch)
            events += BATCH
    return Measurement("journal-append", spent.per(events), {"batch": BATCH, "events": events})


def opening(archive: Archive) -> Measurement:
    """What a start waits for. The first opening finds nothing cached, as after a reboot."""
    archive.path()
    archive.forget_cached()
    cold = _open(archive)
    warm = min(_open(archive) for _ in range(3))
    notes = {
        "warm_seconds": warm,
        "events": archive.sizes.events,
        "objects": archive.objects,
        "bytes": archive.bytes(),
        "build_seconds": round(archive.build_seconds, 1),
    }
    return Measurement("journal-open", {"seconds": cold}, notes)


def _open(archive: Archive) -> float:
    spent = Spent()
    archive.path()
    with spent.timed(), archive.open():
        pass
    return round(spent.seconds, 4)


def rebuild(archive: Archive) -> Measurement:
    """Every event from the first one on, folded into what state each object has."""
    spent = Spent()
    with archive.open() as journal, journal.read() as view:
        with spent.timed():
            state = replay.fold({}, history.links(view, journal.type_id(TYPE), 0, view.head))
        events = view.head
    return Measurement(
        "journal-replay",
        {**spent.per(events), "seconds": round(spent.seconds, 3)},
        {"events": events, "objects": len(state)},
    )


def past(archive: Archive) -> Measurement:
    """A page of the collection as it was half the log ago, of which nothing is remembered."""
    spent = Spent()
    with archive.open() as journal, journal.read() as view, spent.timed():
        found = view.at(view.head // 2).page(journal.type_id(TYPE), NAMESPACE, limit=PAGE)
    return Measurement("journal-past", {"seconds": round(spent.seconds, 4)}, {"items": len(found.bodies)})


def snapshot(archive: Archive) -> Measurement:
    spent, rows = Spent(), 0
    with archive.open() as journal, spent.timed():
        for written in snapshot_writer.take(journal):
            rows = written
    figures = {**spent.per(max(rows, 1)), "seconds": round(spent.seconds, 3)}
    return Measurement("journal-snapshot", figures, {"objects": rows})


JOURNAL: tuple[Workload[Archive], ...] = (
    Workload("journal-append", "append 1 kB events, batches of 16", append),
    Workload("journal-open", "open a journal of {events} events", opening),
    Workload("journal-replay", "replay {events} events", rebuild),
    Workload("journal-past", "a page, half of {events} events ago", past),
    Workload("journal-snapshot", "snapshot of all objects of that journal", snapshot),
)
