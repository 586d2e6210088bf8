"""Whether etcd accepts writes, or refuses them because its database has reached its quota (alarm NOSPACE).

Until an operator has freed space and disarmed the alarm, etcd refuses every transaction that may put a key, and new
leases. Reads, watches and renewals of leases work, so the node serves reads and says why it is not ready.

A node learns of it from a write that etcd refuses, or from the alarms of the members, which it reads at intervals: an
idle node would not notice otherwise. Writes are accepted again when no member reports the alarm and a write succeeds.
That write begins an epoch (`epoch`), which a node that started meanwhile lacks anyway.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from rewound.actors.etcd.api import Etcd, EtcdError, EtcdFull
from rewound.actors.store.etcd.epoch import Epoch

logger = logging.getLogger(__name__)

INTERVAL: Final = 5.0  # seconds between two looks at the alarms
REMINDER: Final = 300.0  # seconds between two log lines while etcd is full
ALARM: Final = "NOSPACE"  # in the text of an alarm, whose form differs between versions of etcd


class Space:
    def __init__(self, etcd: Etcd, epoch: Epoch) -> None:
        self._etcd, self._epoch = etcd, epoch
        self._accepted = trio.Event()
        self._accepted.set()
        self._remind_at = 0.0
        self.problem = ""  # a sentence while etcd refuses writes for lack of space

    def note(self, full: EtcdFull) -> None:
        """etcd has refused a write for lack of space, or reports the alarm."""
        now = trio.current_time()
        if not self.problem:
            self._accepted = trio.Event()
            self._remind_at = now
        self.problem = str(full)
        if now >= self._remind_at:
            self._remind_at = now + REMINDER
            logger.error("this node serves reads, but no writes: %s", full)

    async def accepted(self) -> None:
        """Wait until etcd accepts writes."""
        await self._accepted.wait()

    async def run(self) -> None:
        """Look at the alarms at intervals, forever."""
        while True:
            await self._look()
            await trio.sleep(INTERVAL)

    async def _look(self) -> None:
        members = await self._etcd.status()
        if any(ALARM in alarm for member in members for alarm in member.alarms):
            self.note(EtcdFull())
        elif self.problem:
            await self._try_to_write()

    async def _try_to_write(self) -> None:
        try:
            await self._epoch.begin_after(self._epoch.revision)
        except EtcdFull as full:
            self.note(full)
        except EtcdError as error:
            logger.debug("whether etcd accepts writes is not known yet: %s", error)
        else:
            logger.info("etcd accepts writes again")
            self.problem = ""
            self._accepted.set()
