"""An etcd in memory, with revisions, watches, leases and compaction, and faults that a test chooses.

`FakeCluster` has the keys; `is_full` makes it refuse writes as etcd does that has reached its quota. A `FakeEtcd` is
the client of one node: `cut` makes all its calls fail, `lose` the replies of its next writes, `stalled` stops the
events of its watches, and `deliver` changes what they deliver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

from rewound.actors.etcd.api import (
    FROM_KEY,
    Compacted,
    Compare,
    DeleteRange,
    DeleteResult,
    EtcdFull,
    EtcdRefused,
    EtcdUnavailable,
    Event,
    Get,
    KeyValue,
    LeaseGone,
    Member,
    MemberStatus,
    Operation,
    OperationResult,
    OutcomeUnknown,
    Put,
    PutResult,
    RangeResult,
    TxnResult,
    WatchResponse,
)


class FakeCluster:
    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        self.log: list[Event] = []  # of all revisions
        self._state: dict[bytes, KeyValue] = {}
        self._next_lease = 1000
        self._leases: dict[int, tuple[int, float]] = {}  # ttl, when it expires
        self.changed = trio.lowlevel.ParkingLot()
        self.is_full = False
        self.shows_alarm = True  # whether members report that
        self.refused = 0  # writes, because it is full

    def at(self, revision: int) -> dict[bytes, KeyValue]:
        if revision == self.revision:
            return self._state
        state: dict[bytes, KeyValue] = {}
        for event in self.log:
            if event.now.mod_revision > revision:
                break
            if event.is_delete:
                state.pop(event.now.key, None)
            else:
                state[event.now.key] = event.now
        return state

    def expire(self) -> None:
        now = trio.current_time()
        for lease, (_, end) in list(self._leases.items()):
            if end <= now:
                self.revoke(lease)

    def check_space(self) -> None:
        if self.is_full:
            self.refused += 1
            raise EtcdFull

    def grant(self, ttl: int) -> int:
        self.check_space()
        lease = self._next_lease = self._next_lease + 1
        self._leases[lease] = (ttl, trio.current_time() + ttl)
        return lease

    def renew(self, lease: int) -> int:
        self.expire()
        if lease not in self._leases:
            raise LeaseGone(lease)
        ttl, _ = self._leases[lease]
        self._leases[lease] = (ttl, trio.current_time() + ttl)
        return ttl

    def revoke(self, lease: int) -> None:
        self._leases.pop(lease, None)
        held = [one.key for one in self.at(self.revision).values() if one.lease == lease]
        if held:
            self.apply([], [DeleteRange(key) for key in held], [])

    def apply(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]
    ) -> TxnResult:
        if any(isinstance(one, Put) for one in (*then, *otherwise)):
            self.check_space()  # before the comparisons, as etcd does
        state = self.at(self.revision)
        succeeded = all(_holds(state.get(one.key), one) for one in compares)
        revision, changed = self.revision + 1, False
        responses: list[OperationResult] = []
        for one in then if succeeded else otherwise:
            match one:
                case Put():
                    if one.lease and one.lease not in self._leases:
                        raise LeaseGone(one.lease)
                    before = state.get(one.key)
                    created = before.create_revision if before else revision
                    new = KeyValue(
                        one.key, one.value, created, revision, before.version + 1 if before else 1, one.lease
                    )
                    state[one.key] = new
                    self.log.append(Event(False, new))
                    changed = True
                    responses.append(PutResult(revision))
                case DeleteRange():
                    keys = [key for key in state if _within(key, one.key, one.end)]
                    for key in keys:
                        del state[key]
                        self.log.append(Event(True, KeyValue(key, b"", 0, revision, 0)))
                        changed = True
                    responses.append(DeleteResult(revision, len(keys)))
                case Get():
                    responses.append(_find(state, one.key, one.end, one.limit, self.revision))
        if changed:
            self.revision = revision
            self.changed.unpark_all()
        return TxnResult(succeeded, self.revision, tuple(responses))

    def range(self, key: bytes, end: bytes, revision: int, limit: int) -> RangeResult:
        if revision and revision < self.compacted:
            raise Compacted(self.compacted)
        if revision > self.revision:
            raise EtcdRefused("the revision is a future one")
        return _find(self.at(revision or self.revision), key, end, limit, self.revision)

    def compact(self, revision: int) -> None:
        if revision <= self.compacted:
            raise Compacted(self.compacted)
        self.compacted = revision


def _within(key: bytes, start: bytes, end: bytes) -> bool:
    if not end:
        return key == start
    return start <= key and (end == FROM_KEY or key < end)


def _find(state: dict[bytes, KeyValue], key: bytes, end: bytes, limit: int, revision: int) -> RangeResult:
    found = [state[one] for one in sorted(state) if _within(one, key, end)]
    shown = found[:limit] if limit else found
    return RangeResult(tuple(shown), revision, len(shown) < len(found), len(found))


def _holds(found: KeyValue | None, compare: Compare) -> bool:
    if compare.target == "value":
        if found is None:
            return False
        left: Any = found.value
    else:
        left = getattr(found, compare.target) if found is not None else 0
    right: Any = compare.given
    return bool(
        {"=": left == right, "!=": left != right, "<": left < right, ">": left > right}[compare.operator]
    )


@dataclass(slots=True)
class Lost:
    """The fate of a transaction whose reply is lost: applied before, after this many seconds, or never."""

    after: float | None = 0.0
    cuts: bool = False  # after that, this node cannot reach etcd


Deliver = Callable[[WatchResponse], list[WatchResponse]]


class FakeEtcd:
    def __init__(self, cluster: FakeCluster, nursery: trio.Nursery | None = None) -> None:
        self.cluster = cluster
        self._nursery = nursery  # of transactions that are applied late
        self.is_cut = False
        self.gives_up_after = 1.0  # seconds
        self.stalled = False
        self.lose: list[Lost] = []
        self.deliver: Deliver = lambda response: [response]
        self.break_watches = trio.Event()
        self.transactions = 0
        self.ranges = 0
        self.watches = 0

    async def _reach(self) -> None:
        await trio.lowlevel.checkpoint()
        self.cluster.expire()
        if self.is_cut:
            await trio.sleep(self.gives_up_after)
            raise EtcdUnavailable("no member answers")

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        await self._reach()
        self.transactions += 1
        if self.lose and any(isinstance(one, Put) and one.key.endswith(b"/head") for one in then):
            lost = self.lose.pop(0)
            self.is_cut = lost.cuts
            if lost.after == 0:
                self.cluster.apply(compares, then, otherwise)
            elif lost.after is not None:
                assert self._nursery is not None
                self._nursery.start_soon(self._apply_late, lost.after, compares, then, otherwise)
            raise OutcomeUnknown("the reply was lost")
        return self.cluster.apply(compares, then, otherwise)

    async def _apply_late(
        self,
        after: float,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation],
    ) -> None:
        await trio.sleep(after)
        self.cluster.apply(compares, then, otherwise)

    async def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        revision: int = 0,
        limit: int = 0,
        serializable: bool = False,
        keys_only: bool = False,
        count_only: bool = False,
    ) -> RangeResult:
        await self._reach()
        self.ranges += 1
        return self.cluster.range(key, end, revision, limit)

    @asynccontextmanager
    async def watch(
        self, key: bytes, end: bytes, start_revision: int, *, prev_kv: bool = False
    ) -> AsyncIterator[AsyncIterator[WatchResponse]]:
        await self._reach()
        self.watches += 1
        if start_revision < self.cluster.compacted:
            raise Compacted(self.cluster.compacted)
        yield self._responses(key, end, start_revision)

    async def _responses(self, key: bytes, end: bytes, start: int) -> AsyncIterator[WatchResponse]:
        broken = self.break_watches
        yield WatchResponse((), self.cluster.revision)
        position, log = 0, self.cluster.log
        while True:
            if broken.is_set() or self.is_cut:
                raise EtcdUnavailable("the stream has ended")
            found = [one for one in log[position:] if _within(one.now.key, key, end)]
            found = [one for one in found if one.now.mod_revision >= start]
            if self.stalled or not found:
                with trio.move_on_after(0.1):
                    await self.cluster.changed.park()
                continue
            position = len(log)
            for response in self.deliver(WatchResponse(tuple(found), self.cluster.revision)):
                await trio.lowlevel.checkpoint()
                yield response

    async def grant(self, ttl: int) -> int:
        await self._reach()
        return self.cluster.grant(ttl)

    async def keep_alive(self, lease: int) -> int:
        await self._reach()
        return self.cluster.renew(lease)

    async def revoke(self, lease: int) -> None:
        await self._reach()
        self.cluster.revoke(lease)

    async def compact(self, revision: int) -> None:
        await self._reach()
        self.cluster.compact(revision)

    async def status(self) -> tuple[MemberStatus, ...]:
        alarms = ("memberID:1 alarm:NOSPACE ",) if self.cluster.is_full and self.cluster.shows_alarm else ()
        return (MemberStatus("memory:", alarms=alarms),)

    async def members(self) -> tuple[Member, ...]:
        return ()
