"""Limits shared by several workers: a model of workers, an allocator and delayed messages, any of which may end."""

from __future__ import annotations

from collections import deque
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.flowcontrol.leases import Allocator, Change, Demand, Holder, Order, Report, divide
from tests.cases import cases

QUOTA = "level"


class Requests:
    """Requests of one worker: they take units, or wait for them in the order in which they arrived."""

    def __init__(self) -> None:
        self.allowed, self.limit = 0, 0
        self.running: list[int] = []  # units of each
        self.waiting: deque[int] = deque()
        self.started = 0

    def allow(self, units: int, limit: int) -> None:
        self.allowed, self.limit = units, limit
        while self.waiting and sum(self.running) + self._next() <= self.allowed:
            self.running.append(self._next())
            self.waiting.popleft()
            self.started += 1

    def _next(self) -> int:
        return min(self.waiting[0], self.limit) if self.limit else self.waiting[0]

    def demand(self) -> tuple[int, int, int]:
        busy = sum(self.running)
        return busy, busy + sum(self.waiting), self._next() if self.waiting else 0

    def arrive(self, units: int) -> None:
        self.waiting.append(units)
        self.allow(self.allowed, self.limit)

    def end(self, random: Random) -> None:
        self.running.pop(random.randrange(len(self.running)))
        self.allow(self.allowed, self.limit)


class Worker:
    def __init__(self) -> None:
        self.holder, self.requests = Holder(), Requests()
        self.lease = self.holder.lease(QUOTA)
        self.lease.attach(self.requests)
        self.to: deque[Order] = deque()
        self.sent: deque[Report | None] = deque()  # None: it has ended
        self.connect()

    def connect(self) -> None:
        self.to.clear()
        self.joins = True
        self.sent = deque([self.holder.first_report()])

    def granted(self) -> int:
        """Messages that are on their way to it."""
        return sum(order.changes[QUOTA].granted for order in self.to)

    def report(self) -> None:
        if (report := self.holder.changed()) is not None:
            self.sent.append(report)


class Model:
    """Messages of one worker keep their order; everything else happens in any order."""

    def __init__(self, random: Random, workers: int, limit: int) -> None:
        self.random, self.limit = random, limit
        self.allocator = Allocator({QUOTA: limit})
        self.workers: dict[int, Worker] = {}
        self.ended: dict[int, Worker] = {}  # of which the allocator does not know yet
        self.last = 0
        self.held = 0
        for _ in range(workers):
            self.start()

    def start(self) -> None:
        self.last += 1
        self.workers[self.last] = Worker()

    def end(self) -> None:
        number = self.random.choice([*self.workers])
        worker = self.ended[number] = self.workers.pop(number)
        worker.sent.append(None)

    def replace_writer(self) -> None:
        self.allocator = Allocator({QUOTA: self.limit}, living=self.workers)
        self.ended.clear()
        for worker in self.workers.values():
            worker.connect()

    def configure(self, limit: int) -> None:
        self.send()  # grants count as sent, see `check`
        self.check()
        self.limit = limit
        self.allocator.configure({QUOTA: limit})

    def send(self) -> None:
        for number, order in self.allocator.orders():
            if number in self.workers and not self.workers[number].joins:  # otherwise over a closed channel
                self.workers[number].to.append(order)

    def deliver_to(self, worker: Worker) -> None:
        if worker.to:
            worker.sent.append(worker.holder.receive(worker.to.popleft()))

    def deliver_from(self, number: int, worker: Worker) -> None:
        if not worker.sent:
            return
        report = worker.sent.popleft()
        if report is None:
            self.allocator.end(number)
            del self.ended[number]
        elif worker.joins:
            worker.joins = False
            self.allocator.join(number, report)
        else:
            self.allocator.report(number, report)

    def step(self) -> None:
        random, worker = self.random, self.random.choice([*self.workers.values()])
        match random.randrange(40):
            case 0:
                random.choice((self.replace_writer, worker.connect))()
            case 1:
                self.end()
                self.start()
            case 2:
                self.configure(random.choice((1, 2, 3, 5, 20, 50)))
            case 3 | 4 | 5:
                self.allocator.ask()
            case 6 | 7 | 8:
                worker.report()
            case 9 | 10 | 11 | 12 | 13:
                worker.requests.arrive(random.choice((1, 1, 1, 2, 10)))
            case 14 | 15 | 16 | 17:
                if worker.requests.running:
                    worker.requests.end(random)
            case number if number < 28:
                self.deliver_to(worker)
            case _:
                self.deliver_from(*random.choice([*self.workers.items(), *self.ended.items()]))
        if random.randrange(3):
            self.send()
        self.check()

    def check(self) -> None:
        """No worker uses more than it holds. While the total of held and granted units is above the limit, it only
        falls.
        """
        for worker in self.workers.values():
            assert sum(worker.requests.running) <= worker.lease.held
        held = sum(worker.lease.held + worker.granted() for worker in self.workers.values())
        assert held <= max(self.limit, self.held)
        self.held = held

    def exchange(self) -> None:
        """Deliver all messages, and those that result from them."""
        for _ in range(1000):
            for number, worker in [*self.workers.items(), *self.ended.items()]:
                self.deliver_to(worker)
                self.deliver_from(number, worker)
                self.send()
                self.check()
            if not any(worker.to or worker.sent for worker in [*self.workers.values(), *self.ended.values()]):
                return
        raise AssertionError("workers and allocator do not stop sending messages")

    def round(self) -> None:
        """One round of twenty milliseconds: the allocator asks, and workers with changes report."""
        for worker in self.workers.values():
            worker.report()
        self.exchange()
        self.allocator.ask()
        self.send()
        self.exchange()

    def waiting(self) -> int:
        return sum(len(worker.requests.waiting) for worker in self.workers.values())


@given(st.integers(0, 1 << 32), st.integers(1, 5), st.sampled_from((1, 2, 4, 12, 40)))
def test_limit_holds_whatever_ends_and_every_request_starts_at_last(
    seed: int, workers: int, limit: int
) -> None:
    model = Model(Random(seed), workers, limit)
    for _ in range(300):
        model.step()
    model.send()
    model.exchange()
    # In each round one running request of each worker ends, so that a waiting one can start.
    for _ in range(model.waiting() + sum(len(one.requests.running) for one in model.workers.values()) + 10):
        for worker in model.workers.values():
            if worker.requests.running:
                worker.requests.end(model.random)
        model.round()
    assert model.waiting() == 0


def settled(workers: int, limit: int) -> Model:
    model = Model(Random(0), workers, limit)
    model.exchange()
    for _ in range(3):
        model.round()
    return model


@cases(
    "workers, limit, most",
    [
        (4, 40, 37),  # the others keep one each
        (4, 13, 13),
        (4, 3, 3),
        (1, 600, 600),
        (2, 600, 599),
    ],
)
def test_one_busy_worker_gets_all_seats_within_two_rounds(workers: int, limit: int, most: int) -> None:
    model = settled(workers, limit)
    busy = next(iter(model.workers.values()))
    for _ in range(limit + 5):
        busy.requests.arrive(1)
    model.round()
    model.round()
    assert len(busy.requests.running) == most


def test_idle_seats_are_spread_over_workers() -> None:
    model = settled(4, 42)
    assert sorted(worker.lease.held for worker in model.workers.values()) == [10, 10, 11, 11]
    assert not model.allocator.short


def test_busy_workers_have_equal_parts_after_one_had_all() -> None:
    model = settled(2, 20)
    first, second = model.workers.values()
    for worker in (first, second):
        for _ in range(200):
            worker.requests.arrive(1)
        model.round()
    assert len(first.requests.running) > 15
    for _ in range(60):
        for worker in (first, second):
            if worker.requests.running:
                worker.requests.end(model.random)
        model.round()
    assert [len(worker.requests.running) for worker in (first, second)] == [10, 10]


def test_single_seat_goes_round_busy_workers() -> None:
    model = settled(4, 1)
    for worker in model.workers.values():
        for _ in range(100):
            worker.requests.arrive(1)
    model.round()
    for _ in range(80):
        for worker in model.workers.values():
            if worker.requests.running:
                worker.requests.end(model.random)
        model.round()
    started = [worker.requests.started for worker in model.workers.values()]
    assert min(started) >= 15 and sum(started) >= 75, started


def test_request_of_all_seats_starts_though_others_keep_taking_one() -> None:
    model = settled(2, 10)
    wide, narrow = model.workers.values()
    for _ in range(100):
        narrow.requests.arrive(1)
    model.round()
    wide.requests.arrive(10)
    for _ in range(20):
        if narrow.requests.running:
            narrow.requests.end(model.random)
        model.round()
    assert wide.requests.running == [10]


def test_new_allocator_grants_nothing_before_every_living_worker_has_reported() -> None:
    model = settled(3, 11)
    first, *others = model.workers.values()
    for _ in range(11):
        first.requests.arrive(1)
    model.round()
    model.round()
    assert len(first.requests.running) == 11
    model.replace_writer()
    for number, worker in [*model.workers.items()][1:]:
        worker.requests.arrive(1)
        model.deliver_from(number, worker)
        model.allocator.ask()
    assert model.allocator.orders() == [] and not model.allocator.short
    model.round()
    assert sum(len(worker.requests.running) for worker in others) == 0  # all seats are taken
    first.requests.end(model.random)
    first.requests.end(model.random)
    model.round()
    assert sum(len(worker.requests.running) for worker in others) == 2


def test_worker_that_does_not_live_any_more_is_not_waited_for() -> None:
    model = settled(2, 12)
    model.allocator = Allocator({QUOTA: 12}, living=model.workers)
    first, second = model.workers
    model.allocator.end(second)
    del model.workers[second]
    model.workers[first].connect()
    model.round()
    assert model.workers[first].lease.held == 12


def test_worker_that_leaves_returns_what_it_does_not_use() -> None:
    model = settled(2, 12)
    first, second = model.workers.values()
    first.requests.arrive(1)
    first.sent.append(first.holder.leave())
    for _ in range(12):
        second.requests.arrive(1)
    model.round()
    model.round()
    assert (first.lease.held, second.lease.held) == (1, 11)


def test_removed_quota_is_dropped_once_it_is_unused() -> None:
    model = settled(2, 12)
    first, second = model.workers.values()
    first.requests.arrive(1)
    model.allocator.configure({})
    for _ in range(2):
        model.round()
    assert (first.lease.held, second.lease.held) == (1, 0)
    first.requests.end(model.random)
    for _ in range(2):
        model.round()
    assert (first.lease.held, second.lease.held) == (0, 0) and not model.allocator.short
    model.allocator.configure({QUOTA: 4})
    model.send()
    model.exchange()
    assert first.lease.held + second.lease.held == 4


def test_units_are_held_for_what_does_not_exist_yet_until_they_are_recalled() -> None:
    holder = Holder()
    assert holder.receive(Order(1, {QUOTA: Change(5, 5, 9)})) == Report(1, {QUOTA: Demand(5)})
    requests = Requests()
    holder.lease(QUOTA).attach(requests)
    assert (requests.allowed, requests.limit) == (5, 9)
    holder.lease(QUOTA).attach(None)
    assert holder.receive(Order(2, {QUOTA: Change(0, 2, 9)})) == Report(2, {QUOTA: Demand(2)})


def test_units_too_few_for_the_next_request_are_returned_when_recalled() -> None:
    holder, requests = Holder(), Requests()
    requests.arrive(10)
    holder.lease(QUOTA).attach(requests)
    holder.receive(Order(1, {QUOTA: Change(3, 10, 10)}))
    assert holder.receive(Order(2, {QUOTA: Change(0, 0, 10)})).demands[QUOTA] == Demand(0, 0, 10, 10)


@cases(
    "limit, demands, expected",
    [
        (10, [Demand(0, 0, 20), Demand(0, 0, 20)], [5, 5]),
        (10, [Demand(0, 0, 2), Demand(0, 0, 20), Demand(0, 0, 7)], [2, 4, 4]),
        (1, [Demand(0, 0, 3, 1), Demand(1, 1, 9, 1)], [1, 0]),  # the first has its turn
        (10, [Demand(0, 0, 10, 10), Demand(9, 9, 20, 1)], [10, 0]),
        (10, [Demand(9, 9, 20, 1), Demand(0, 0, 10, 10)], [10, 0]),
        (11, [Demand(0, 0, 4), Demand(0)], [8, 3]),  # the rest is spread
        (5, [], []),
    ],
)
def test_limit_is_divided_by_demand(limit: int, demands: list[Demand], expected: list[int]) -> None:
    assert divide(limit, demands, [True] * len(demands)) == expected
