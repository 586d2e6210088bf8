"""Keeps the folder of a flight recorder bounded: by age, by kind, and by bytes.

Age and kinds are the server's own housekeeping (`actors.store.housekeeping`). For `--max-disk` the oldest events go
first, as retention removes them (`journal.retention`): the state and all later versions stay exact. What counts are
the pages of the file that are in use. LMDB never makes its file smaller, and uses freed pages again; so the limit is
applied to the used pages, a part below what was asked for, and the file stays below that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import trio

from rewound.actors.runtime.clock import Clock
from rewound.actors.store.committer import Commits
from rewound.actors.store.housekeeping import Housekeeping
from rewound.journal.errors import JournalError
from rewound.journal.log import Journal
from rewound.journal.retention import advance
from rewound.journal.snapshot_writer import prune
from rewound.recording.flight.status import used_bytes

logger = logging.getLogger(__name__)

INTERVAL: Final = 5.0  # seconds between two looks at the file
STEP: Final = 500  # events in one transaction
SHARE: Final = 0.8  # of --max-disk that pages in use may have; the rest is for pages that were just freed
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

    async def run(self) -> None:
        """Keep the used pages below the limit, until cancelled."""
        while self._bounds.max_disk:
            await trio.sleep(INTERVAL)
            try:
                await self.shrink()
            except JournalError as error:
                logger.warning("--max-disk: nothing is removed: %s", error)

    async def shrink(self) -> None:
        """Remove the oldest events until the used pages are below the limit, or nothing is left to remove."""
        most = int(self._bounds.max_disk * SHARE)
        done = used_bytes(self._journal) <= most
        if not done:
            await self._committer.perform(lambda: prune(self._journal, SNAPSHOTS))
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
