"""Periodic maintenance of the journal: snapshots for fast replay, the retention floor, events that only renew, the
identity file.

One task; the committer performs all its writes in small steps, so that no commit waits for more than one step.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import trio

from rewound.actors.runtime.clock import Clock
from rewound.actors.store.committer import Commits
from rewound.journal import snapshots
from rewound.journal.errors import JournalError
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.retention import advance
from rewound.journal.snapshot_writer import prune, take
from rewound.journal.thinning import forget, thin

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
        thinning: Mapping[str, float] | None = None,
        forgetting: Mapping[str, float] | None = None,
    ) -> None:
        """A standby takes its floor from its leader.

        `thinning`: the seconds after which events of a kind may go that change nothing but times. A kind is the name of
        a type, or what is before its first dot. `forgetting`: those after which all events of a kind may go that no
        present object needs.
        """
        self._journal = journal
        self._committer = committer
        self._clock = clock
        self._keep = keep  # microseconds of history; None: forever
        self._leader_floor = leader_floor
        self._thinning = _in_micros(thinning)
        self._forgetting = _in_micros(forgetting)
        self._thinned: dict[int, int] = {}  # up to which offset, by type
        self._dropped_at: dict[tuple[str, bool], int] = {}  # when, by kind and whether all may go
        periods = (*self._thinning.values(), *self._forgetting.values())
        self._interval = min(map(_interval, (keep, *periods)))

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
        await self.thin()
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

    async def thin(self) -> None:
        """Drop old events by kind, of each kind a tenth of its time after the last run."""
        for kind, keep in self._thinning.items():
            upto = self._due(kind, keep, whole=False)
            for type_id in self._types_of(kind) if upto else ():
                after = self._thinned.get(type_id, 0)
                await self._perform(thin(self._journal, type_id, upto, only_renews, after=after))
                self._thinned[type_id] = upto
        for kind, keep in self._forgetting.items():
            upto = self._due(kind, keep, whole=True)
            for type_id in self._types_of(kind) if upto else ():
                await self._perform(forget(self._journal, type_id, upto))

    def _due(self, kind: str, keep: int, *, whole: bool) -> int:
        """Up to which offset events of a kind are dropped now; 0 if it is not time for that."""
        now, before = self._clock.now(), self._dropped_at.get((kind, whole))
        if before is not None and now - before < keep // SHARE:
            return 0
        if before is None and not any(self._types_of(kind)):
            logger.warning("retention: there is no kind %s yet: nothing of it is dropped", kind)
        self._dropped_at[kind, whole] = now
        with self._journal.read() as view:
            return view.offset_at(now - keep)

    async def _perform(self, steps: Iterator[int]) -> None:
        while await self._committer.perform(partial(next, steps, None)) is not None:
            await trio.lowlevel.checkpoint()

    def _types_of(self, kind: str) -> Iterator[int]:
        types = self._journal.types().items()
        return (number for name, number in types if kind in (name, name.partition(".")[0]))

    def _wanted_floor(self) -> int:
        """The new floor; 0 leaves it unchanged."""
        if self._leader_floor is not None:
            return self._leader_floor()
        if self._keep is None:
            return 0
        with self._journal.read() as view:
            return view.offset_at(self._clock.now() - self._keep)


def _in_micros(periods: Mapping[str, float] | None) -> dict[str, int]:
    return {kind: round(seconds * 1_000_000) for kind, seconds in (periods or {}).items()}


def _interval(keep: int | None) -> float:
    return INTERVAL if keep is None else min(INTERVAL, max(SHORTEST, keep / 1_000_000 / SHARE))


_TIME = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"')


def only_renews(before: Event, event: Event) -> bool:
    """Whether an event changes nothing but times since an earlier one, and is of the same author.

    Such are renewals of a Lease and heartbeats in the status of a node. A time is any string in the form of RFC 3339.
    """
    return (
        (before.user, before.manager, before.facts) == (event.user, event.manager, event.facts)
        and not event.reason
        and _without_times(before) == _without_times(event)
    )


def _without_times(event: Event) -> bytes:
    version = b'"resourceVersion":"%d"' % event.offset
    return _TIME.sub(b"", event.body.replace(version, b"", 1))
