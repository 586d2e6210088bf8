"""A large journal to measure: a million events of 1 kB on a hundred thousand objects, built once per run.

The journal's own append writes it in large batches, so that the workloads open and replay exactly what a server
writes.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.loads.plans import PAYLOAD, SHARDS
from benchmarks.options import Options
from benchmarks.servers.server_process import fresh_folder
from rewound.actors.selectors.facts import pack_facts
from rewound.journal.log import Journal
from rewound.journal.records import Event

BATCH = 1000  # events per commit while building
OBJECTS = 100_000  # a million events give each of them ten versions
NAMESPACE = "bench"
TYPE = "configmaps"
_FACTS = [
    pack_facts({"app": "bench", "shard": str(shard)}, {}, f"00000000-0000-4000-8000-{shard:012}", ())
    for shard in range(SHARDS)
]


class LargeJournal:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.sizes = options.sizes
        self.objects = min(OBJECTS, max(1, options.sizes.events // 10))
        self._folder = fresh_folder(options.scratch, "journals")
        self._built: Path | None = None
        self.build_seconds = 0.0

    def path(self) -> Path:
        """Folder of the large journal; builds it on the first call."""
        if self._built is None:
            self._built = self.new_folder()
            begin = time.perf_counter()
            self._build(self._built)
            self.build_seconds = time.perf_counter() - begin
        return self._built

    def new_folder(self) -> Path:
        """An empty folder for another journal."""
        return fresh_folder(self._folder, "journal")

    @contextmanager
    def open(self, path: Path | None = None) -> Iterator[Journal]:
        """Opens the large journal, or the one in this folder."""
        journal = Journal.open(path or self.path())
        try:
            yield journal
        finally:
            journal.close()

    def _build(self, path: Path) -> None:
        with self.open(path) as journal:
            writer = Events(journal.register_type(TYPE), self.objects)
            for first in range(0, self.sizes.events, BATCH):
                journal.append(list(writer.take(min(BATCH, self.sizes.events - first))))

    def bytes(self) -> int:
        return sum(file.stat().st_blocks * 512 for file in self.path().rglob("*") if file.is_file())

    def drop_page_cache(self) -> None:
        """Ask the kernel to drop the journal's cached pages, so that the next open reads from disk."""
        for file in self.path().rglob("*"):
            if file.is_file():
                descriptor = os.open(file, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Events:
    """Events that create every object, then update each of them in turn."""

    def __init__(self, type_id: int, objects: int) -> None:
        self._type_id, self._objects = type_id, objects
        self._offset = 0
        self._latest: dict[int, int] = {}

    def take(self, count: int) -> Iterator[Event]:
        for _ in range(count):
            number = self._offset % self._objects
            self._offset += 1
            previous = self._latest.get(number, 0)
            self._latest[number] = self._offset
            yield self._event(number, previous)

    def _event(self, number: int, previous: int) -> Event:
        name = f"o-{number:06}"
        return Event(
            offset=self._offset,
            type_id=self._type_id,
            verb="update" if previous else "create",
            namespace=NAMESPACE,
            name=name,
            previous=previous,
            removed=False,
            time=1_600_000_000_000_000 + self._offset,
            user="bench",
            manager="bench",
            facts=_FACTS[number % SHARDS],
            body=_body(name, number, self._offset),
        )


def _body(name: str, number: int, offset: int) -> bytes:
    metadata = (
        f'{{"name":"{name}","namespace":"{NAMESPACE}","uid":"00000000-0000-4000-8000-{number:012}",'
        f'"resourceVersion":"{offset}","creationTimestamp":"2020-09-13T12:26:40Z",'
        f'"labels":{{"app":"bench","shard":"{number % SHARDS}"}}}}'
    )
    return f'{{"metadata":{metadata},"data":{{"payload":"{PAYLOAD}"}}}}'.encode()
