"""Periodic maintenance of the journal: snapshots for fast replay, the retention floor, the identity file.

One task; the committer performs all its writes in small steps, so that no commit waits for more than one step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rewound.actors.runtime.clock import Clock
from rewound.actors.store.committer import Commits
from rewound.journal import snapshots
from rewound.journal.errors import JournalError
from rewound.journal.log import Journal
from rewound.journal.retention import advance
from rewound.journal.snapshot_writer import prune, take

logger = logging.getLogger(__name__)

INTERVAL = 30.0
# A short retention needs a shorter interval: a tenth of it, but not less than the shortest.
SHARE, SHORTEST = 10, 0.1
# Events per transaction of compaction: a few milliseconds.
STEP = 500
# Rebuilding an old version replays at most half as many events, from the snapshot before or after it; with more than
# 100,000 objects, a quarter of their number.
SNAPSHOT_EVERY, SNAPSHOTS = 50_000, 16


class Housekeeping:
    def __init__(
        self,
        journal: Journal,
        committer: Commits,
        clock: Clock,
        keep: int | None,
        leader_floor: Callable[[], int] | None = None,
    ) -> None:
        """A standby takes its floor from its leader."""
        self._journal = journal
        self._committer = committer
        self._clock = clock
        self._keep = keep  # microseconds of history; None: forever
        self._leader_floor = leader_floor
        self._interval = _interval(keep)

    async def run(self) -> None:
        while True:
            await trio.sleep(self._interval)
            try:
                await self.run_once()
            except JournalError as error:
                logger.warning("housekeeping put off: %s", error)

    async def run_once(self) -> None:
        await self.recover()
        await self.take_snapshot_when_due()
        await self.advance_floor()
        if self._journal.unsynced:
            await trio.to_thread.run_sync(self._journal.sync)

    async def recover(self) -> None:
        """Test the disk after a failed write, so that the health check recovers without another write."""
        if self._committer.last_failure:
            await self._committer.perform(self._journal.probe)
            self._committer.last_failure = ""

    async def take_snapshot_when_due(self) -> None:
        with self._journal.read() as view:
            due = snapshots.due(view, SNAPSHOT_EVERY)
        if not due:
            return
        steps = take(self._journal)
        while await self._committer.perform(lambda: next(steps, None)) is not None:
            await trio.lowlevel.checkpoint()
        await self._committer.perform(lambda: prune(self._journal, SNAPSHOTS))

    async def advance_floor(self) -> None:
        floor = self._wanted_floor()
        done = not floor
        while not done:
            progress = await self._committer.perform(lambda: advance(self._journal, floor, max_events=STEP))
            done = progress.done
            await trio.lowlevel.checkpoint()

    def _wanted_floor(self) -> int:
        """The new floor; 0 leaves it unchanged."""
        if self._leader_floor is not None:
            return self._leader_floor()
        if self._keep is None:
            return 0
        with self._journal.read() as view:
            return view.offset_at(self._clock.now() - self._keep)


def _interval(keep: int | None) -> float:
    return INTERVAL if keep is None else min(INTERVAL, max(SHORTEST, keep / 1_000_000 / SHARE))
