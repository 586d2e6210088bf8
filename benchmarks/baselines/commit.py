"""The baseline of every write: bare LMDB commits, with fsync, of the bytes that one create stores.

Two puts per event (log and latest state), nothing else: no checksums, no indexes, no types. A batch of 16 corresponds
to what group commit gathers from 16 connections.
"""

from __future__ import annotations

import shutil
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from benchmarks.loads.plans import config_map
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.server_process import fresh_folder

BATCHES = (1, 16, 64)
_MAP = 64 << 30  # address space, not disk: more than all rounds write on a fast disk
# What the server stores besides the request body: uid, times, facts, and in the event the user who wrote it.
_EVENT_EXTRA = b"e" * 300
_STATE_EXTRA = b"s" * 260


def measure_commit(options: Options, batch: int) -> Measurement:
    folder = fresh_folder(options.scratch, "commit")
    try:
        with _environment(folder) as environment:
            writer = Writer(environment, batch)
            writer.run(options.sizes.warmup)
            rounds = [writer.run(options.sizes.seconds) for _ in range(options.sizes.rounds)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rate = statistics.median(events / seconds for events, seconds, _ in rounds)
    cpu = statistics.median(cpu / events for events, _, cpu in rounds) * 1e6
    return Measurement(f"commit-{batch}", {"rate": round(rate, 1), "cpu_us": round(cpu, 2)}, {"batch": batch})


@contextmanager
def _environment(folder: Path) -> Iterator[lmdb.Environment]:
    environment = lmdb.open(str(folder), map_size=_MAP, max_dbs=2)
    try:
        yield environment
    finally:
        environment.close()


class Writer:
    def __init__(self, environment: lmdb.Environment, batch: int) -> None:
        self._environment, self._batch = environment, batch
        self._events = environment.open_db(b"events")
        self._state = environment.open_db(b"state")
        sent = config_map("c-000000", 0)
        self._event, self._row = sent + _EVENT_EXTRA, sent + _STATE_EXTRA
        self._offset = 0

    def run(self, seconds: float) -> tuple[int, float, float]:
        """Commits for this long; returns events, elapsed seconds and CPU seconds."""
        first, begin, cpu = self._offset, time.perf_counter(), time.process_time()
        while True:
            self._commit()
            now = time.perf_counter()
            if now >= begin + seconds:
                return self._offset - first, now - begin, time.process_time() - cpu

    def _commit(self) -> None:
        with self._environment.begin(write=True) as transaction:
            for _ in range(self._batch):
                self._offset += 1
                key = struct.pack(">Q", self._offset)
                transaction.put(key, self._event, append=True, db=self._events)
                transaction.put(b"bench\0c-%08d" % self._offset, self._row, db=self._state)
