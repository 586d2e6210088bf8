"""Consistent reads of a node: a read sees everything that any node acknowledged before the read began.

A read waits for one linearizable read of the key `head`, and then until this node has followed the log up to there.
Only one such read runs at a time; all requests that arrive meanwhile share the next, so their number costs etcd
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

WITHIN: Final = 5.0  # seconds that this node may take to receive the version that a round found


class _Round:
    __slots__ = ("done", "failure", "version")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.version = 0
        self.failure: EtcdError | None = EtcdUnavailable("this node stops")  # until there is a reply


class Freshness:
    def __init__(self, etcd: Etcd, keys: Keys, feed: Feed, local: Committer) -> None:
        """`local` stores the changes that this node follows."""
        self._etcd = etcd
        self._local = local
        self._keys = keys
        self._feed = feed
        self._waiting: _Round | None = None
        self._wanted = trio.Event()

    async def wait(self) -> None:
        """Wait until this node has all changes acknowledged before this call. Raises Unreachable if it cannot."""
        asked = self._waiting
        if asked is None:
            asked = self._waiting = _Round()
            self._wanted.set()
        await asked.done.wait()  # at most two rounds, and a call of etcd has its own deadline
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
        """Read the newest version for the waiting reads, forever."""
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
