"""Decides when a request may start: at once, after it has waited, or never (429).

The pipeline calls, for each request that is limited:

    if not seats.try_start(flow, count):
        waited = await seats.wait(flow, count)      # raises NoSeat
    try: ...
    finally: seats.end(flow.level, count, waited)

Seats alone protect nobody where requests take one step of the event loop: they never run at the same time, and a user
with a thousand connections has a thousand of them in each pass of the loop before anybody else's. Therefore a pass
starts at most `TURN` seats of limited requests; the others wait in the queues of their levels, where each flow has its
share. Refusals wait for a turn as well, because clients that send again at once would fill the passes with them. Once a
request waits, one task starts the next turn; else the first request of the next pass does. A server that is not busy
never uses up its turn, and pays for this two comparisons and two additions a request, and an addition a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from actors.errors import RequestError
from actors.flowcontrol.level import Level, Waiting

# A get takes about 0.1 ms, so that a turn takes a few milliseconds.
TURN: Final = 32
REFUSALS: Final = 8  # in a turn
# A quarter of the request timeout, as in Kubernetes.
WAIT_SECONDS: Final = 15.0
_EXPIRY_SECONDS: Final = 1.0

QUEUE_FULL, CONCURRENCY_LIMIT, TIME_OUT, CANCELLED = (
    "queue-full",
    "concurrency-limit",
    "time-out",
    "cancelled",
)


class NoSeat(RequestError):
    message = "Too many requests, please try again later."


@dataclass(slots=True)
class SchemaCounts:
    """What became of the requests of one FlowSchema, in one level."""

    schema: str
    level: str
    dispatched: int = 0
    rejected: dict[str, int] = field(default_factory=dict)  # by reason

    def reject(self, reason: str) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


class Flow:
    """Requests that share a level and a hand of its queues. `mark` is what `Seats.mark` made of the uids."""

    __slots__ = ("counts", "hand", "level", "limited", "mark")

    def __init__(
        self, level: Level, counts: SchemaCounts, hand: tuple[int, ...], mark: Any, *, limited: bool
    ) -> None:
        self.level = level
        self.counts = counts
        self.hand = hand
        self.mark = mark
        self.limited = limited


class _Passes(trio.abc.Instrument):
    """Counts the passes of the event loop, while it is one of its instruments."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class Seats:
    """Subclasses find the flow of a request and set the levels."""

    def __init__(self, turn: int = TURN) -> None:
        self._turn_size = turn
        self._turn = turn  # seats that may still start before the next turn
        self._passes = _Passes()
        self._pass = 0  # in which the turn began
        self._waits = False  # for the task that starts the next turn
        self._refusals = REFUSALS  # that may still be sent before the next turn
        self._turn_over = trio.lowlevel.ParkingLot()
        self._refused = trio.lowlevel.ParkingLot()
        self._queued = trio.lowlevel.ParkingLot()
        self.levels: dict[str, Level] = {}
        self.version = 0  # grows with every change of what flows depend on

    def counts(self) -> Iterator[SchemaCounts]:
        """Of all schemas."""
        return iter(())

    def try_start(self, flow: Flow, seats: int) -> bool:
        """Start a request unless it has to wait."""
        level = flow.level
        if self._pass != self._passes.count and not self._waits:
            self._pass, self._turn = self._passes.count, self._turn_size
        if self._turn <= 0 or level.waiting or level.executing + seats > level.seats:
            return False
        level.executing += seats
        level.running += 1
        flow.counts.dispatched += 1
        self._turn -= seats
        return True

    def _ask_for_turn(self) -> None:
        """A request waits for the next turn."""
        self._waits = True
        self._turn_over.unpark()

    async def wait(self, flow: Flow, seats: int) -> Waiting:
        """Wait in a queue until the request may start."""
        level = flow.level
        if self._turn > 0 or level.executing + seats > level.seats:
            reason = _why_full(flow)
            if reason:
                flow.counts.reject(reason)
                await self._wait_for_refusal()
                raise NoSeat
        waiting = level.enqueue(flow.hand, seats, trio.current_time(), flow.counts.schema)
        if self._turn > 0:
            self._start_waiting((level,))
        else:
            self._ask_for_turn()
        if waiting.started is None:
            self._queued.unpark()
            waiting.task = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                level.give_up(waiting)
                flow.counts.reject(CANCELLED)
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
            if not waiting.started:
                flow.counts.reject(TIME_OUT)
                raise NoSeat
        flow.counts.dispatched += 1
        return waiting

    async def _wait_for_refusal(self) -> None:
        self._refusals -= 1
        if self._refusals < 0:
            self._ask_for_turn()
            await self._refused.park()

    def end(self, level: Level, seats: int, waited: Waiting | None) -> None:
        """A request that was started has ended."""
        if waited is None and not level.waiting:
            level.executing -= seats
            level.running -= 1
            return
        level.end(seats, waited, trio.current_time())
        if not level.waiting:
            return
        if self._turn > 0:
            self._start_waiting((level,))
        else:
            self._ask_for_turn()

    def _start_waiting(self, levels: Iterable[Level]) -> None:
        """Start what waits, one request of each level after the other, as far as seats and turn allow."""
        now = trio.current_time()
        while levels and self._turn > 0:
            levels = [level for level in levels if self._turn > 0 and self._start_one(level, now)]
        if self._turn <= 0:
            self._ask_for_turn()

    def _start_one(self, level: Level, now: float) -> bool:
        waiting = level.start_next(now)
        if waiting is None:
            return False
        self._turn -= waiting.seats
        if waiting.task is not None:
            trio.lowlevel.reschedule(waiting.task)
        return True

    async def run(self) -> None:
        """Run for ever, under the supervisor: begin the turns, and refuse what has waited for too long."""
        trio.lowlevel.add_instrument(self._passes)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._refuse_expired)
                while True:
                    await self._begin_turn()
        finally:
            with suppress(
                KeyError
            ):  # another table of instruments is in use by now (`gateway.ops.instruments`)
                trio.lowlevel.remove_instrument(self._passes)

    async def _begin_turn(self) -> None:
        """Begin a turn, and wait until the next one has to begin."""
        self._pass = self._passes.count
        self._turn, self._refusals, self._waits = self._turn_size, REFUSALS, False
        self._refusals -= len(self._refused.unpark(count=REFUSALS))
        self._start_waiting([level for level in self.levels.values() if level.waiting])
        if self._turn > 0 and not self._refused:
            await self._turn_over.park()
        else:
            self._waits = True
            await trio.lowlevel.checkpoint()

    async def _refuse_expired(self) -> None:
        while True:
            if not any(level.waiting for level in self.levels.values()):
                await self._queued.park()
            await trio.sleep(_EXPIRY_SECONDS)
            before = trio.current_time() - WAIT_SECONDS
            for level in self.levels.values():
                for waiting in level.expired(before):
                    assert waiting.task is not None
                    trio.lowlevel.reschedule(waiting.task)


def _why_full(flow: Flow) -> str:
    """The reason to refuse a request that waits for seats; empty if it has a place in a queue."""
    if flow.level.settings.rejects:
        return CONCURRENCY_LIMIT
    return "" if flow.level.has_room(flow.hand) else QUEUE_FULL
