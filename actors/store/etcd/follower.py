"""Follows the log in etcd into the journal of this node: one watch of the whole prefix, whole revisions, in order.

A revision that changed an object ends with the key `head` (`records`): it is held until that has arrived. etcd
before 3.5 may send events twice, and parts of a revision: what this node has is left out, and a revision that goes
on with another one before it is whole makes the follower watch again from the newest version that it has stored.
The events go to the committer of this node's journal, which stores and publishes them in batches.

Times of events never decrease along the log, although the clocks of nodes differ: each event has at least the time
of the one before it. That is a function of the log, so every node has the same times.

A watch may be silent because nothing happens or because its member is cut off. So the follower compares what it has
with a linearizable read at intervals, and watches again if it has not got the newest version meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from rewound.actors.etcd.api import Compacted, Etcd, EtcdError, EtcdUnavailable, KeyValue, WatchResponse
from rewound.actors.etcd.api import Event as WatchEvent
from rewound.actors.store.committer import Committer
from rewound.actors.store.document import at_version
from rewound.actors.store.etcd.epoch import version_of
from rewound.actors.store.etcd.records import Change, Head, Keys
from rewound.actors.store.feed import Feed
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

Applied = Callable[[bytes, Event], None]  # write id, event
Unstored = Callable[[bytes, Exception], None]  # write id, why this node could not store the event yet

CHECK_SECONDS: Final = 2.0  # between two comparisons with etcd
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # before watching again
# Events that may wait for the disk: a follower far behind must not need them all in memory.
MOST_WAITING: Final = 2000


class CopyOutdated(Exception):
    """etcd has compacted what this node has not followed yet: its journal must be made anew (`copy`)."""

    def __init__(self) -> None:
        super().__init__(
            "etcd no longer has the changes that this node has missed; its copy must be made anew"
        )


class Incomplete(Exception):
    """A revision went on with another one before it was whole."""


class Arrived(Proposal):
    """An event that has its place in the log already."""

    __slots__ = ("revision", "write_id")

    def __init__(self, type_id: int, head: Head, change: Change, revision: int) -> None:
        super().__init__(
            type_id=type_id,
            verb=change.verb,
            namespace=head.namespace,
            name=head.name,
            previous=change.previous,
            removed=bool(head.removal),
            time=change.time,
            user=change.user,
            manager=change.manager,
            facts=change.facts,
            body=change.body,
            reason=change.reason,
        )
        self.revision = revision
        self.write_id = change.write_id

    def order(self, offset: int, time: int) -> Event:
        """At its own offset; the committer has raised the time to that of the event before."""
        event = self.event = Event(
            self.revision,
            self.type_id,
            self.verb,
            self.namespace,
            self.name,
            self.previous if isinstance(self.previous, int) else 0,
            self.removed,
            time,
            self.user,
            self.manager,
            self.facts,
            at_version(self.body, self.revision),
            self.reason,
        )
        return event


class Revisions:
    """Puts the events of a watch together to whole revisions that this node does not have."""

    def __init__(self, keys: Keys, newest: int) -> None:
        self._keys = keys
        self.newest = newest  # all that changed objects up to it are complete
        self._held: KeyValue | None = None  # the object of a revision whose `head` has not arrived

    def take(self, event: WatchEvent) -> tuple[Head, Change, int] | None:
        """The change that this event completes. Incomplete."""
        now = event.now
        revision = now.mod_revision
        if revision <= self.newest:
            return None  # etcd has sent it again
        if self._held is not None and revision != self._held.mod_revision:
            raise Incomplete(f"revision {self._held.mod_revision} did not end before {revision}")
        if now.key.startswith(self._keys.objects):
            self._held = now
        elif now.key == self._keys.head:
            head = Head.decode(now.value)
            held, self._held = self._held, None
            self.newest = revision
            return head, self._change(head, held, revision), revision
        return None

    def _change(self, head: Head, held: KeyValue | None, revision: int) -> Change:
        if head.removal:
            return Change.decode(head.removal)
        if held is None or held.key != self._keys.of_object(head.type_name, head.namespace, head.name):
            raise Incomplete(f"revision {revision} came without its object")
        change = Change.decode(held.value)
        if change.write_id != head.write_id:
            raise Incomplete(f"revision {revision} came with another object")
        return change


class Follower:
    def __init__(
        self,
        etcd: Etcd,
        keys: Keys,
        journal: Journal,
        feed: Feed,
        local: Committer,
        start: int,
        applied: Applied,
        unstored: Unstored,
        declared_by: str = "",
    ) -> None:
        """`start`: the version after which an empty journal follows.

        `declared_by`: the type whose objects declare types, which get their ids before these objects are stored.
        """
        self._etcd, self._keys = etcd, keys
        self._journal, self._feed, self._local = journal, feed, local
        self._start, self._declared_by = start, declared_by
        self._applied, self._unstored = applied, unstored
        self._waiting = 0  # events that are not stored yet
        self._progress = trio.lowlevel.ParkingLot()
        self._failed: Exception | None = None  # why the journal did not store events
        self._logged = ""
        self.restarts = 0  # of the watch
        self.problem = ""  # why this node may be behind; empty if it is not

    async def run(self) -> None:
        """Follow for ever. CopyOutdated."""
        pause = FIRST_PAUSE
        while True:
            before = self._feed.head
            try:
                await self._watch()
            except Compacted as error:
                raise CopyOutdated from error
            except (EtcdError, Incomplete) as error:
                self.problem = str(error)
                self._log(error)
            self.restarts += 1
            if self._feed.head > before:
                pause, self._logged = FIRST_PAUSE, ""
            else:
                pause = min(pause * 2, LONGEST_PAUSE)
            await trio.sleep(pause)

    def _log(self, error: Exception) -> None:
        if str(error) != self._logged:
            self._logged = str(error)
            logger.warning("the watch of etcd begins again after version %d: %s", self._feed.head, error)

    async def _watch(self) -> None:
        """One watch, from after what is stored until it ends or is behind."""
        while self._waiting:
            await self._progress.park()
        self._failed = None
        revisions = Revisions(self._keys, max(self._journal.head, self._start))
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._check, nursery.cancel_scope)
            try:
                await self._take_all(revisions)
            except Exception as error:  # without the group of a nursery
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        raise EtcdUnavailable(
            f"it did not deliver what etcd has, after {CHECK_SECONDS:.0f} s"
            if self._failed is None
            else f"this node could not store what it got: {self._failed}"
        )

    async def _take_all(self, revisions: Revisions) -> None:
        watch = self._etcd.watch(self._keys.prefix, self._keys.end, revisions.newest + 1)
        async with watch as responses:
            async for response in responses:
                await self._take(revisions, response)

    async def _take(self, revisions: Revisions, response: WatchResponse) -> None:
        """Pass the whole revisions of a response on to be stored."""
        whole = [found for event in response.events if (found := revisions.take(event)) is not None]
        if not whole:
            return
        types = {head.type_name: None for head, _, _ in whole}
        for head, _, _ in whole:
            if head.type_name == self._declared_by and not head.removal:
                types[head.name] = None
        await self._local.register_types(list(types))
        arrived = [
            Arrived(self._journal.type_id(head.type_name), head, change, revision)
            for head, change, revision in whole
        ]
        self._waiting += len(arrived)
        self._local.submit(arrived, lambda error: self._stored(arrived, error))
        while self._waiting > MOST_WAITING:
            await self._progress.park()
        if self._failed is not None:
            raise EtcdUnavailable(f"this node could not store what it got: {self._failed}")

    def _stored(self, arrived: list[Arrived], error: Exception | None) -> None:
        self._waiting -= len(arrived)
        self._progress.unpark_all()
        if error is not None:
            self._failed = error
            for one in arrived:
                self._unstored(one.write_id, error)
            return
        for one in arrived:
            assert one.event is not None
            self._applied(one.write_id, one.event)

    async def _check(self, scope: trio.CancelScope) -> None:
        """End the watch if it does not deliver what a linearizable read finds, or the journal does not store it."""
        while True:
            await trio.sleep(CHECK_SECONDS)
            if self._failed is not None:
                scope.cancel()
                return
            before = self._feed.head
            try:
                newest = version_of(await self._etcd.range(self._keys.head, keys_only=True))
            except EtcdError as error:
                self.problem = str(error)
                continue  # then there is nothing newer to be had, or the watch ends by itself
            if newest <= self._feed.head:
                self.problem = ""
                continue
            await trio.sleep(CHECK_SECONDS)
            if self._feed.head == before and not self._waiting:
                scope.cancel()
                return
