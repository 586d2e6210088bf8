"""Decides when a request may start: at once, after waiting, or never (429).

The pipeline calls, for each limited request:

    if not seats.try_start(flow, count):
        waited = await seats.wait(flow, count)      # raises NoSeat
    try: ...
    finally: seats.end(flow, count, waited)

`Level` has the seats of a priority level and its fair queues; `Seats` decides when a level may start requests, and
wakes the tasks.

Seats alone protect no flow where requests take one step of the event loop: they never run at the same time, and a user
with a thousand connections has a thousand of them in each pass of the loop before anyone else's. Therefore a pass
starts at most `TURN` seats of limited requests; the others wait in the queues of their levels, where each flow has its
share. Rejections wait for a turn as well, because clients that retry at once would fill the passes with them. While a
request waits, one task starts the next turn; otherwise the first request of the next pass does. A server that is not
busy never uses up its turn. This costs it two comparisons and two additions per request, and an addition per pass.

Nor do seats protect a flow from long requests of others: a level whose seats are all taken by long lists, which share
the event loop, would let each other flow wait until one of them ends. Therefore a flow that runs nothing in its level
may start one request `beyond` the seats, which takes none. The flows that wait share the loop then, instead of the
requests that were first.

A request that waits for something outside this server, such as a webhook, gives up its seats meanwhile (`leave`), so
that no other flow waits for it. It takes one of the level's places outside, which users share. When its answer has
arrived it takes its seats again (`start_again`), in a turn of its flow and before the flow's requests that have not
started. It is not rejected then, because others may already have acted on it.

With several workers, each has a part of the seats and of the places, which grows when requests wait (`leases`). If a
level rejects instead of queuing, another worker may have seats for it: the request waits for a moment before it is
rejected.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from sys import maxsize
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
import trio

from rewound.actors.errors import RequestError
from rewound.actors.flowcontrol.borrowing import PERIOD, Demand, divide
from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.leases import Holder

# A get takes about 0.1 ms, so a turn takes a few milliseconds.
TURN: Final = 32
REFUSALS: Final = 8  # per turn
# Requests of a level that may run beyond its seats, of a flow each: as many users as a level lets wait elsewhere.
BEYOND: Final = 256
# A quarter of the request timeout, as in Kubernetes.
WAIT_SECONDS: Final = 15.0
_EXPIRY_SECONDS: Final = 1.0
# How long a request of a level that rejects waits for seats that other workers do not use: several rounds of asking.
LEASE_SECONDS: Final = 0.1
# A level that has started nothing for this long asks for seats in addition to those of its running requests.
_STARVED_SECONDS: Final = 0.1

QUEUE_FULL, CONCURRENCY_LIMIT, TIME_OUT, CANCELLED = (
    "queue-full",
    "concurrency-limit",
    "time-out",
    "cancelled",
)


class NoSeat(RequestError):
    message = "Too many requests, please try again later."


class SchemaCounts(msgspec.Struct):
    """The requests of one FlowSchema in one level, counted by outcome."""

    schema: str
    level: str
    dispatched: int = 0
    rejected: dict[str, int] = msgspec.field(default_factory=dict)  # by reason

    def reject(self, reason: str) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


class Share:
    """What requests with the same level and hand run: flows of one user differ in verb and resource."""

    __slots__ = ("__weakref__", "running")

    def __init__(self) -> None:
        self.running = 0


class Flow:
    """Requests that share a level and a hand of its queues. `mark` is the result of `Seats.mark` for the uids."""

    __slots__ = ("counts", "hand", "level", "limited", "mark", "share")

    def __init__(
        self, level: Level, counts: SchemaCounts, hand: tuple[int, ...], mark: Any, *, limited: bool
    ) -> None:
        self.level = level
        self.counts = counts
        self.hand = hand
        self.share = level.share(hand)
        self.mark = mark
        self.limited = limited


class _Passes(trio.abc.Instrument):
    """An instrument that counts the passes of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class Seats:
    """The seats of all priority levels. Subclasses find the flow of a request and set the levels."""

    def __init__(
        self, turn: int = TURN, holder: Holder | None = None, *, borrows: bool = False, beyond: int = 0
    ) -> None:
        """`holder` has the leases of this worker, if there are several workers: then no level borrows seats.

        `beyond` is how many requests of each level may run beyond its seats.
        """
        self._beyond = beyond
        self._holder = holder
        self.borrows = borrows and holder is None
        self.fair_fraction = 0.0
        self._divided = 0.0  # when seats were last divided
        self._turn_size = turn
        self._turn = turn  # seats that may still start before the next turn
        self._passes = _Passes()
        self._pass = 0  # the pass in which the turn started
        self._waits = False  # whether the task that starts the next turn has been asked for one
        self._refusals = REFUSALS  # rejections that may still be sent before the next turn
        self._turn_over = trio.lowlevel.ParkingLot()
        self._refused = trio.lowlevel.ParkingLot()
        self._queued = trio.lowlevel.ParkingLot()
        self.levels: dict[str, Level] = {}

    def counts(self) -> Iterator[SchemaCounts]:
        """The counts of all schemas."""
        return iter(())

    def set_level(self, settings: LevelSettings) -> Level:
        """Add a level, or change its settings."""
        level = self.levels.get(settings.name)
        if level is None:
            leased = self._holder is not None and not settings.exempt and settings.seats < maxsize
            level = self.levels[settings.name] = Level(settings, leased=leased, borrows=self.borrows)
            if self._holder is not None and leased:
                self._holder.lease(settings.name).attach(_SeatsOfLevel(self, level))
        else:
            level.configure(settings)
        if self._holder is not None and level.leased:
            self._holder.lease(outside_quota(settings.name)).attach(_PlacesOutside(level.outside))
            if not settings.rejects:
                self._holder.lease(places_quota(settings.name)).attach(_PlacesOfLevel(level))
        return level

    def remove_level(self, name: str) -> None:
        del self.levels[name]
        if self._holder is not None:
            for quota in (name, places_quota(name), outside_quota(name)):
                if quota in self._holder.leases:
                    self._holder.lease(quota).attach(None)

    def try_start(self, flow: Flow, seats: int) -> bool:
        """Start a request unless it has to wait. Returns whether it started."""
        level = flow.level
        if self._pass != self._passes.count and not self._waits:
            self._pass, self._turn = self._passes.count, self._turn_size
        if self._turn <= 0 or level.waiting or level.executing + seats > level.seats:
            return False
        level.executing += seats
        level.running += 1
        flow.share.running += 1
        flow.counts.dispatched += 1
        self._turn -= seats
        return True

    def _ask_for_turn(self) -> None:
        """Make sure that a task starts the next turn, because a request waits for it."""
        self._waits = True
        self._turn_over.unpark()

    async def wait(self, flow: Flow, seats: int) -> Waiting:
        """Wait in a queue until the request may start. Raises NoSeat if it is rejected."""
        level = flow.level
        if self._turn > 0 or level.executing + seats > level.seats:
            reason = _why_full(flow, seats)
            if reason:
                flow.counts.reject(reason)
                await self._wait_for_refusal()
                raise NoSeat
        waiting = level.enqueue(flow, seats, trio.current_time())
        if self._turn > 0:
            self._start_waiting((level,))
        else:
            self._ask_for_turn()
        if waiting.started is None:
            await self._wait_for_start(flow, waiting)
        flow.counts.dispatched += 1
        return waiting

    async def _wait_for_start(self, flow: Flow, waiting: Waiting) -> None:
        self._queued.unpark()
        level, reason = flow.level, TIME_OUT
        try:
            if level.settings.rejects and level.leased:
                reason = CONCURRENCY_LIMIT
                with trio.move_on_after(LEASE_SECONDS):
                    await _parked(level, waiting)
            else:
                await _parked(level, waiting)
        except trio.Cancelled:
            flow.counts.reject(CANCELLED)
            raise
        if not waiting.started:
            flow.counts.reject(reason)
            raise NoSeat

    def leave(self, flow: Flow, user: str, seats: int, waited: Waiting | None) -> None:
        """Give back the seats, if any, of a request that starts to wait outside. Raises NoSeat if too many do."""
        level = flow.level
        has_place = level.outside.take(user)
        if level.leased and level.outside.is_short(user):
            self.ask_for_seats()
        if not has_place:
            flow.counts.reject(CONCURRENCY_LIMIT)
            raise NoSeat
        if seats:
            self.end(flow, seats, waited)

    async def start_again(self, flow: Flow, seats: int) -> Waiting | None:
        """Take the seats of a request again once it has its answer. Returns its queue entry if it had to wait."""
        if self.try_start(flow, seats):
            flow.counts.dispatched -= 1  # it was counted when it first started
            return None
        level = flow.level
        waiting = level.enqueue(flow, seats, trio.current_time(), returns=True)
        self.use_seats(level)
        if waiting.started is None:
            await _parked(level, waiting)
        return waiting

    def release_place(self, flow: Flow, user: str) -> None:
        """Release the place of a request that no longer waits outside, nor for its seats."""
        flow.level.outside.release(user)

    async def _wait_for_refusal(self) -> None:
        self._refusals -= 1
        if self._refusals < 0:
            self._ask_for_turn()
            await self._refused.park()

    def end(self, flow: Flow, seats: int, waited: Waiting | None) -> None:
        """Return the seats of a request that has ended."""
        level = flow.level
        flow.share.running -= 1
        if waited is None and not level.waiting:
            level.executing -= seats
            level.running -= 1
            return
        level.end(seats, waited, trio.current_time())
        self.use_seats(level)

    def _start_waiting(self, levels: Iterable[Level]) -> None:
        """Start waiting requests, one of each level in turn, as far as seats and turn allow."""
        now = trio.current_time()
        while levels and self._turn > 0:
            levels = [level for level in levels if self._turn > 0 and self._start_one(level, now)]
        if self._turn <= 0:
            self._ask_for_turn()

    def _start_one(self, level: Level, now: float) -> bool:
        waiting = level.start_next(now, self._beyond)
        if waiting is None:
            if level.leased and level.waiting:
                self.ask_for_seats()
            return False
        self._turn -= waiting.seats
        if waiting.task is not None:
            trio.lowlevel.reschedule(waiting.task)
        return True

    def ask_for_seats(self) -> None:
        """Ask the other workers for seats."""
        if self._holder is not None:
            self._holder.ask()

    def use_seats(self, level: Level) -> None:
        """Start waiting requests of a level that may have more free seats than before."""
        if not level.waiting:
            return
        if self._turn > 0:
            self._start_waiting((level,))
        else:
            self._ask_for_turn()

    async def run(self) -> None:
        """Start the turns, and reject requests that have waited too long. Runs forever, under the supervisor."""
        trio.lowlevel.add_instrument(self._passes)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_queues)
                while True:
                    await self._begin_turn()
        finally:
            trio.lowlevel.remove_instrument(self._passes)

    async def _begin_turn(self) -> None:
        """Start a turn, and wait until the next one is due."""
        self._pass = self._passes.count
        self._turn, self._refusals, self._waits = self._turn_size, REFUSALS, False
        self._refusals -= len(self._refused.unpark(count=REFUSALS))
        self._start_waiting([level for level in self.levels.values() if level.waiting])
        if self._turn > 0 and not self._refused:
            await self._turn_over.park()
        else:
            self._waits = True
            await trio.lowlevel.checkpoint()

    async def _watch_queues(self) -> None:
        """Reject requests that have waited too long, and divide the seats, as long as any level needs that."""
        while True:
            if any(level.waiting for level in self.levels.values()):
                await trio.sleep(_EXPIRY_SECONDS)
            elif any(level.had_demand for level in self.levels.values()):
                with trio.move_on_after(PERIOD):
                    await self._queued.park()
            else:
                await self._queued.park()
                self._begin_period(trio.current_time())
            now = trio.current_time()
            for level in self.levels.values():
                level.note_demand(now)  # of requests that did not wait
                for waiting in level.expired(now - WAIT_SECONDS):
                    assert waiting.task is not None
                    trio.lowlevel.reschedule(waiting.task)
            if self.borrows and now - self._divided >= PERIOD:
                self._end_period(now)

    def _begin_period(self, now: float) -> None:
        self._divided = now
        for level in self.levels.values():
            if level.demanded is not None:
                level.demanded.begin(now)

    def _end_period(self, now: float) -> None:
        self._divided = now
        for level in self.levels.values():
            if level.demanded is not None:
                level.demanded.end(now)
        self.divide_seats()

    def divide_seats(self) -> None:
        """Let levels borrow seats, by what each could have used."""
        if not self.borrows:
            return
        pairs = [(one, one.demanded) for one in self.levels.values()]
        limited = [(level, demanded) for level, demanded in pairs if demanded is not None]
        exempt = [level.settings.limits for level, demanded in pairs if demanded is None]
        division = divide([(level.settings.limits, demanded) for level, demanded in limited], exempt)
        self.fair_fraction = division.fraction
        for (level, _), seats, target in zip(limited, division.seats, division.targets, strict=True):
            level.target = target
            level.seats = seats
            level.set_limit(seats)
            self.use_seats(level)


async def _parked(level: Level, waiting: Waiting) -> None:
    """Wait until the request has started or is rejected."""
    waiting.task = trio.lowlevel.current_task()

    def abort(_: object) -> trio.lowlevel.Abort:
        level.give_up(waiting)
        return trio.lowlevel.Abort.SUCCEEDED

    await trio.lowlevel.wait_task_rescheduled(abort)


def _why_full(flow: Flow, seats: int) -> str:
    """Why a request that has to wait is rejected; empty if a queue has room for it."""
    level = flow.level
    if level.settings.rejects:
        taken = level.executing + level.waiting_seats
        return "" if level.leased and taken + seats <= level.limit else CONCURRENCY_LIMIT
    return "" if level.has_room(flow.hand) else QUEUE_FULL


def places_quota(level: str) -> str:
    """The quota name of the places in each of a level's queues. The quota of its seats has the name of the level."""
    return f"{level}/queue"


def outside_quota(level: str) -> str:
    """The quota name of the requests that wait outside."""
    return f"{level}/outside"


def level_quotas(levels: Iterable[LevelSettings]) -> dict[str, int]:
    """The limits of all workers together, by quota."""
    limited = [one for one in levels if not one.exempt]
    places = {places_quota(one.name): one.queue_length for one in limited if not one.rejects}
    outside = {outside_quota(one.name): one.places_outside for one in limited}
    return {one.name: one.seats for one in limited} | places | outside


class _SeatsOfLevel:
    """The consumer of a worker's lease of seats."""

    def __init__(self, seats: Seats, level: Level) -> None:
        self._seats, self._level = seats, level

    def allow(self, units: int, limit: int) -> None:
        level = self._level
        level.seats = units
        level.set_limit(limit or level.settings.seats)  # 0: not known yet
        self._seats.use_seats(level)

    def demand(self) -> tuple[int, int, int]:
        return self._level.demand(trio.current_time())


class _PlacesOfLevel:
    """The consumer of a worker's lease of places: this many in each queue."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def allow(self, units: int, limit: int) -> None:
        # At least one place, so that a request can wait for its first seat and for more places.
        self._level.queue_length = max(1, units)

    def demand(self) -> tuple[int, int, int]:
        """Twice the places in use, once that exceeds those held: a growing queue needs places before it is full."""
        longest = self._level.longest_queue()
        return longest, 2 * longest if 2 * longest > self._level.queue_length else longest, 0


# What a worker has without a lease: one user's first request, and a free place.
LEAST_OUTSIDE: Final = 2


class _PlacesOutside:
    """The consumer of a worker's lease of places outside."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def allow(self, units: int, limit: int) -> None:
        self._outside.places = max(LEAST_OUTSIDE, units)

    def demand(self) -> tuple[int, int, int]:
        """Ask for more before a user reaches its limit, because its requests are rejected then."""
        outside, wanted = self._outside, self._outside.wanted()
        return outside.taken, wanted if wanted > outside.places else outside.taken, 0


# Seconds that a request is expected to take, and the least that it is charged.
ESTIMATE: Final = 0.003
LEAST: Final = 0.0001


class Waiting:
    """A request in a queue; `started` is None while it waits."""

    __slots__ = ("beyond", "queue", "returns", "schema", "seats", "share", "since", "started", "task")

    def __init__(self, queue: Queue, flow: Flow, seats: int, since: float, returns: bool) -> None:
        self.queue = queue
        self.share = flow.share
        self.returns = returns  # it was outside
        self.seats = seats
        self.beyond = False  # it has started beyond the seats of the level, and takes none
        self.since = since  # when it started to wait, and later when it started
        self.schema = flow.counts.schema
        self.started: bool | None = None  # False: rejected or cancelled
        self.task: trio.lowlevel.Task | None = None


class Queue:
    __slots__ = ("correction", "entry", "length", "ordered", "requests", "returned", "returning", "virtual")

    def __init__(self) -> None:
        self.requests: deque[Waiting] = deque()
        self.returning: deque[Waiting] = deque()  # requests that were outside, which go before the others
        self.length = 0  # requests that still wait
        self.returned = 0  # of these, the ones that were outside
        self.virtual = 0.0
        self.correction = 0.0  # from requests that have ended; added when the next one starts
        self.ordered = False  # whether the level's order has an entry for it
        self.entry = 0  # the number of that entry

    def first(self) -> Waiting | None:
        for requests in (self.returning, self.requests):
            while requests and requests[0].started is False:
                requests.popleft()
            if requests:
                return requests[0]
        return None

    def drop_given_up(self) -> None:
        """Drop cancelled requests once they are the majority, so that each costs little and memory stays bounded."""
        if len(self.requests) + len(self.returning) > 2 * self.length + 16:
            self.requests = deque(waiting for waiting in self.requests if waiting.started is None)
            self.returning = deque(waiting for waiting in self.returning if waiting.started is None)


class Outside:
    """The requests of a level that wait outside this server, by user.

    A user may have as many as there are free places: half of all if nobody else has any. When several users have
    reached their limit, each has the same number, and as many are free for the next user.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self._of_users: dict[str, int] = {}

    def take(self, user: str) -> bool:
        own = self._of_users.get(user, 0)
        if own >= self.places - self.taken:
            return False
        self._of_users[user] = own + 1
        self.taken += 1
        return True

    def release(self, user: str) -> None:
        self.taken -= 1
        left = self._of_users[user] - 1
        if left:
            self._of_users[user] = left
        else:
            del self._of_users[user]

    def is_short(self, user: str) -> bool:
        """Whether the user is about to reach its limit."""
        return 2 * self._of_users.get(user, 0) >= self.places - self.taken

    def wanted(self) -> int:
        """The places taken, plus twice as many as the user with the most has."""
        return self.taken + 2 * max(self._of_users.values(), default=0)


class Level:
    """A priority level: its seats, and the requests that wait for them in queues.

    `executing` seats are taken; a request starts when its seats are free and none waits. The others wait in one of the
    queues of their flow's hand, the shortest, first come first served. Among the queues, the level is fair in
    seat-seconds: each queue has a virtual time, the amount of service it has had; the queue with the least starts its
    next request. A request is charged `ESTIMATE` seconds for each of its seats when it starts, and the difference to
    the actual time when it ends. A queue that was empty continues at the virtual time of the level, so that it cannot
    save up service. Requests that were outside are the first of their queue, and do not count towards its length.
    If the seats of the next request are not free, the first request of a flow that runs nothing starts `beyond` them.

        queue a: 3 waiting, virtual time 0.009      the request of b starts next, then those of a
        queue b: 1 waiting, virtual time 0.003

    All of it is synchronous. `Seats` decides when a level may start requests, and wakes the tasks.
    """

    def __init__(self, settings: LevelSettings, *, leased: bool = False, borrows: bool = False) -> None:
        self.settings = settings
        self.leased = leased
        self.demanded = Demand() if borrows and not settings.exempt else None
        self.target = 0.0  # seats that it should have by its demand
        self.limit = settings.seats  # of all workers together
        self.seats = 0 if leased else settings.seats
        self.queue_length = 1 if leased else settings.queue_length
        self.outside = Outside(LEAST_OUTSIDE if leased else settings.places_outside)
        self.executing = 0  # seats
        self.running = 0  # requests
        self.beyond = 0  # requests that run without seats
        self.waiting = 0
        self.waiting_seats = 0
        self._shares: WeakValueDictionary[tuple[int, ...], Share] = WeakValueDictionary()  # by hand
        self._queues: dict[int, Queue] = {}
        # Queues with requests: virtual time, a number that makes entries comparable, queue.
        self._order: list[tuple[float, int, Queue]] = []
        self._entries = 0
        self._virtual = 0.0
        self._started = 0.0  # when a waiting request last started

    def share(self, hand: tuple[int, ...]) -> Share:
        """The share of the flows with this hand, for as long as there are any."""
        share = self._shares.get(hand)
        if share is None:
            share = self._shares[hand] = Share()
        return share

    def configure(self, settings: LevelSettings) -> None:
        """Apply new settings. Requests that already wait keep their queues."""
        self.settings = settings
        if not self.leased:
            self.limit = self.seats = settings.seats
            self.queue_length = settings.queue_length
            self.outside.places = settings.places_outside

    def set_limit(self, limit: int) -> None:
        """Set the seats of all workers together. Waiting requests that need more take fewer."""
        before, self.limit = self.limit, limit
        for _, _, queue in self._order if limit < before else ():
            for waiting in (*queue.returning, *queue.requests):
                if waiting.started is None and waiting.seats > limit:
                    self.waiting_seats -= waiting.seats - limit
                    waiting.seats = limit

    @property
    def had_demand(self) -> bool:
        return self.demanded is not None and not self.demanded.is_forgotten

    def note_demand(self, now: float) -> None:
        if self.demanded is not None:
            self.demanded.note(self.executing + self.waiting_seats, now)

    def demand(self, now: float) -> tuple[int, int, int]:
        """Seats in use, those plus the seats that requests wait for, and the seats that the next request needs."""
        need = 0
        if (first := self._first()) is not None:
            need = first.seats
            if now - max(self._started, first.since) > _STARVED_SECONDS:
                need = min(need + self.executing, self.limit)
        return self.executing, self.executing + self.waiting_seats, need

    def longest_queue(self) -> int:
        return max((queue.length for queue in self._queues.values()), default=0)

    @property
    def unused(self) -> bool:
        return not self.running and not self.waiting and not self.outside.taken

    def has_room(self, hand: tuple[int, ...]) -> bool:
        """Whether the shortest queue of the hand is below the limit."""
        queue = self._shortest(hand)
        return queue.length - queue.returned < self.queue_length

    def enqueue(self, flow: Flow, seats: int, now: float, *, returns: bool = False) -> Waiting:
        queue = self._shortest(flow.hand)
        waiting = Waiting(queue, flow, seats, now, returns)
        (queue.returning if returns else queue.requests).append(waiting)
        queue.length += 1
        queue.returned += returns
        self.waiting += 1
        self.waiting_seats += seats
        if not queue.ordered:
            queue.virtual = max(queue.virtual + queue.correction, self._virtual)
            queue.correction = 0.0
            self._push(queue)
        self.note_demand(now)
        return waiting

    def _shortest(self, hand: tuple[int, ...]) -> Queue:
        best: Queue | None = None
        for number in hand:
            queue = self._queues.get(number)
            if queue is None:
                queue = self._queues[number] = Queue()
            if not queue.length:
                return queue
            if best is None or queue.length < best.length:
                best = queue
        assert best is not None
        return best

    def start_next(self, now: float, beyond: int = 0) -> Waiting | None:
        """Take the next request from its queue; None if no request waits, or if its seats are not free.

        Then it is that of a flow that runs nothing, while fewer than `beyond` run without seats.
        """
        waiting = self._first()
        if waiting is None:
            return None
        if self.executing + waiting.seats > self.seats and (self.executing or self.leased):
            waiting = (
                self._first_of_idle_flow() if self.beyond < beyond and not self.settings.rejects else None
            )
            if waiting is None:
                return None
            waiting.beyond = True
            self.beyond += 1
            self._order.remove((waiting.queue.virtual, waiting.queue.entry, waiting.queue))
            heapq.heapify(self._order)
        else:
            heapq.heappop(self._order)
            self.executing += waiting.seats
        queue = waiting.queue
        (queue.returning if waiting.returns else queue.requests).popleft()
        self._leave(waiting, started=True)
        self._charge_start(queue, waiting.seats)
        waiting.since = self._started = now
        waiting.share.running += 1
        self.running += 1
        return waiting

    def _first_of_idle_flow(self) -> Waiting | None:
        """The first request of the queue with the least service whose flow runs nothing."""
        least: Waiting | None = None
        for _, _, queue in self._order:
            if least is None or queue.virtual < least.queue.virtual:
                waiting = queue.first()
                if waiting is not None and not waiting.share.running:
                    least = waiting
        return least

    def _first(self) -> Waiting | None:
        """The next request of the queue that has had the least service."""
        while self._order:
            queue = self._order[0][2]
            waiting = queue.first()
            if waiting is not None:
                return waiting
            heapq.heappop(self._order)
            queue.ordered = False
        return None

    def _charge_start(self, queue: Queue, seats: int) -> None:
        self._virtual = max(self._virtual, queue.virtual)
        queue.virtual += seats * ESTIMATE + queue.correction
        queue.correction = 0.0
        queue.ordered = False
        if queue.requests or queue.returning:
            self._push(queue)

    def _push(self, queue: Queue) -> None:
        queue.ordered = True
        self._entries += 1
        queue.entry = self._entries
        heapq.heappush(self._order, (queue.virtual, self._entries, queue))

    def end(self, seats: int, waited: Waiting | None, now: float) -> None:
        """Return the seats of a request; `waited` if it was in a queue, where its seats may have been reduced."""
        seats = seats if waited is None else waited.seats
        if waited is not None and waited.beyond:
            self.beyond -= 1
        else:
            self.executing -= seats
        self.running -= 1
        self.note_demand(now)
        if waited is not None:
            took = max(now - waited.since, LEAST)
            waited.queue.correction += seats * (took - ESTIMATE)

    def give_up(self, waiting: Waiting) -> None:
        """Take a request out; its queue drops it later."""
        self._leave(waiting, started=False)
        waiting.queue.drop_given_up()

    def _leave(self, waiting: Waiting, *, started: bool) -> None:
        waiting.started = started
        waiting.queue.length -= 1
        waiting.queue.returned -= waiting.returns
        self.waiting -= 1
        self.waiting_seats -= waiting.seats

    def expired(self, before: float) -> list[Waiting]:
        """Take out the requests that have waited since before this time, unless they were outside."""
        found: list[Waiting] = []
        for _, _, queue in self._order:
            for waiting in queue.requests:
                if waiting.since > before:
                    break
                if waiting.started is None:
                    found.append(waiting)
        for waiting in found:
            self.give_up(waiting)
        return found
