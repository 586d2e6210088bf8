"""Compacts etcd to the versions that clients may still request: the leader raises the cluster's `floor`, then compacts.

The floor is the version of an event that wrote an object, and the last of its revision, so that a node that starts
there has that event, with its time. The floor moves before etcd is compacted: a node that starts meanwhile finds a
state that it can read, or retries.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from rewound.actors.etcd.api import Compacted, Compare, Etcd, EtcdError, Put
from rewound.actors.runtime.clock import Clock
from rewound.actors.store.etcd.election import Election
from rewound.actors.store.etcd.records import Floor, Keys
from rewound.journal.log import Journal

logger = logging.getLogger(__name__)

INTERVAL: Final = 30.0
# How many revisions before the end of the window are searched for one whose last event wrote an object.
LOOKED_AT: Final = 1000


class Compaction:
    def __init__(
        self, etcd: Etcd, keys: Keys, journal: Journal, clock: Clock, election: Election, window: int
    ) -> None:
        """`window`: how much history to keep, in microseconds."""
        self._etcd, self._keys, self._journal = etcd, keys, journal
        self._clock, self._election, self._window = clock, election, window
        self._newest: Floor | None = None

    async def run(self) -> None:
        """Compact at intervals, forever, while this node leads."""
        while True:
            await trio.sleep(INTERVAL)
            try:
                await self.run_once()
            except EtcdError as error:
                logger.warning("etcd is not compacted: %s", error)

    async def run_once(self) -> int:
        """Returns the new floor; 0 if it was not raised."""
        floor = self._find_floor()
        if floor is None or floor == self._newest:
            return 0
        leads = Compare(self._keys.leader, "create_revision", self._election.term())
        result = await self._etcd.txn([leads], [Put(self._keys.floor, floor.encode())])
        if not result.succeeded:
            return 0
        self._newest = floor
        try:
            await self._etcd.compact(self._keys.revision(floor.version))
        except Compacted:
            logger.debug("another program has compacted etcd beyond version %d", floor.version)
        return floor.version

    def _find_floor(self) -> Floor | None:
        """The newest event at the start of the window that wrote an object, and is the last one of its revision."""
        revision = self._keys.revision
        with self._journal.read() as view:
            newest = view.offset_at(self._clock.now() - self._window)
            found = last = None
            after = max(view.floor, newest - self._keys.version(LOOKED_AT))
            for event in view.events(after, contents=False):
                if last is not None and not last.removed and revision(last.offset) < revision(event.offset):
                    found = Floor(last.offset, last.time)
                if event.offset > newest:
                    break
                last = event
            else:
                if last is not None and not last.removed:
                    found = Floor(last.offset, last.time)
        return found
