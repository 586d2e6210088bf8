"""The journal by itself, in this process: appending, opening, snapshots, replay, old versions.

`Archive` is the ground: a large journal made once, or a fresh one where the work writes.
"""

from __future__ import annotations

import time

from benchmarks.archive import Archive, Events
from benchmarks.measurement import Measurement
from benchmarks.workloads.workload import Workload
from journal.log import Journal

BATCH = 16  # what group commit gathers from 16 connections


def append(archive: Archive) -> Measurement:
    """Durable appends in batches of 16, the journal's share of a create."""
    journal = Journal.open(archive.fresh())
    try:
        writer = Events(journal.type_id("configmaps"), archive.objects)
        elapsed = cpu = 0.0
        events = 0
        while elapsed < archive.sizes.seconds:
            batch = list(writer.take(BATCH))
            begin, used = time.perf_counter(), time.process_time()
            journal.append(batch)
            elapsed += time.perf_counter() - begin
            cpu += time.process_time() - used
            events += BATCH
    finally:
        journal.close()
    figures = {"rate": round(events / elapsed, 1), "cpu_us": round(cpu / events * 1e6, 2)}
    return Measurement("journal-append", figures, {"batch": BATCH, "events": events})


def opening(archive: Archive) -> Measurement:
    """What a start waits for. The first opening finds nothing cached, as after a reboot."""
    archive.path()
    archive.forget_cached()
    cold = _open(archive)
    warm = min(_open(archive) for _ in range(3))
    notes = {"warm_seconds": warm, "events": archive.sizes.events, "bytes": archive.bytes()}
    return Measurement("journal-open", {"seconds": cold}, notes)


def _open(archive: Archive) -> float:
    begin = time.perf_counter()
    journal = Journal.open(archive.path())
    elapsed = time.perf_counter() - begin
    journal.close()
    return round(elapsed, 4)


JOURNAL: tuple[Workload[Archive], ...] = (
    Workload("journal-append", "append 1 kB events, batches of 16", append),
    Workload("journal-open", "open a journal of {events} events", opening),
)
