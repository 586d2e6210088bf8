"""Consistent reads of a node: what every node has acknowledged before a read began is in the state that it reads.

A read waits for one linearizable read of the key `head`, and then until this node has followed the log up to there.
One such read is under way at a time; all that come meanwhile wait for the next, so that their number costs etcd
nothing.
"""

from __future__ import annotations

from typing import Final

import trio

from rewound.actors.errors import Unreachable
from rewound.actors.etcd.api import Etcd, EtcdError, EtcdUnavailable
from rewound.actors.store.committer import Committer
from rewound.actors.store.etcd.epoch import newest_version
from rewound.actors.store.etcd.records import Keys
from rewound.actors.store.feed import Feed

WITHIN: Final = 5.0  # seconds that this node may need to get the version that a round found


class _Round:
    __slots__ = ("done", "failure", "version")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.version = 0
        self.failure: EtcdError | None = EtcdUnavailable("this node stops")  # until there is a reply


class Freshness:
    def __init__(self, etcd: Etcd, keys: Keys, feed: Feed, local: Committer) -> None:
        """`local` stores what this node follows."""
        self._etcd = etcd
        self._local = local
        self._keys = keys
        self._feed = feed
        self._waiting: _Round | None = None
        self._wanted = trio.Event()

    async def wait(self) -> None:
        """Until this node has all changes that were acknowledged before this call. Unreachable."""
        asked = self._waiting
        if asked is None:
            asked = self._waiting = _Round()
            self._wanted.set()
        await asked.done.wait()  # two rounds at most, and a call of etcd has its own deadline
        if asked.failure is not None:
            raise Unreachable(f"the newest version is not known: {asked.failure}")
        if not self._feed.is_complete(asked.version):
            await self._reach(asked.version)

    async def _reach(self, version: int) -> None:
        if self._local.last_failure:
            raise Unreachable(self._local.last_failure, "this node cannot store the newest changes")
        with trio.move_on_after(WITHIN):
            await self._feed.completed(version)
            return
        raise Unreachable(f"this node has not received version {version} within {WITHIN:.0f} s")

    async def run(self) -> None:
        """Read the newest version for those that wait, for ever."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            asked, self._waiting = self._waiting, None
            if asked is None:
                continue
            try:
                asked.version = await newest_version(self._etcd, self._keys)
                asked.failure = None
            except EtcdError as error:
                asked.failure = error
            finally:
                asked.done.set()
