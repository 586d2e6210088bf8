"""A priority level: its seats, and the requests that wait for them in queues.

`executing` seats are taken; a request starts when its seats are free and nobody waits. The others wait in one of the
queues of their flow's hand, the shortest, first come first served. Among the queues, the level is fair in seat-seconds:
each queue has a virtual time, which is how much service it has had; the queue with the least starts its next request.
A request is charged `ESTIMATE` seconds for each of its seats when it starts, and the difference to the actual time when
it ends. A queue that was empty continues at the virtual time of the level, so that it can save up nothing.

    queue a: 3 waiting, virtual time 0.009      the request of b starts next, then those of a
    queue b: 1 waiting, virtual time 0.003

All of it is synchronous. `Seats` decides when a level may start requests, and wakes the tasks.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

import trio

from actors.flowcontrol.configuration import LevelSettings

# Seconds that a request is expected to take, and the least that it is charged.
ESTIMATE: Final = 0.003
LEAST: Final = 0.0001


class Waiting:
    """A request in a queue; `started` is None as long as it waits."""

    __slots__ = ("queue", "schema", "seats", "since", "started", "task")

    def __init__(self, queue: Queue, seats: int, since: float, schema: str) -> None:
        self.queue = queue
        self.seats = seats
        self.since = since  # when it began to wait, later when it started
        self.schema = schema
        self.started: bool | None = None  # False: refused or cancelled
        self.task: trio.lowlevel.Task | None = None


class Queue:
    __slots__ = ("correction", "length", "ordered", "requests", "virtual")

    def __init__(self) -> None:
        self.requests: deque[Waiting] = deque()
        self.length = 0  # of those that still wait
        self.virtual = 0.0
        self.correction = 0.0  # of requests that have ended, added when the next one starts
        self.ordered = False  # whether the level's order has an entry for it

    def first(self) -> Waiting | None:
        while self.requests and self.requests[0].started is False:
            self.requests.popleft()
        return self.requests[0] if self.requests else None

    def drop_given_up(self) -> None:
        """Once they are the majority, so that each costs little, and memory stays bounded."""
        if len(self.requests) > 2 * self.length + 16:
            self.requests = deque(waiting for waiting in self.requests if waiting.started is None)


class Level:
    def __init__(self, settings: LevelSettings) -> None:
        self.settings = settings
        self.seats = settings.seats
        self.executing = 0  # seats
        self.running = 0  # requests
        self.waiting = 0
        self._queues: dict[int, Queue] = {}
        # Queues with requests: virtual time, a number that makes entries comparable, queue.
        self._order: list[tuple[float, int, Queue]] = []
        self._entries = 0
        self._virtual = 0.0

    def configure(self, settings: LevelSettings) -> None:
        """Requests that already wait keep their queues."""
        self.settings = settings
        self.seats = settings.seats

    @property
    def unused(self) -> bool:
        return not self.running and not self.waiting

    def has_room(self, hand: tuple[int, ...]) -> bool:
        """Whether the shortest queue of the hand is below the limit."""
        return self._shortest(hand).length < self.settings.queue_length

    def enqueue(self, hand: tuple[int, ...], seats: int, now: float, schema: str) -> Waiting:
        queue = self._shortest(hand)
        waiting = Waiting(queue, seats, now, schema)
        queue.requests.append(waiting)
        queue.length += 1
        self.waiting += 1
        if not queue.ordered:
            queue.virtual = max(queue.virtual + queue.correction, self._virtual)
            queue.correction = 0.0
            self._push(queue)
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

    def start_next(self, now: float) -> Waiting | None:
        """Take the next request from its queue; None if nobody waits, or if its seats are not free."""
        while self._order:
            queue = self._order[0][2]
            waiting = queue.first()
            if waiting is None:
                heapq.heappop(self._order)
                queue.ordered = False
                continue
            if self.executing + waiting.seats > self.seats and self.executing:
                return None
            heapq.heappop(self._order)
            queue.requests.popleft()
            self._leave(waiting, started=True)
            self._charge_start(queue, waiting.seats)
            waiting.since = now
            self.executing += waiting.seats
            self.running += 1
            return waiting
        return None

    def _charge_start(self, queue: Queue, seats: int) -> None:
        self._virtual = max(self._virtual, queue.virtual)
        queue.virtual += seats * ESTIMATE + queue.correction
        queue.correction = 0.0
        queue.ordered = False
        if queue.requests:
            self._push(queue)

    def _push(self, queue: Queue) -> None:
        queue.ordered = True
        self._entries += 1
        heapq.heappush(self._order, (queue.virtual, self._entries, queue))

    def end(self, seats: int, waited: Waiting | None, now: float) -> None:
        """A request has ended; `waited` if it was in a queue before."""
        self.executing -= seats
        self.running -= 1
        if waited is not None:
            took = max(now - waited.since, LEAST)
            waited.queue.correction += seats * (took - ESTIMATE)

    def give_up(self, waiting: Waiting) -> None:
        """The request no longer waits; its queue drops it later."""
        self._leave(waiting, started=False)
        waiting.queue.drop_given_up()

    def _leave(self, waiting: Waiting, *, started: bool) -> None:
        waiting.started = started
        waiting.queue.length -= 1
        self.waiting -= 1

    def expired(self, before: float) -> list[Waiting]:
        """The requests that began to wait before this time; they no longer wait."""
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
