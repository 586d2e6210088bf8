"""Consistent reads of a node: a read sees everything that any node acknowledged before the read began.

A read waits for one linearizable read of the key `head`, and then until this node has followed the log up to there.
Only one such read runs at a time; all requests that arrive meanwhile share the next, so their number costs etcd
nothing.

A write waits for the same before it is decided. While transactions of this node are under way, a write needs no read of
its own: the next transaction is one, because its revision comes after everything that was acknowledged before it was
sent. When none follows, a read serves all writes that wait, and their transactions are one. That read waits a moment
for the clients of the last transaction, which have just got their replies; no reader waits for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import trio

from rewound.actors.errors import Unreachable
from rewound.actors.etcd.api import Etcd, EtcdError, EtcdUnavailable
from rewound.actors.store.committer import Committer, passes_in_real_time
from rewound.actors.store.etcd.epoch import newest_version
from rewound.actors.store.etcd.records import Keys
from rewound.actors.store.feed import Feed

# The fraction of a transaction's time that a read for writes waits, until as many wait as the transaction had.
GATHERING: Final = 0.25
# Seconds that a write waits for transactions before it reads: most take milliseconds, one whose reply is lost eight.
DEFERRED: Final = 0.1
WITHIN: Final = 5.0  # seconds that this node may take to receive the version that a round found


class Sent(NamedTuple):
    """A transaction that has ended."""

    writes: int
    seconds: float  # until its reply
    version: int  # 0 if etcd did not apply it


class Sending(Protocol):
    @property
    def is_sending(self) -> bool:
        """Whether a transaction is under way, after which `Freshness.end_transactions` or another one follows."""


class Round:
    """What several requests wait for."""

    __slots__ = ("done", "failure", "requests", "version")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.requests = 0
        self.version = 0
        self.failure: EtcdError | None = EtcdUnavailable("this node stops")  # until there is a reply


class Freshness:
    def __init__(self, etcd: Etcd, keys: Keys, feed: Feed, local: Committer, writes: Sending) -> None:
        """`local` stores the changes that this node follows; `writes` sends transactions."""
        self._etcd = etcd
        self._local = local
        self._keys = keys
        self._feed = feed
        self._writes = writes
        self._waiting: list[Round] = []  # for the next read; at most one can still be joined
        self._joined: Round | None = None
        self._deferred: Round | None = None  # of writes, for the next transaction
        self._wanted = trio.Event()
        self._sent: Sent | None = None  # whose clients get their replies now, and may write again
        self._ended = 0.0  # when its reply came
        self._arrived = trio.lowlevel.ParkingLot()

    async def wait(self, *, to_write: bool = False) -> None:
        """Wait until this node has all changes acknowledged before this call. Raises Unreachable if it cannot."""
        if not to_write:
            self._sent = None
        asked = await self._defer() if to_write and self._writes.is_sending else None
        if asked is None:
            asked = self._joined = self._joined or self._want(Round())
            asked.requests += 1
            self._arrived.unpark_all()
            await asked.done.wait()  # at most two reads, and a call of etcd has its own deadline
        if asked.failure is not None:
            raise Unreachable(f"the newest version is not known: {asked.failure}")
        if not self._feed.is_complete(asked.version):
            await self._reach(asked.version)

    async def _defer(self) -> Round | None:
        """Wait for a transaction, or the read after it; None if that takes too long."""
        asked = self._deferred = self._deferred or Round()
        asked.requests += 1
        with trio.move_on_after(DEFERRED):
            await asked.done.wait()
        return asked if asked.done.is_set() else None

    def take_deferred(self) -> Round | None:
        """The writes that wait when a transaction is sent, which `settle` ends."""
        asked, self._deferred = self._deferred, None
        return asked

    def settle(self, asked: Round | None, version: int) -> None:
        """A transaction was applied at this version; 0 if it was not, or nobody knows."""
        if asked is None:
            return
        if version:
            asked.version, asked.failure = version, None
            asked.done.set()
        else:
            self._want(asked)

    def end_transactions(self, last: Sent) -> None:
        """No transaction is under way any more."""
        if last.writes > 1 and passes_in_real_time(last.seconds):
            self._sent, self._ended = last, trio.current_time()
        if self._deferred is not None:
            self._want(self._deferred)
            self._deferred = None

    async def _gather(self) -> None:
        """Wait for the clients of the last transaction; they get their replies when this node has it."""
        sent = self._sent
        if sent is None or trio.current_time() > self._ended + 2 * sent.seconds:
            return
        with trio.move_on_after(sent.seconds):
            await self._feed.completed(sent.version)
        with trio.move_on_after(sent.seconds * GATHERING):
            while self._sent is sent and sum(one.requests for one in self._waiting) < sent.writes:
                await self._arrived.park()
        self._sent = None

    def _want(self, asked: Round) -> Round:
        self._waiting.append(asked)
        self._wanted.set()
        return asked

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
            await self._gather()
            self._wanted = trio.Event()
            asked, self._waiting = self._waiting, []
            self._joined = None
            if (deferred := self.take_deferred()) is not None:
                asked.append(deferred)
            try:
                version = await newest_version(self._etcd, self._keys)
                for one in asked:
                    one.version, one.failure = version, None
            except EtcdError as error:
                for one in asked:
                    one.failure = error
            finally:
                for one in asked:
                    one.done.set()
