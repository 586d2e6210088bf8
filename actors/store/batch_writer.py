"""Writes batches of events to the journal, in the thread of the event loop or in a worker thread.

The committer decides which (`slow_disk`); one batch is written at a time. Errors for clients name no path. The
log does, once for errors of the same text in a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

import trio

from actors.errors import StorageRefused
from actors.store.slow_disk import run_beside
from journal.batch import Batch
from journal.errors import JournalError
from journal.log import Journal
from journal.records import Event

logger = logging.getLogger(__name__)

# The event loop stands still while a worker thread puts up to this many bytes of bodies: some milliseconds.
PUT_TOGETHER = 1 << 20


class BatchWriter:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._logged = ""
        self.disk_seconds = 0.0  # that the newest commit took after its last put

    def append(self, events: list[Event]) -> StorageRefused | None:
        if not events:
            return None
        try:
            self._write(self._journal.encode(events))
        except Exception as error:
            return self._refusal(error)
        return None

    async def append_in_thread(self, events: list[Event]) -> StorageRefused | None:
        if sum(len(event.body) for event in events) > PUT_TOGETHER:
            return await trio.to_thread.run_sync(self.append, events)
        try:
            # Encoded here, where the events are in the processor's caches.
            batch = self._journal.encode(events)
            await run_beside(partial(self._write, batch))
        except Exception as error:
            return self._refusal(error)
        return None

    def _write(self, batch: Batch, on_put: Callable[[], None] | None = None) -> None:
        """Write a batch, and measure the disk. Calls `on_put` when only the durable commit is left to do."""
        began = time.perf_counter()

        def put() -> None:
            nonlocal began
            began = time.perf_counter()
            if on_put is not None:
                on_put()

        self._journal.write(batch, put)
        self.disk_seconds = time.perf_counter() - began
        self._logged = ""

    def _refusal(self, error: Exception) -> StorageRefused:
        if not isinstance(error, JournalError):
            logger.error("the journal failed to append", exc_info=error)
            return StorageRefused(f"{type(error).__name__}: {error}")
        if str(error) != self._logged:
            self._logged = str(error)
            logger.error("%s", error)
        return StorageRefused(error.public)
