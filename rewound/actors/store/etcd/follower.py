"""Follows the log in etcd into this node's journal: one watch of the whole prefix, complete revisions, in order.

A revision that changed an object ends with the key `head` (`records`): the follower holds it until `head` arrives. etcd
before 3.5 may send events twice, and revisions in parts. The follower skips what this node has. If a revision is
followed by another one before it is complete, it watches again from the newest version that it has stored. The events
go to the committer of this node's journal, which stores and publishes them in batches.

A revision that changed an object or `head` and does not look as nodes write it was written by another program, if etcd
confirms that nothing of it is missing. It is no event: every node skips it, and one of them settles it with a change of
its own (`foreign`), so that all have the same events.

Times of events never decrease along the log, although the clocks of nodes differ: each event has at least the time of
the one before it. That is a function of the log, so every node has the same times.

A watch may be silent because nothing happens or because its member is partitioned. So the follower compares its newest
version with a linearizable read at intervals, and watches again if it has not received that version meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import trio

from rewound.actors.etcd.api import Compacted, Etcd, EtcdError, EtcdUnavailable, KeyValue, WatchResponse
from rewound.actors.etcd.api import Event as WatchEvent
from rewound.actors.store.committer import Committer
from rewound.actors.store.document import at_version
from rewound.actors.store.etcd.epoch import newest_version, version_of
from rewound.actors.store.etcd.records import Change, Head, Keys, UnknownLayout, Unreadable, decode_heads
from rewound.actors.store.feed import Feed
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

Applied = Callable[[bytes, Event], None]  # write id, event
Unstored = Callable[[bytes, Exception], None]  # write id, why this node could not store the event yet

CHECK_SECONDS: Final = 2.0  # between two comparisons with etcd
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # before watching again
# Events that may wait for the disk: a follower far behind must not hold them all in memory.
MOST_WAITING: Final = 2000


class ForeignChanges(Protocol):
    """Handles what other programs than the nodes have written to etcd (`foreign`)."""

    def see(self, event: WatchEvent) -> None:
        """Called with every event of the watch, in order."""

    def settle(self, objects: Mapping[bytes, KeyValue | None], head: WatchEvent | None) -> None:
        """Called with the changes of a revision that no node wrote."""


class CopyOutdated(Exception):
    """etcd has compacted changes that this node has not followed yet: its journal must be rebuilt (`copy`)."""

    def __init__(self) -> None:
        super().__init__("etcd no longer has the changes that this node has missed; its copy must be rebuilt")


class Incomplete(Exception):
    """A revision was followed by another one before it was complete."""


class ArrivedEvent(Proposal):
    """An event that already has its place in the log."""

    __slots__ = ("version", "write_id")

    def __init__(self, type_id: int, head: Head, change: Change, version: int) -> None:
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
        self.version = version
        self.write_id = change.write_id

    def order(self, offset: int, time: int) -> Event:
        """The event at its own offset; the committer has raised the time to that of the previous event."""
        event = self.event = Event(
            self.version,
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
            at_version(self.body, self.version),
            self.reason,
        )
        return event


class WholeRevision(NamedTuple):
    """The changes of one complete revision, in order. A journal stores all of them in one commit."""

    changes: tuple[tuple[Head, Change], ...]
    number: int
    is_adopted: bool = False  # with it a node settled what another program wrote


@dataclass(slots=True)
class Revision:
    """The part of one revision that has arrived, as far as it concerns objects."""

    number: int
    objects: dict[bytes, KeyValue | None] = field(default_factory=dict)  # None: deleted
    head: WatchEvent | None = None
    is_adopted: bool = False


class Revisions:
    """Assembles the events of a watch into revisions after `newest`."""

    def __init__(self, keys: Keys, newest: int) -> None:
        self._keys = keys
        self.newest = newest  # all object changes up to it are complete
        self._open: Revision | None = None  # its `head` has not arrived
        self._foreign = 0  # the newest that was not complete

    def take(self, event: WatchEvent) -> Sequence[WholeRevision | Revision]:
        """Revisions that this event completes: whole ones, and others that no node wrote or that lack a part."""
        now, keys = event.now, self._keys
        key, number = now.key, now.mod_revision
        is_object = key.startswith(keys.objects)
        if number <= self.newest:
            if number == self._foreign and is_object:  # etcd before 3.5 may send it in parts
                return (Revision(number, {key: None if event.is_delete else now}),)
            return ()  # etcd sent it again
        found = self._open
        ended = () if found is None or found.number == number else self.end()
        if not is_object and key != keys.head and key != keys.adopted:
            return ended
        if found is None or ended:
            found = self._open = Revision(number)
        if is_object:
            found.objects[key] = None if event.is_delete else now
            return ended
        if key == keys.adopted:
            found.is_adopted = True
        else:
            found.head = event
        if found.head is not None and (whole := self._whole(found)) is not None:
            self._open, self.newest = None, number
            return (*ended, whole) if ended else (whole,)
        return ended

    def end(self) -> tuple[Revision, ...]:
        """A revision of which nothing more will arrive, if there is one."""
        found, self._open = self._open, None
        if found is None:
            return ()
        self.newest = self._foreign = found.number
        return (found,)

    def _whole(self, found: Revision) -> WholeRevision | None:
        """The changes; None if no node writes it like this, or if a part is missing."""
        assert found.head is not None
        changes: list[tuple[Head, Change]] = []
        try:
            for place, head in enumerate(decode_heads(found.head.now.value)):
                change = self._change(found, head)
                if change is None or change.place != place:
                    return None
                changes.append((head, change))
        except Unreadable:
            return None
        except UnknownLayout as error:
            if found.objects:
                written = ", ".join(one.decode(errors="backslashreplace") for one in found.objects)
                raise UnknownLayout(written, error.layout) from None
            return None  # changes of later releases have an object, too
        return WholeRevision(tuple(changes), found.number, found.is_adopted) if changes else None

    def _change(self, found: Revision, head: Head) -> Change | None:
        """One of its changes; None if it is missing. Raises Unreadable or UnknownLayout."""
        key = self._keys.of_head(head)
        stored = found.objects.get(key)
        if head.removal:
            if not found.is_adopted and (stored is not None or key not in found.objects):
                return None
            return _change_in(head.removal, head, found.number, self._keys)
        return None if stored is None else _change_in(stored.value, head, found.number, self._keys)


def _change_in(value: bytes, head: Head, revision: int, keys: Keys) -> Change:
    """The change that a revision made. Raises Unreadable if it is of another revision or no journal can store it."""
    change = Change.decode(value)
    if change.write_id != head.write_id:
        raise Unreadable("another revision has written it")
    if not change.can_be_stored(revision, keys):
        raise Unreadable("no node has written it")
    return change


def _has(value: bytes, head: Head, revision: int, keys: Keys) -> bool:
    try:
        _change_in(value, head, revision, keys)
    except Unreadable:
        return False
    return True


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
        others: ForeignChanges,
        declared_by: str = "",
    ) -> None:
        """`start`: the revision after which an empty journal follows. `others` gets what no node has written.

        `declared_by`: the type whose objects declare types, which get their ids before these objects are stored.
        """
        self._etcd, self._keys = etcd, keys
        self._journal, self._feed, self._local = journal, feed, local
        self._start, self._declared_by = start, declared_by
        self._applied, self._unstored, self._others = applied, unstored, others
        self._waiting = 0  # events not yet stored
        self._progress = trio.lowlevel.ParkingLot()
        self._failed: Exception | None = None  # why the journal did not store events
        self._doubted = 0  # the newest revision that seems to be from a later release
        self._was_refused = False  # nothing has been stored since
        self._logged = ""
        self.restarts = 0  # of the watch
        self.problem = ""  # why this node may be behind; empty if it is not

    async def run(self) -> None:
        """Follow forever. Raises CopyOutdated if etcd no longer has the next changes."""
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
            logger.warning("watching etcd again after version %d: %s", self._feed.head, error)

    async def _watch(self) -> None:
        """Run one watch, from after the stored version until it ends or falls behind."""
        while self._waiting:
            await self._progress.park()
        self._failed = None
        stored = self._keys.revision(self._journal.head)
        revisions = Revisions(self._keys, max(stored, self._start))
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._check, nursery.cancel_scope)
            try:
                await self._take_all(revisions)
            except Exception as error:  # unwrapped from the group of a nursery
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        raise EtcdUnavailable(
            f"the watch did not deliver the newest changes within {CHECK_SECONDS:.0f} s"
            if self._failed is None
            else f"this node could not store what it received: {self._failed}"
        )

    async def _take_all(self, revisions: Revisions) -> None:
        watch = self._etcd.watch(self._keys.prefix, self._keys.end, revisions.newest + 1)
        async with watch as responses:
            async for response in responses:
                await self._take(revisions, response)

    async def _take(self, revisions: Revisions, response: WatchResponse) -> None:
        """Store the complete revisions of a response, and pass the others to `others`."""
        whole: list[WholeRevision] = []
        for event in response.events:
            self._others.see(event)
            for found in revisions.take(event):
                await self._sort(found, whole)
        if not response.partial:
            for ended in revisions.end():
                await self._sort(ended, whole)
        await self._store(whole)

    async def _sort(self, found: WholeRevision | Revision, whole: list[WholeRevision]) -> None:
        """Collect whole revisions, which are stored together; anything else is handled after them."""
        if isinstance(found, Revision):
            await self._store(whole)
            whole.clear()
            await self._pass(found)
        elif found.is_adopted or self._was_refused:
            await self._store(whole)
            whole.clear()
            await self._store_despite_version(found)
        else:
            whole.append(found)

    async def _pass(self, found: Revision) -> None:
        """Skip a revision that is no change. Raises Incomplete if it is one and a part of it has not arrived."""
        await self._require_foreign(found)
        self._others.settle(found.objects, found.head)
        self._complete(found.number)

    def _complete(self, revision: int) -> None:
        """Declare all up to a revision complete once it is stored. Raises EtcdUnavailable if that failed."""
        self._require_stored()
        version = self._keys.last_version(revision)
        self._local.submit([], lambda error: None if error is not None else self._feed.complete(version))

    async def _require_foreign(self, found: Revision) -> None:
        """Raise Incomplete unless etcd confirms that no node can have written this revision."""
        number, keys = found.number, self._keys
        if found.head is None:
            if version_of(await self._etcd.range(keys.head, revision=number, keys_only=True)) == number:
                raise Incomplete(f"revision {number} came without its end")
            return
        try:
            named = [(head, keys.of_head(head)) for head in decode_heads(found.head.now.value)]
        except Unreadable:
            return
        except UnknownLayout:
            if number <= self._doubted:
                return
            self._doubted = number  # the second time nothing is missing
            raise Incomplete(f"revision {number} came without its object") from None
        for head, key in named:
            await self._require_no_node(number, head, key)

    async def _require_no_node(self, number: int, head: Head, key: bytes) -> None:
        """Raise Incomplete if a node can have made this change of a revision."""
        now = (await self._etcd.range(key, revision=number)).kvs
        if head.removal:
            before = (await self._etcd.range(key, revision=number - 1, keys_only=True)).kvs
            if before and not now and _has(head.removal, head, number, self._keys):
                raise Incomplete(f"revision {number} came without its object")
        elif now and now[0].mod_revision == number and _has(now[0].value, head, number, self._keys):
            raise Incomplete(f"revision {number} came without its object")

    async def _store_despite_version(self, found: WholeRevision) -> None:
        """Store changes although their previous versions may differ here.

        If a node made its copy while another program's change was there and not settled, its state before this revision
        differs from the other nodes', and the state after it is the same.
        """
        while self._waiting:
            await self._progress.park()
        self._require_stored()
        changes: list[tuple[Head, Change]] = []
        with self._journal.read() as view:
            for head, change in found.changes:
                row = view.get(self._journal.type_id(head.type_name), head.namespace, head.name)
                if row is not None or not head.removal:
                    changes.append((head, change._replace(previous=0 if row is None else row.offset)))
        if changes:
            await self._store([found._replace(changes=tuple(changes))])
        else:
            self._complete(found.number)

    async def _store(self, whole: list[WholeRevision]) -> None:
        if not whole:
            return
        types: dict[str, None] = {}
        for one in whole:
            for head, _ in one.changes:
                types[head.type_name] = None
                if head.type_name == self._declared_by and not head.removal:
                    types[head.name] = None
        await self._local.register_types(list(types))
        version, type_id = self._keys.version, self._journal.type_id
        arrived = [
            ArrivedEvent(type_id(head.type_name), head, change, version(one.number, change.place))
            for one in whole
            for head, change in one.changes
        ]
        self._waiting += len(arrived)
        self._local.submit(arrived, lambda error: self._stored(arrived, error))
        while self._waiting > MOST_WAITING:
            await self._progress.park()
        self._require_stored()

    def _require_stored(self) -> None:
        """Raise EtcdUnavailable if the journal did not store this watch's events: the next watch starts with them."""
        if self._failed is not None:
            raise EtcdUnavailable(f"this node could not store what it received: {self._failed}")

    def _stored(self, arrived: list[ArrivedEvent], error: Exception | None) -> None:
        self._waiting -= len(arrived)
        self._progress.unpark_all()
        self._was_refused = error is not None
        if error is not None:
            self._failed = error
            for one in arrived:
                self._unstored(one.write_id, error)
            return
        for one in arrived:
            assert one.event is not None
            self._applied(one.write_id, one.event)

    async def _check(self, scope: trio.CancelScope) -> None:
        """End the watch if it does not deliver what a linearizable read finds, or if the journal does not store it."""
        while True:
            await trio.sleep(CHECK_SECONDS)
            if self._failed is not None:
                scope.cancel()
                return
            before = self._feed.head
            try:
                newest = await newest_version(self._etcd, self._keys)
            except EtcdError as error:
                self.problem = str(error)
                continue  # then there is nothing newer, or the watch ends by itself
            if self._feed.is_complete(newest):
                self.problem = ""
                continue
            await trio.sleep(CHECK_SECONDS)
            if self._feed.head == before and not self._feed.is_complete(newest) and not self._waiting:
                scope.cancel()
                return
