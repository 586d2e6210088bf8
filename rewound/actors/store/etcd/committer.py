"""Writes of a node whose journal is ordered by etcd: proposed events become transactions.

A transaction compares the version of each object with the one that its write was decided on, and the epoch of the node
(`epoch`). Its revision and the place in it give the offset of an event. Writes that arrive while a transaction is under
way share the next one; if a comparison of a shared one fails, or etcd refuses it, each of its writes gets its own. A
write alone waits for no other. A write that was decided on another one still in flight waits for its version. The
client gets its reply when the node's own follower has stored and published the event, so that it reads its own writes
here.

If a comparison fails, another node was first: the write ends with `Overtaken` once this node has that change, and the
actor decides it again. If a reply is lost, a new epoch resolves it: afterwards the follower has seen the write, or it
was never applied and is sent again. So an acknowledged or rejected write is definite; one that cannot be resolved in
time is `OutcomeUnclear`.

Two things that a single process keeps in memory are keys in etcd here, and such writes share no transaction. That of a
Service claims its addresses and ports. A change that quotas count puts a key of its namespace, and compares that no
other node has put it since the state on which the quota was checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from os import urandom
from time import perf_counter
from typing import Final, Protocol, TypeVar

import trio

from rewound.actors.errors import OutcomeUnclear, RequestError, ShuttingDown, StorageRefused, Unreachable
from rewound.actors.etcd.api import (
    Compare,
    DeleteRange,
    Etcd,
    EtcdFull,
    EtcdRefused,
    EtcdUnavailable,
    Get,
    KeyValue,
    LeaseGone,
    Operation,
    OutcomeUnknown,
    Put,
    RangeResult,
    TxnResult,
)
from rewound.actors.store.committer import (
    UNCONDITIONAL,
    Committer,
    CommitterStatistics,
    Condition,
    OnCommitted,
    Overtaken,
    WriteDurations,
)
from rewound.actors.store.etcd.epoch import Epoch, newest_version, version_of
from rewound.actors.store.etcd.freshness import Round, Sent
from rewound.actors.store.etcd.records import Change, Head, Keys, encode_heads
from rewound.actors.store.feed import Feed
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

T = TypeVar("T")
Claims = Callable[
    [bytes], frozenset[str]
]  # the items that an object with this body owns exclusively in the cluster

# How long a write may take from its submission to its event in this node's journal. Failovers of etcd take less.
WITHIN: Final = 25.0
# More revisions than the cluster writes while one write is in flight.
IN_FLIGHT: Final = 1 << 16
# Transactions for waiting writes at once. The second begins when so many wait that they fill it.
SHARED_AT_ONCE: Final = 4
# Bytes of objects in a shared transaction: etcd accepts requests of 1.5 MiB, and one large object fills one.
SHARED_BYTES: Final = 256 << 10
# Passes of the event loop in which clients that have just got their replies send their next writes.
PASSES: Final = 4
# Bytes of a write id: as unlikely to collide as uids.
ID_BYTES: Final = 16


class NotLeading(RequestError):
    """A controller of this node wrote, but another node runs the controllers now."""

    message = "another node runs the controllers"


class SharedReads(Protocol):
    """Requests that wait for a linearizable read (`freshness`): a transaction is one."""

    def take_deferred(self) -> Round | None:
        """Called before a transaction is sent; `settle` is called after it."""

    def settle(self, asked: Round | None, version: int) -> None: ...

    def end_transactions(self, last: Sent) -> None: ...


class _Flight:
    """One proposed event on its way to etcd and back."""

    __slots__ = (
        "applied",
        "counted_since",
        "event",
        "failed",
        "last_counted",
        "proposal",
        "replied",
        "unstored",
        "version",
        "write_id",
    )

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.write_id = urandom(ID_BYTES)
        self.version = 0  # set when etcd has applied it
        self.failed = False
        self.replied = trio.Event()  # set when it has a version or has failed
        self.event: Event | None = None  # set when the follower has stored it
        self.applied = trio.Event()
        self.unstored = ""  # why the follower could not store it
        # The newest change by this node that the namespace's quotas count, and since when no other node has made one.
        self.last_counted = self.counted_since = 0


class _Waiting:
    """A write that may share its transaction with others."""

    __slots__ = ("done", "failure", "flight", "key", "leading", "lost", "previous", "size")

    def __init__(self, flight: _Flight, key: bytes, previous: int, *, leading: bool) -> None:
        self.flight, self.key, self.previous, self.leading = flight, key, previous, leading
        self.size = len(flight.proposal.body) + len(flight.proposal.facts)
        self.done = (
            trio.Event()
        )  # set when the flight has a version, or needs a transaction of its own, or failed
        self.failure: Exception | None = None
        self.lost: tuple[int, OutcomeUnknown] | None = (
            None  # the epoch, and why nobody knows whether it is applied
        )


class _Submission:
    """The events of one write, or a write without events that waits for those before it."""

    __slots__ = ("condition", "done", "flights", "predecessor_failed", "unfinished", "waiting")

    def __init__(self, flights: list[_Flight], done: OnCommitted, condition: Condition) -> None:
        self.flights = flights
        self.done = done
        self.condition = condition
        self.waiting: list[_Submission] = []  # submissions that wait for this one to end
        self.unfinished = 0  # how many submissions this one waits for
        # One of them failed, so the state that this was decided on may not be stored.
        self.predecessor_failed = False


class EtcdCommitter:
    """`Commits` by transactions of etcd. `local` stores the follower's events; its jobs run between two batches."""

    def __init__(
        self,
        etcd: Etcd,
        keys: Keys,
        epoch: Epoch,
        journal: Journal,
        feed: Feed,
        local: Committer,
        claims: Mapping[str, Claims],
    ) -> None:
        self._etcd, self._keys, self._epoch = etcd, keys, epoch
        self._journal, self._feed, self._local = journal, feed, local
        self._claims = claims
        self._flights: dict[Proposal, _Flight] = {}  # neither applied nor failed yet
        self._by_id: dict[bytes, _Flight] = {}
        self._counted: dict[str, _Flight] = {}  # the newest of each namespace with quotas
        self._running: dict[_Submission, None] = {}
        self._nursery: trio.Nursery | None = None
        self._early: list[_Submission] = []  # submitted before `run`
        self._waiting: list[_Waiting] = []  # for a shared transaction
        self._sending = 0  # transactions under way of writes that could share one
        self._newest = Sent(0, 0.0, 0)  # of them
        self._type_names: dict[int, str] = {}
        self._idle = trio.lowlevel.ParkingLot()
        self.pause: trio.Event | None = None
        self.durations = WriteDurations()
        self.reads: SharedReads | None = None  # that transactions serve
        self.term: Callable[[], int] = lambda: 0  # of this node, if it runs the controllers
        self.problem: Callable[[], str] = lambda: ""  # with the connection to etcd, or its space
        self.note_full: Callable[[EtcdFull], None] = lambda full: None  # etcd has no space for a write
        self._failures = 0

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def is_sending(self) -> bool:
        """Whether a transaction is under way that writes could share, or could have shared."""
        return self._sending > 0

    @property
    def last_failure(self) -> str:
        return self._local.last_failure or self.problem()

    @last_failure.setter
    def last_failure(self, why: str) -> None:
        self._local.last_failure = why

    @property
    def commits_on_loop(self) -> Callable[[Sequence[Event]], bool]:
        return self._local.commits_on_loop

    @commits_on_loop.setter
    def commits_on_loop(self, decide: Callable[[Sequence[Event]], bool]) -> None:
        self._local.commits_on_loop = decide

    def submit(
        self, proposals: Sequence[Proposal], done: OnCommitted, condition: Condition = UNCONDITIONAL
    ) -> None:
        """Submit proposals. `done(None)` is called once this node has stored all of them, or `done` with the error.

        Without proposals it is called once all earlier submissions have ended, with `Overtaken` if one of them failed.
        """
        flights = [_Flight(one) for one in proposals]
        submission = _Submission(flights, done, condition)
        for flight in flights:
            self._flights[flight.proposal] = flight
            self._by_id[flight.write_id] = flight
        if not flights:
            for other in self._running:
                if other.flights:
                    other.waiting.append(submission)
                    submission.unfinished += 1
        self._running[submission] = None
        if self._nursery is None:
            self._early.append(submission)
        else:
            self._start(submission)

    def _start(self, submission: _Submission) -> None:
        assert self._nursery is not None
        if submission.flights:
            if place := submission.condition.counted_in:
                before = self._counted.get(place)
                self._counted[place] = submission.flights[-1]
                self._nursery.start_soon(self._carry, submission, before)
            else:
                self._nursery.start_soon(self._carry, submission, None)
        elif not submission.unfinished:
            self._nursery.start_soon(self._end_soon, submission)

    async def _end_soon(self, submission: _Submission) -> None:
        self._end(submission, None)

    async def run(self) -> None:
        """Run forever. Cancel only after `drained`."""
        try:
            async with trio.open_nursery() as self._nursery:
                early, self._early = self._early, []
                for submission in early:
                    self._start(submission)
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for submission in list(self._running):
                self._end(submission, ShuttingDown())

    async def drained(self) -> None:
        """Wait until all submissions are stored here or have failed, or `run` was cancelled."""
        while self._running and self._nursery is not None:
            await self._idle.park()
        await self._local.drained()

    async def perform(self, work: Callable[[], T]) -> T:
        return await self._local.perform(work)

    async def register_types(self, names: Sequence[str]) -> None:
        await self._local.register_types(names)

    async def commit_at_once(self, propose: Callable[[], Sequence[Proposal]]) -> int:
        raise StorageRefused("several changes at once need a journal of one process, without --journal")

    async def commit_alone(self, propose: Callable[[], Sequence[Proposal]]) -> int:
        return await self.commit_at_once(propose)

    def next_offset(self) -> int:
        """An offset after all writes that other nodes have decided on this node's current state and not yet written."""
        return self._feed.head + self._keys.version(IN_FLIGHT)

    def statistics(self) -> CommitterStatistics:
        local = self._local.statistics()
        return CommitterStatistics(
            local.commits,
            local.events,
            local.failures + self._failures,
            len(self._flights),
            local.largest_batch,
            local.seconds,
            local.in_thread,
            local.last_failure,
        )

    def apply(self, write_id: bytes, event: Event) -> None:
        """The follower has stored and published an event."""
        flight = self._by_id.get(write_id)
        if flight is not None:
            flight.event = flight.proposal.event = event
            flight.applied.set()

    def mark_unstored(self, write_id: bytes, why: Exception) -> None:
        """The follower could not store an event that etcd has; it will try again."""
        flight = self._by_id.get(write_id)
        if flight is not None:
            flight.unstored = f"etcd has stored it, and this node could not yet: {why}"
            flight.applied.set()

    async def _carry(self, submission: _Submission, counted_before: _Flight | None) -> None:
        """Write the events of a submission in order, and wait until this node has the last."""
        failure: Exception | None = None
        began = perf_counter()
        try:
            with trio.move_on_after(WITHIN) as scope:
                for flight in submission.flights:
                    await self._write(flight, submission, counted_before)
                for flight in submission.flights:
                    await flight.applied.wait()
                    if flight.event is None:
                        raise OutcomeUnclear(flight.unstored)
            if scope.cancelled_caught:
                failure = _timeout(submission)
        except (Overtaken, RequestError) as error:
            failure = error
        except Exception as crash:
            logger.exception("a write to etcd failed")
            failure = crash
        finally:
            for flight in submission.flights:
                if not flight.replied.is_set():
                    flight.failed = True
                    flight.replied.set()
        if failure is None:
            events = [flight.event for flight in submission.flights if flight.event is not None]
            self.durations.add(events, perf_counter() - began)
        elif not isinstance(failure, Overtaken):
            self._failures += 1
        self._end(submission, failure)

    def _end(self, submission: _Submission, failure: Exception | None) -> None:
        self._running.pop(submission, None)
        for flight in submission.flights:
            self._flights.pop(flight.proposal, None)
            self._by_id.pop(flight.write_id, None)
            place = submission.condition.counted_in
            if place and self._counted.get(place) is flight:
                del self._counted[place]
        try:
            submission.done(failure)
        except Exception:
            logger.exception("a callback failed after a commit: %r", submission.done)
        for other in submission.waiting:
            other.unfinished -= 1
            other.predecessor_failed |= failure is not None
            if not other.unfinished and other in self._running:
                self._end(other, Overtaken() if other.predecessor_failed else None)
        self._idle.unpark_all()

    async def _write(self, flight: _Flight, submission: _Submission, counted_before: _Flight | None) -> None:
        """Write one event to etcd. Raises Overtaken, or a RequestError if nothing changed or nobody knows."""
        if self._local.last_failure:
            raise StorageRefused(self._local.last_failure)  # this node could not store the event
        previous = await self._version_before(flight.proposal)
        if not self._can_share(flight, submission.condition):
            await self._write_alone(flight, submission, counted_before, previous)
        elif not self._sending and not self._waiting and self._newest.writes < 2:
            self._sending, self._newest = 1, Sent(1, 0.0, 0)
            try:
                await self._write_alone(flight, submission, counted_before, previous)
            finally:
                self._end_sending()
        elif not await self._write_with_others(flight, submission.condition, previous):
            await self._write_alone(flight, submission, counted_before, previous)
        flight.replied.set()

    async def _write_alone(
        self, flight: _Flight, submission: _Submission, counted_before: _Flight | None, previous: int
    ) -> None:
        """Write one event in a transaction of its own."""
        counted, since = await self._counted_compare(flight, submission, counted_before)
        while True:
            epoch = self._epoch.revision
            compares, then = self._transaction(flight, previous, epoch, submission.condition)
            compares += counted
            try:
                result = await self._etcd.txn(compares, then, self._otherwise(compares))
            except OutcomeUnknown as lost:
                if not await self._is_applied(flight, epoch, lost):
                    continue
                assert flight.event is not None
                flight.version = flight.event.offset
                break
            except EtcdUnavailable as error:
                raise Unreachable(str(error)) from error
            except (EtcdRefused, LeaseGone) as error:
                if isinstance(error, EtcdFull):
                    self.note_full(error)
                raise StorageRefused(str(error)) from error
            if result.succeeded:
                flight.version = self._keys.version(result.revision)
                break
            await self._explain(result, compares, epoch, submission.condition)
        if submission.condition.counted_in:
            flight.last_counted, flight.counted_since = self._keys.revision(flight.version), since

    # Shared transactions.

    def _can_share(self, flight: _Flight, condition: Condition) -> bool:
        return (
            self._keys.per_revision > 1
            and not condition.counted_in
            and self._type_name(flight.proposal.type_id) not in self._claims
        )

    async def _write_with_others(self, flight: _Flight, condition: Condition, previous: int) -> bool:
        """Write one event with others that wait. Returns False if it needs a transaction of its own."""
        waiting = _Waiting(flight, self._key(flight.proposal), previous, leading=condition.leading)
        self._waiting.append(waiting)
        self._send_waiting()
        try:
            await waiting.done.wait()
        finally:
            if not waiting.done.is_set() and waiting in self._waiting:
                self._waiting.remove(waiting)
        if waiting.failure is not None:
            raise waiting.failure
        if waiting.lost is not None and await self._is_applied(flight, *waiting.lost):
            assert flight.event is not None
            flight.version = flight.event.offset
        return flight.version > 0

    def _send_waiting(self) -> None:
        """Begin a transaction for the writes that wait, unless one is under way and they would not fill another."""
        many = len(self._waiting) >= self._keys.per_revision and self._sending < SHARED_AT_ONCE
        if self._nursery is not None and self._waiting and (not self._sending or many):
            self._sending += 1
            self._nursery.start_soon(self._share)

    async def _share(self) -> None:
        shared: list[_Waiting] = []
        try:
            await self._gather()
            shared = self._take_waiting()
            if shared:
                await self._send_shared(shared)
        except Exception as crash:
            logger.exception("a transaction of several writes failed")
            for one in shared:
                one.failure = crash
        finally:
            for one in shared:
                one.done.set()
            self._end_sending()

    def _end_sending(self) -> None:
        self._sending -= 1
        self._send_waiting()
        if not self._sending and self.reads is not None:
            self.reads.end_transactions(self._newest)

    async def _gather(self) -> None:
        """Let the event loop read more requests, as long as that adds writes."""
        size = 0
        for _ in range(PASSES):
            if len(self._waiting) == size:
                return
            size = len(self._waiting)
            await trio.lowlevel.checkpoint()

    def _take_waiting(self) -> list[_Waiting]:
        """The writes of the next transaction, in order, each of another object."""
        taken: dict[bytes, _Waiting] = {}
        left: list[_Waiting] = []
        size = 0
        for one in self._waiting:
            size += one.size
            if taken and (one.key in taken or size > SHARED_BYTES or len(taken) == self._keys.per_revision):
                left.append(one)
            else:
                taken[one.key] = one
        self._waiting = left
        return list(taken.values())

    async def _send_shared(self, shared: list[_Waiting]) -> None:
        """Give each write its version; those without one are sent alone afterwards, which explains why."""
        keys, epoch = self._keys, self._epoch.revision
        compares = [Compare(self._epoch.key, "mod_revision", epoch)]
        if any(one.leading for one in shared):
            term = self.term()
            if not term:
                return  # sent alone, writes of controllers are refused, and those of clients are not
            compares.append(Compare(keys.leader, "create_revision", term))
        then: list[Operation] = []
        heads: list[Head] = []
        for place, one in enumerate(shared):
            compares.append(Compare(one.key, "mod_revision", keys.revision(one.previous)))
            heads.append(self._add_change(then, one.flight, one.key, one.previous, place))
        then.append(Put(keys.head, encode_heads(heads, keys.layout)))
        asked = None if self.reads is None else self.reads.take_deferred()
        version, began = 0, trio.current_time()
        try:
            result = await self._etcd.txn(compares, then)
        except OutcomeUnknown as lost:
            for one in shared:
                one.lost = epoch, lost
        except EtcdUnavailable as error:
            for one in shared:
                one.failure = Unreachable(str(error))
        except EtcdFull as full:  # there is no space for one of them either
            self.note_full(full)
            for one in shared:
                one.failure = StorageRefused(str(full))
        except (EtcdRefused, LeaseGone):
            logger.debug(
                "etcd refused a transaction of %d writes; sending each alone", len(shared), exc_info=True
            )
        else:
            if result.succeeded:
                version = keys.version(result.revision)
                for place, one in enumerate(shared):
                    one.flight.version = version + place
        finally:
            self._newest = Sent(len(shared), trio.current_time() - began, version)
            if self.reads is not None:
                self.reads.settle(asked, version)

    async def _version_before(self, proposal: Proposal) -> int:
        """The version of the object that a proposal was decided on; waits until it is known."""
        previous = proposal.previous
        if isinstance(previous, int):
            return previous
        before = self._flights.get(previous)
        if before is not None:
            await before.replied.wait()
            if before.failed:
                raise Overtaken
            return before.version
        if previous.event is None:
            raise Overtaken
        return previous.event.offset

    async def _counted_compare(
        self, flight: _Flight, submission: _Submission, before: _Flight | None
    ) -> tuple[list[Compare], int]:
        """Compare that this node knew all changes that the namespace's quotas count when it decided this one.

        It also knew its own changes in flight, because each waits for the one before. The second value is since when no
        other node has made such a change, if the comparison holds.
        """
        if not submission.condition.counted_in:
            return [], 0
        key = self._keys.of_quotas(submission.condition.counted_in)
        known = self._keys.revision(submission.condition.counted_at)
        if flight is not submission.flights[0]:
            before = submission.flights[submission.flights.index(flight) - 1]
        if before is not None:
            await before.replied.wait()
            flight.last_counted, flight.counted_since = before.last_counted, before.counted_since
            if flight.last_counted > known >= flight.counted_since:
                return [Compare(key, "mod_revision", flight.last_counted)], flight.counted_since
        return [Compare(key, "mod_revision", known + 1, "<")], known

    def _transaction(
        self, flight: _Flight, previous: int, epoch: int, condition: Condition
    ) -> tuple[list[Compare], list[Operation]]:
        keys, proposal = self._keys, flight.proposal
        key = self._key(proposal)
        compares = [
            Compare(key, "mod_revision", keys.revision(previous)),
            Compare(self._epoch.key, "mod_revision", epoch),
        ]
        then: list[Operation] = []
        head = self._add_change(then, flight, key, previous, 0)
        if condition.leading:
            term = self.term()
            if not term:
                raise NotLeading
            compares.append(Compare(keys.leader, "create_revision", term))
        if condition.counted_in:
            then.append(Put(keys.of_quotas(condition.counted_in), b""))
        if (claims := self._claims.get(head.type_name)) is not None:
            self._add_claims(claims, proposal, compares, then)
        then.append(Put(keys.head, encode_heads((head,), keys.layout)))
        return compares, then

    def _key(self, proposal: Proposal) -> bytes:
        return self._keys.of_object(self._type_name(proposal.type_id), proposal.namespace, proposal.name)

    def _add_change(
        self, then: list[Operation], flight: _Flight, key: bytes, previous: int, place: int
    ) -> Head:
        """Add the operation that makes a change; returns what `head` says about it."""
        proposal = flight.proposal
        change = Change(
            proposal.verb,
            previous,
            proposal.time,
            proposal.user,
            proposal.manager,
            proposal.reason,
            flight.write_id,
            proposal.facts,
            proposal.body,
            place,
        ).encode(self._keys.layout)
        then.append(DeleteRange(key) if proposal.removed else Put(key, change))
        return Head(
            self._type_name(proposal.type_id),
            proposal.namespace,
            proposal.name,
            flight.write_id,
            change if proposal.removed else b"",
        )

    def _add_claims(
        self, claims: Claims, proposal: Proposal, compares: list[Compare], then: list[Operation]
    ) -> None:
        """Claim the items that the object gains, which nothing else may own, and release those that it loses."""
        wanted = frozenset[str]() if proposal.removed else claims(proposal.body)
        had = frozenset[str]()
        if isinstance(proposal.previous, Proposal):
            had = claims(proposal.previous.body)
        elif proposal.previous:
            body = self._journal.body(proposal.type_id, proposal.namespace, proposal.name)
            had = (
                claims(body) if body is not None else had
            )  # if its version differs, the transaction fails anyway
        for item in sorted(wanted - had):
            compares.append(Compare(self._keys.of_claim(item), "create_revision", 0))
            then.append(Put(self._keys.of_claim(item), b""))
        then.extend(DeleteRange(self._keys.of_claim(item)) for item in sorted(had - wanted))

    def _type_name(self, type_id: int) -> str:
        name = self._type_names.get(type_id)
        if name is None:
            self._type_names = {number: one for one, number in self._journal.types().items()}
            name = self._type_names[type_id]
        return name

    def _otherwise(self, compares: list[Compare]) -> list[Operation]:
        """Reads that explain a failed comparison: three keys, then the claims and quotas that were compared."""
        keys = self._keys
        marks = [Get(one.key, keys_only=True) for one in compares if keys.is_mark(one.key)]
        return [Get(self._epoch.key), Get(keys.leader), Get(keys.head, keys_only=True), *marks]

    async def _explain(
        self, result: TxnResult, compares: list[Compare], epoch: int, condition: Condition
    ) -> None:
        """Returns if the transaction can be sent again: the epoch changed, or another program put a compared key.

        Otherwise raises Overtaken or NotLeading.
        """
        node, leader, head, *marks = [one for one in result.responses if isinstance(one, RangeResult)]
        if version_of(node) != epoch:
            await self._begin_epoch(epoch)
            return
        if condition.leading and (leader.kvs[0].create_revision if leader.kvs else 0) != self.term():
            raise NotLeading
        await self._complete_up_to(self._keys.version(version_of(head)))
        foreign = [one for found in marks for one in found.kvs if self._is_foreign(one)]
        if not foreign:
            raise Overtaken
        for one in foreign:
            await self._remove_mark(one)

    async def _complete_up_to(self, head: int) -> None:
        """Wait until this node has everything written before a transaction that failed and found this `head`."""
        if not head:  # another program deleted it, so it does not say which changes this node lacks
            try:
                head = await newest_version(self._etcd, self._keys)
            except EtcdUnavailable as error:
                raise Unreachable(str(error)) from error
            except EtcdRefused as error:
                raise StorageRefused(str(error)) from error
        await self._feed.completed(head)

    def _is_foreign(self, mark: KeyValue) -> bool:
        """Whether no change has put the key of a claim or of quotas. This node has all changes up to the key's."""
        if mark.mod_revision > self._keys.revision(self._feed.head):
            return True
        item = self._keys.claimed_item(mark.key)
        return bool(item) and not self._is_claimed(item)

    def _is_claimed(self, item: str) -> bool:
        with self._journal.read() as view:
            return any(
                item in claims(row.body)
                for type_name, claims in self._claims.items()
                for _, _, row in view.rows(self._journal.type_id(type_name))
            )

    async def _remove_mark(self, mark: KeyValue) -> None:
        logger.warning("another program has put the key %s of etcd; deleting it", mark.key.decode())
        try:
            await self._etcd.txn(
                [Compare(mark.key, "mod_revision", mark.mod_revision)], [DeleteRange(mark.key)]
            )
        except OutcomeUnknown:
            logger.debug("the next attempt finds out", exc_info=True)
        except EtcdUnavailable as error:
            raise Unreachable(str(error)) from error
        except EtcdRefused as error:
            raise StorageRefused(str(error)) from error

    async def _is_applied(self, flight: _Flight, epoch: int, lost: OutcomeUnknown) -> bool:
        """Whether a transaction whose reply was lost was applied; if not, it never will be."""
        while True:
            try:
                started = await self._epoch.begin_after(epoch)
                break
            except EtcdUnavailable:
                logger.warning("the outcome of a write is not known yet: %s", lost)
            except EtcdRefused as error:
                raise OutcomeUnclear(str(error)) from error
        await self._feed.completed(started.head)
        return flight.event is not None

    async def _begin_epoch(self, epoch: int) -> None:
        try:
            await self._epoch.begin_after(epoch)
        except EtcdUnavailable as error:
            raise Unreachable(str(error)) from error
        except EtcdRefused as error:
            raise StorageRefused(str(error)) from error


def _timeout(submission: _Submission) -> RequestError:
    stored = next((one.version for one in submission.flights if one.version), 0)
    if stored:
        return OutcomeUnclear(
            f"etcd has stored it as version {stored}, which this node has not received in {WITHIN:.0f} s"
        )
    return OutcomeUnclear(f"etcd gave no reply in {WITHIN:.0f} s")
