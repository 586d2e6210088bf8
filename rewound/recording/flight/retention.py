"""Keeps the folder of a flight recorder bounded: by age, by kind, and by bytes.

Age and kinds are the server's own housekeeping (`actors.store.housekeeping`). For `--max-disk` namespaces and objects
that took more than their share give up their oldest events (`shares`, `journal.cuts`), and if that is not enough, the
oldest events of all go, as retention removes them (`journal.retention`): the state and all later versions stay exact.
What counts are the pages of the file that are in use. LMDB never makes its file smaller, and uses freed pages again; so
the limit is applied to the used pages, a part below what was asked for, and the file stays below that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

import trio

from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.turns import processor_now
from rewound.actors.store.committer import Commits
from rewound.actors.store.housekeeping import Housekeeping
from rewound.journal.cuts import cut
from rewound.journal.errors import JournalError
from rewound.journal.log import Journal
from rewound.journal.retention import advance
from rewound.journal.snapshot_writer import prune
from rewound.recording.flight.shares import Share, Shares, end_of, measure, plan, too_large
from rewound.recording.flight.status import used_bytes

logger = logging.getLogger(__name__)

INTERVAL: Final = 5.0  # seconds between two looks at the file
STEP: Final = 500  # events in one transaction
SHARE: Final = 0.8  # of --max-disk that pages in use may have; the rest is for pages that were just freed
LOW: Final = 0.97  # of that share to which the largest are cut, so that not every look finds something to cut
WARN: Final = 0.9  # of that share: from here on it is said who will pay
ROUNDS: Final = 4  # of measuring and cutting, because sizes are those of events and not of pages
SCAN_EVERY: Final = 300.0  # seconds between two scans of who took the room, while there is enough
SCAN_SHARE: Final = 100  # a scan may take this part of one processor
SNAPSHOTS: Final = 2  # that stay when space is short; more of them make old versions faster only


@dataclass(frozen=True, slots=True)
class Bounds:
    age: float | None = None  # seconds; None: forever
    by_kind: Mapping[str, float] = field(
        default_factory=dict
    )  # seconds, of events that change nothing but times
    max_disk: int = 0  # bytes; 0: no limit
    forget: Mapping[str, float] = field(default_factory=dict)  # seconds, of all events that no object needs


class Retention:
    def __init__(self, journal: Journal, committer: Commits, clock: Clock, bounds: Bounds) -> None:
        self._journal = journal
        self._committer = committer
        self._bounds = bounds
        keep = None if bounds.age is None else round(bounds.age * 1_000_000)
        self.housekeeping = Housekeeping(
            journal, committer, clock, keep, thinning=bounds.by_kind, forgetting=bounds.forget
        )
        self.problem = ""  # why the limit cannot be kept; empty while it can
        self.warning = ""  # who takes too much, when there is not much room left
        self.shares: Shares | None = None  # from the last scan
        self._warned: list[str] = []
        self._scanned = -inf  # when it ended
        self._scanned_head = self._scan_cost = 0.0

    async def run(self) -> None:
        """Keep the used pages below the limit, and know who uses them, until cancelled."""
        while True:
            await trio.sleep(INTERVAL)
            try:
                if self._bounds.max_disk:
                    await self.shrink()
                if self._is_scan_due():
                    await self.scan()
            except JournalError as error:
                logger.warning("--max-disk: nothing is removed: %s", error)

    @property
    def _most(self) -> int:
        return int(self._bounds.max_disk * SHARE)

    def _is_scan_due(self) -> bool:
        since = trio.current_time() - self._scanned
        if since < SCAN_SHARE * self._scan_cost or self._journal.head == self._scanned_head:
            return False
        short = self._bounds.max_disk and used_bytes(self._journal) >= WARN * self._most
        return bool(short) or since >= SCAN_EVERY

    async def scan(self) -> Shares:
        """Find out who takes the room, in turns with other tasks; warn if that will soon be removed."""
        head, cost, found = self._journal.head, 0.0, None
        steps = measure(self._journal)
        while True:
            began = processor_now()
            step = next(steps, None)
            cost += processor_now() - began
            if step is None:
                break
            found = step
            await trio.lowlevel.checkpoint()
        assert found is not None, "there is a first step"
        self.shares, self._scanned = found, trio.current_time()
        self._scanned_head, self._scan_cost = head, cost
        self._warn(found)
        return found

    def _warn(self, found: Shares) -> None:
        used = used_bytes(self._journal)
        payers = too_large(found) if self._bounds.max_disk and used >= WARN * self._most else []
        names = [_name(one, self._journal) for one in payers]
        warning = (
            f"{', '.join(names[:3])} of {len(found.by_owner)} namespaces and kinds without one take most of the room "
            f"that --max-disk leaves for events ({100 * sum(one.size for one in payers) / found.size:.0f}%): their "
            "oldest events are removed first"
            if names
            else ""
        )
        if warning and sorted(names) != self._warned:
            logger.warning("--max-disk: %s", warning)
        self._warned, self.warning = sorted(names), warning

    async def shrink(self) -> None:
        """Remove events until the used pages are below the limit, or nothing is left to remove: first those of whoever
        took too much, then the oldest ones of all.
        """
        most = self._most
        done = used_bytes(self._journal) <= most
        if not done:
            await self._committer.perform(lambda: prune(self._journal, SNAPSHOTS))
            await self._cut_largest(int(most * LOW))
        while not done and used_bytes(self._journal) > most:
            progress = await self._committer.perform(
                lambda: advance(self._journal, self._journal.head, max_events=STEP)
            )
            done = progress.done
            await trio.lowlevel.checkpoint()
        used = used_bytes(self._journal)
        problem = "" if used <= most else f"the present objects alone need {used:,} bytes"
        if problem and not self.problem:
            logger.warning("--max-disk cannot be kept: %s; give more, or record fewer kinds", problem)
        self.problem = problem

    async def _cut_largest(self, most: int) -> None:
        """Cut who took too much until the used pages are below `most`, or nobody has too much."""
        for _ in range(ROUNDS):
            excess = used_bytes(self._journal) - most
            cuttings = plan(await self.scan(), excess) if excess > 0 else []
            dropped = 0
            for cutting in cuttings:
                if used_bytes(self._journal) <= most:
                    return
                with self._journal.read() as view:
                    upto = end_of(view, cutting)
                steps = cut(self._journal, cutting.scope, upto)
                while (step := await self._committer.perform(partial(next, steps, None))) is not None:
                    dropped += step
                    await trio.lowlevel.checkpoint()
            if not dropped:
                break


def _name(share: Share, journal: Journal) -> str:
    if share.owner.namespace:
        return f"namespace {share.owner.namespace}"
    return next((name for name, number in journal.types().items() if number == share.owner.type_id), "")
