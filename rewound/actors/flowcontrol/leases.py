"""Limits that hold for all workers of a server together (docs/flow-control.md, "Workers"). Pure: no clock, no messages.

Each worker holds a number of units of every quota: seats of a priority level, places in its queues, connections, bytes.
`Holder` is a worker's side; `Allocator`, in the writer process, divides the units. A worker uses what it holds without
asking. If it needs more it reports, and the allocator recalls unused units from the others.

    worker -> allocator   Report    what it holds, uses and wants; the number of the last order that it has seen
    allocator -> worker   Order     units granted from now on, and the number down to which it returns units

Invariant: the workers together never hold more than the limit, however late messages arrive. For each worker the
allocator counts what it held in its last report, and every grant that it had not seen by then; it grants only what is
not counted. A worker returns only what it does not use, and reports it after it has given it up.

- A worker exits: its units are free. Its messages are ordered, so none arrives later.
- The writer process exits: workers continue with what they hold. The next allocator grants nothing until every worker
  that was alive when it started has reported: only these can hold anything.
- The limit falls: nothing is granted until less than the limit is held, as in one process.

Rejected: a fixed share for each worker (one with all the traffic could use only its share of the limit), a round trip
per request (a get takes less time), counters in shared memory (a dead process leaves its count behind, and several
counts cannot be taken at once).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

# An idle worker keeps one unit for its next request, if the limit has at least this many units per worker.
_AMPLE: Final = 4


class Demand(NamedTuple):
    """A worker's use of one quota and its demand."""

    held: int
    busy: int = 0  # units in use
    wanted: int = 0  # units in use, plus those that requests wait for
    need: int = 0  # units with which the next waiting request can start; 0 if none waits

    @property
    def short(self) -> bool:
        return self.wanted > self.held


class Report(NamedTuple):
    seen: int  # number of the last order of this allocator that the report includes
    demands: Mapping[str, Demand]  # of some quotas; the first report to an allocator has all
    leaving: bool = False  # the worker is about to stop: it gets no more than it needs


class Change(NamedTuple):
    granted: int  # additional units
    target: int  # return units above this as soon as they are not in use
    limit: int  # of all workers together


class Order(NamedTuple):
    number: int
    changes: Mapping[str, Change]


class Use(Protocol):
    """The consumer of a quota's units in a worker."""

    def allow(self, units: int, limit: int) -> None:
        """From now on, start to use at most `units`; `limit` is the one of all workers together."""

    def demand(self) -> tuple[int, int, int]:
        """`busy`, `wanted` and `need` of `Demand`."""


class Lease:
    """The units of one quota that this worker holds."""

    def __init__(self) -> None:
        self.held = self.target = self.limit = 0
        self._use: Use | None = None
        self._owed = False  # whether a waiting request has yet to start with a grant
        self.reported = Demand(0)

    def attach(self, use: Use | None) -> None:
        """Set the only consumer of the units, or none."""
        self._use = use
        self.settle()

    def change(self, change: Change) -> None:
        self.held += change.granted
        self.target, self.limit = change.target, change.limit
        self._owed = self._owed or change.granted > 0
        self.settle()

    def settle(self) -> None:
        """Start requests that may start, and give up units that are to be returned and not in use."""
        use = self._use
        if use is None:
            self.held = min(self.held, self.target)
            return
        if self._owed:
            use.allow(self.held, self.limit)
            busy, _, need = use.demand()
            # Otherwise a unit that two workers want could move back and forth and never be used.
            self._owed = 0 < need <= self.held and not busy
        if not self._owed:
            use.allow(min(self.held, self.target), self.limit)
            self.held = min(self.held, max(self.target, use.demand()[0]))

    @property
    def recalled(self) -> bool:
        """Whether it holds units that are to be returned."""
        return self.held > self.target

    def demand(self) -> Demand:
        return Demand(self.held, *(self._use.demand() if self._use is not None else (0, 0, 0)))


def _no_wake() -> None:
    pass


class Holder:
    """The leases of one worker, by quota."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.leaving = False
        # Called when a consumer has too few units; the one who sets it calls `changed` soon after.
        self.wake: Callable[[], None] = _no_wake
        self._seen = 0

    def lease(self, quota: str) -> Lease:
        """The units of this quota; none until the allocator grants some."""
        return self.leases.setdefault(quota, Lease())

    def ask(self) -> None:
        """Report that some quota has too few units."""
        self.wake()

    def first_report(self) -> Report:
        """The first report to an allocator that knows nothing about this worker."""
        self._seen = 0
        return self._report(self.leases)

    def leave(self) -> Report:
        """The report of a worker that is about to stop."""
        self.leaving = True
        return self._report(self.leases)

    def receive(self, order: Order) -> Report:
        """Apply an order of the allocator; returns the report in reply."""
        self._seen = order.number
        for quota, change in order.changes.items():
            self.lease(quota).change(change)
        return self._report(order.changes)

    def changed(self) -> Report | None:
        """A report of the quotas that have changed for the allocator; None if there are none."""
        return self._report(found) if (found := [*self._changed()]) else None

    def _changed(self) -> Iterator[str]:
        for quota, lease in self.leases.items():
            if lease.recalled:
                lease.settle()
            now, before = lease.demand(), lease.reported
            if now.held != before.held or now.short != before.short:
                yield quota

    @property
    def recalled(self) -> bool:
        """Whether units are to be returned once they are not in use. If so, `changed` should be called soon."""
        return any(lease.recalled for lease in self.leases.values())

    def _report(self, quotas: Iterable[str]) -> Report:
        demands = {}
        for quota in quotas:
            lease = self.leases[quota]
            demands[quota] = lease.reported = lease.demand()
        return Report(self._seen, demands, self.leaving)


class _Worker:
    """The allocator's knowledge about a worker."""

    def __init__(self) -> None:
        self.demands: dict[str, Demand] = {}
        self.counted: dict[str, int] = {}  # units that it holds at most
        self.served: dict[str, int] = {}  # when its need was last met
        self.limits: dict[str, int] = {}  # that it knows
        self.leaving = False
        self.number = 0  # of the last order
        self._unseen: deque[tuple[int, dict[str, int]]] = deque()  # grants by the number of their order
        self.changes: dict[str, Change] = {}  # of the next order

    def take(self, report: Report) -> None:
        while self._unseen and self._unseen[0][0] <= report.seen:
            self._unseen.popleft()
        self.leaving = report.leaving
        for quota, demand in report.demands.items():
            unseen = sum(grants.get(quota, 0) for _, grants in self._unseen)
            queued = self.changes[quota].granted if quota in self.changes else 0
            self.counted[quota] = demand.held + unseen + queued
            self.demands[quota] = demand

    def demand(self, quota: str) -> Demand:
        return self.demands.get(quota, _NOTHING)

    def count(self, quota: str) -> int:
        return self.counted.get(quota, 0)

    def change(self, quota: str, granted: int, target: int, limit: int) -> None:
        before = self.changes.get(quota)
        self.counted[quota] = self.count(quota) + granted
        self.limits[quota] = limit
        self.changes[quota] = Change(granted + (before.granted if before else 0), target, limit)

    def order(self) -> Order:
        self.number += 1
        grants = {quota: change.granted for quota, change in self.changes.items() if change.granted}
        if grants:
            self._unseen.append((self.number, grants))
        changes, self.changes = self.changes, {}
        return Order(self.number, changes)

    def forget(self, quota: str) -> None:
        for known in (self.demands, self.counted, self.served, self.limits, self.changes):
            known.pop(quota, None)


_NOTHING: Final = Demand(0)


class Allocator:
    """Divides the limits among the workers that have reported. Worker numbers are never reused.

    Every method may produce orders, which `orders` returns. While `short`, `ask` should be called now and then: it
    makes the workers report their current demand, and gives a turn to those for which there are too few units.
    """

    def __init__(self, limits: Mapping[str, int], living: Iterable[int] = ()) -> None:
        """`living` are the workers that may hold units of an earlier allocator."""
        self._limits = dict(limits)
        self._retired: set[str] = set()  # quotas without a limit, of which units may still be held
        self._workers: dict[int, _Worker] = {}
        self._unheard = set(living)
        self._turn = 0
        self.moved = 0  # units granted so far

    def configure(self, limits: Mapping[str, int]) -> None:
        """Set all limits. A quota that is missing keeps its limit until no worker uses or wants it."""
        self._retired |= self._limits.keys() - limits.keys()
        self._retired -= limits.keys()
        self._limits.update(limits)
        self._grant(self._limits)

    def join(self, worker: int, report: Report) -> None:
        """The first report of a worker. A known worker reports again if it lost the connection, and orders with it."""
        self._workers.pop(worker, None)
        self.report(worker, report)

    def report(self, worker: int, report: Report) -> None:
        last = self._unheard == {worker}
        self._unheard.discard(worker)
        known = self._workers.get(worker)
        if known is None:
            known = self._workers[worker] = _Worker()
        known.take(report)
        for quota in report.demands:
            if quota not in self._limits:  # of an earlier allocator, or the limit is not known yet
                self._limits[quota] = 0
                self._retired.add(quota)
        self._grant(self._limits if last or not known.number else report.demands)

    def end(self, worker: int) -> None:
        """The worker is gone."""
        self._unheard.discard(worker)
        self._workers.pop(worker, None)
        self._grant(self._limits)

    def orders(self) -> list[tuple[int, Order]]:
        """Take the orders to send, by worker."""
        return [(number, worker.order()) for number, worker in self._workers.items() if worker.changes]

    @property
    def short(self) -> bool:
        """Whether a worker wants units that another has."""
        return not self._unheard and any(map(self._is_short, self._limits))

    def ask(self) -> None:
        """Recall units that other workers want more, give the next worker its turn, and request the current demands.

        Recalls happen only here and when a limit falls, because demands change with every request: the caller decides
        how often.
        """
        if self._unheard:
            return
        for quota in [quota for quota in self._limits if self._is_short(quota)]:
            for worker in self._in_order(quota):
                if 0 < worker.demand(quota).need <= worker.count(quota):
                    self._turn += 1
                    worker.served[quota] = self._turn
            self._divide(quota, recalls=True)
            for worker in self._workers.values():
                if quota not in worker.changes and worker.count(quota) + worker.demand(quota).wanted:
                    worker.change(quota, 0, worker.count(quota), self._limits[quota])
            self._forget_unused(quota)

    def _is_short(self, quota: str) -> bool:
        held = sum(worker.count(quota) for worker in self._workers.values())
        if quota in self._retired:
            return held > 0
        return any(
            worker.count(quota) < min(self._least(quota, worker), held) for worker in self._workers.values()
        )

    def _least(self, quota: str, worker: _Worker) -> int:
        """The units that a worker should have."""
        ample = self._limits[quota] >= _AMPLE * len(self._workers) and quota not in self._retired
        return max(worker.demand(quota).wanted, int(ample and not worker.leaving))

    def _in_order(self, quota: str) -> list[_Worker]:
        """The workers; the one whose need was met least recently is first."""
        return sorted(self._workers.values(), key=lambda worker: worker.served.get(quota, 0))

    def _free(self, quota: str) -> int:
        return self._limits[quota] - sum(worker.count(quota) for worker in self._workers.values())

    def _grant(self, quotas: Iterable[str]) -> None:
        """Grant free units, and announce changed limits."""
        for quota in [*quotas] if not self._unheard else ():
            limit, free = self._limits[quota], self._free(quota)
            uninformed = [worker for worker in self._workers.values() if worker.limits.get(quota) != limit]
            if free > 0 or (free < 0 and uninformed):
                self._divide(quota, recalls=free < 0)
            for worker in uninformed:
                if worker.limits.get(quota) != limit:
                    worker.change(quota, 0, worker.count(quota), limit)
            self._forget_unused(quota)

    def _divide(self, quota: str, *, recalls: bool) -> None:
        limit, free, workers = self._limits[quota], self._free(quota), self._in_order(quota)
        spread = [not worker.leaving and quota not in self._retired for worker in workers]
        wanted = [worker.demand(quota)._replace(wanted=self._least(quota, worker)) for worker in workers]
        for worker, target in zip(workers, divide(limit, wanted, spread), strict=True):
            counted = worker.count(quota)
            granted = max(0, min(target - counted, free))
            free -= granted
            self.moved += granted
            if granted or (recalls and target < counted):
                worker.change(quota, granted, min(target, counted + granted), limit)

    def _forget_unused(self, quota: str) -> None:
        if quota in self._retired and not any(
            worker.count(quota) + worker.demand(quota).wanted for worker in self._workers.values()
        ):
            self._retired.discard(quota)
            del self._limits[quota]
            for worker in self._workers.values():
                worker.forget(quota)


def divide(limit: int, demands: Sequence[Demand], spread: Sequence[bool]) -> list[int]:
    """How many units each worker should have; earlier ones in `demands` come first.

        divide(10, [Demand(0, wanted=2), Demand(0, wanted=20), Demand(0, wanted=7)], ...)    -> [2, 4, 4]
        divide(1, [Demand(0, wanted=3, need=1), Demand(1, 1, 9, 1)], ...)                    -> [1, 0]

    First each gets what it needs to start one request, while units last; then all get the same, or less if they want
    less. The rest is spread evenly over the workers that `spread` marks, so that their next requests need not wait.
    """
    floors, wanted, left = [], [], limit
    for demand in demands:
        fits = demand.need <= left
        floors.append(demand.need if fits else 0)
        wanted.append(max(demand.wanted, demand.need) if fits else demand.busy)
        left -= floors[-1]
    low, high = 0, max(wanted, default=0)
    while low < high:  # the highest level for which there are enough units
        level = (low + high + 1) // 2
        if sum(_filled(floors, wanted, level)) <= limit:
            low = level
        else:
            high = level - 1
    found = _filled(floors, wanted, low)
    left = limit - sum(found)
    for index, one in enumerate(found):
        if left and one < wanted[index]:
            found[index], left = one + 1, left - 1
    chosen = [index for index, one in enumerate(spread) if one]
    for place, index in enumerate(chosen):
        found[index] += left // len(chosen) + (place < left % len(chosen))
    return found


def _filled(floors: Sequence[int], wanted: Sequence[int], level: int) -> list[int]:
    return [max(floor, min(most, level)) for floor, most in zip(floors, wanted, strict=True)]
