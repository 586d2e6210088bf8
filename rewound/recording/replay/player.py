"""Moves a replay along its recording: plays it at a speed, steps, and goes to any moment.

Recorded events go to the feed of the server in their order, with their versions, times and users, so watchers get the
same in every replay. Only one client moves the replay at a time (`_lock`); the others wait.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import islice

import trio

from rewound.actors.errors import BadRequest
from rewound.actors.runtime.turns import Turn
from rewound.journal import history
from rewound.journal.errors import JournalError
from rewound.journal.recording import Recording
from rewound.journal.records import Event
from rewound.recording.replay.replay_server import ReplayServer
from rewound.recording.replay.until import Until

# Events published at once: a few milliseconds of work for the server and its watchers.
BATCH_EVENTS, BATCH_BYTES = 512, 256 << 10
# While nothing happens, the clock of the replay moves this often, in seconds.
TICK = 0.5
# At full speed, how long the player waits for watchers that do not read.
PATIENCE = 1.0
FULL_SPEED = math.inf
# Keys of events that going back reads between two checks of the time: less than half a millisecond.
STEP_KEYS = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """A version of the recording, and the time at which the replay shows it."""

    version: int
    time: int  # microseconds since 1970; 0: before the first event


@dataclass(frozen=True, slots=True)
class PlayerState:
    now: Moment
    start: Moment  # the journal has nothing before it
    end: Moment
    playing: bool
    speed: float
    stopped: str  # why it stopped playing; empty if it never played
    held: bool | None = None  # whether the expression at which it stops has held; None without one


class Player:
    def __init__(
        self,
        recording: Recording,
        server: ReplayServer,
        clock: ReplayClock,
        *,
        to: int | None = None,
        speed: float = 1.0,
        until: Until | None = None,
    ) -> None:
        self._recording = recording
        self._server = server
        self._clock = clock
        self._to = recording.end if to is None else min(to, recording.end)  # playing stops there
        self._until = until
        self._lock = trio.Lock()
        self._changed = trio.Event()  # another client moved, started or stopped the replay
        self._ahead: list[Event] = []  # the next events, read in advance
        self._patient = True  # watchers read what they get
        self.speed = speed
        self.playing = False
        self.stopped = ""
        with recording.read_all() as view:
            self._start = Moment(view.floor, time_at(recording, view.floor))
        self._end = Moment(recording.end, time_at(recording, recording.end))

    # Commands.

    def state(self) -> PlayerState:
        now = Moment(self._recording.position, self._clock.time)
        held = None if self._until is None else self._until.held
        return PlayerState(now, self._start, self._end, self.playing, self.speed, self.stopped, held)

    def play(self, speed: float | None = None) -> None:
        if speed is not None:
            self.speed = speed
        self.playing, self.stopped = True, ""
        self._wake()

    def pause(self, why: str = "paused") -> None:
        if self.playing:
            self.playing, self.stopped = False, why
            self._wake()

    async def step(self, count: int = 1) -> None:
        """Go forward by some events; pauses a replay that plays."""
        self.pause()
        async with self._lock:
            while count > 0 and (batch := self._next(self._recording.end)[:count]):
                self._publish(batch)
                count -= len(batch)
                await trio.lowlevel.checkpoint()

    async def back(self, count: int = 1) -> None:
        """Go back by some events."""
        self.pause()
        target = await self._offset_before(count)
        await self.go_to(Moment(max(target, self._start.version), 0))

    async def _offset_before(self, count: int) -> int:
        """The offset of the event that is `count` events before the present one; 0 if there are not as many.

        Offsets have gaps, so it reads the keys of all events in between: in turns, as there may be a million.
        """
        start, left, turn = self._recording.position, count, Turn()
        while True:
            wanted = min(left + 1, STEP_KEYS)
            with self._recording.read_all() as view:
                offsets = history.descending(view, history.whole_log(view), start)
                found = list(islice(offsets, wanted))
            if len(found) < wanted:
                return 0
            if left < wanted:
                return found[left]
            left -= wanted
            start = found[-1] - 1
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()

    async def go_to(self, moment: Moment) -> None:
        """Go to a version, or to a time; events in between reach the watches only on the way forward."""
        self.pause()
        self._check(moment.version)
        async with self._lock:
            if moment.version < self._recording.position:
                self._ahead = []
                self._clock.time = moment.time or time_at(self._recording, moment.version)
                await self._server.go_back(moment.version)
            while batch := self._next(moment.version):
                self._publish(batch)
                await self._wait_for_watchers()
            self._clock.time = max(self._clock.time, moment.time)

    def _check(self, version: int) -> None:
        first, last = self._start.version, self._end.version
        if not first <= version <= last:
            raise BadRequest(f"version {version} is not in the recording, which has {first} to {last}")

    # Playing.

    async def run(self) -> None:
        """Play whenever that is requested, until cancelled."""
        while True:
            changed = self._changed
            if not self.playing:
                await changed.wait()
                continue
            try:
                await self._play()
            except JournalError as error:
                self.pause(f"the recording cannot be read: {error}")

    async def wait_playing(self) -> None:
        while not self.playing:
            await self._changed.wait()

    async def wait_stopped(self) -> None:
        """Wait until the replay does not play."""
        while self.playing:
            await self._changed.wait()

    async def _play(self) -> None:
        """Play until the end, `until`, or until it is stopped or its speed changes."""
        began, time, speed = trio.current_time(), self._clock.time, self.speed
        while self.playing and speed == self.speed:
            changed = self._changed
            async with self._lock:
                batch = self._next(self._to)
                if not batch:
                    self.pause(self._end_reached())
                    return
                full = speed == FULL_SPEED
                due = batch[-1].time if full else time + round((trio.current_time() - began) * speed * 1e6)
                ready = await self._ready(batch, due)
                if ready is None:
                    return
                if ready:
                    self._publish(ready)
                else:
                    self._clock.time = max(self._clock.time, due)
            if ready:
                await (self._wait_for_watchers() if full else trio.lowlevel.checkpoint())
            else:
                with trio.move_on_after(min((batch[0].time - due) / 1e6 / speed, TICK)):
                    await changed.wait()
                    return  # the move may have changed the clock: start over

    def _end_reached(self) -> str:
        return (
            "the end" if self._until is None or self._until.held else f"the end: {self._until.never_held()}"
        )

    async def _ready(self, batch: list[Event], due: int) -> list[Event] | None:
        """The events that are due, up to the one at which playing stops; None if it is paused while it waits."""
        ready = batch
        if batch[-1].time > due:
            ready = [event for event in batch if event.time <= due]
        if self._until is None:
            return ready
        turn = Turn()
        for number, event in enumerate(ready):
            if self._until(event):
                self.pause(f"the expression holds at version {event.offset}")
                return ready[: number + 1]
            if turn.over():
                await trio.lowlevel.checkpoint()
                if not self.playing:
                    return None
                turn = Turn()
        return ready

    def _next(self, upto: int) -> list[Event]:
        """The next events, none after `upto`."""
        if not self._ahead:
            self._ahead = self._recording.following(BATCH_EVENTS, BATCH_BYTES)
        if self._ahead and self._ahead[-1].offset > upto:
            return [event for event in self._ahead if event.offset <= upto]
        return self._ahead

    def _publish(self, events: list[Event]) -> None:
        """Publish events: reads find them, watches get them."""
        last = events[-1]
        self._ahead = self._ahead[len(events) :]
        self._recording.position = last.offset
        self._clock.time = last.time
        self._server.instance.store.feed.publish(events)

    async def _wait_for_watchers(self) -> None:
        """At full speed, go only as fast as watchers read: one that falls behind would read everything twice."""
        hub = self._server.instance.server.hub
        await trio.lowlevel.checkpoint()
        if not self._patient:
            self._patient = hub.is_delivered
            return
        with trio.move_on_after(PATIENCE) as scope:
            await hub.wait_delivered()
        self._patient = not scope.cancelled_caught

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def time_at(recording: Recording, version: int) -> int:
    with recording.read_all() as view:
        offset = next(history.descending(view, history.whole_log(view), version), 0)
        event = view.event(offset, contents=False)
    return 0 if event is None else event.time


class ReplayClock:
    """The time of a replay: that of the recording at the present moment.

    Stands still unless the player moves it, so that ages and times are those of the recorded moment.
    """

    def __init__(self, time: int = 0) -> None:
        self.time = time  # microseconds since 1970

    def now(self) -> int:
        return self.time


class ForkClock:
    """The time of a writable copy: that of the fork; after `start` it passes at the replay's speed."""

    def __init__(self, moment: int) -> None:
        self._time = moment
        self._speed = 0.0
        self._since = time.monotonic()

    def now(self) -> int:
        return self._time + round((time.monotonic() - self._since) * self._speed * 1e6)

    def start(self, speed: float) -> None:
        self._speed, self._since = speed, time.monotonic()

    def advance_to(self, moment: int) -> None:
        """Move the clock forward to a time, if it is behind."""
        if moment > self.now():
            self._time, self._since = moment, time.monotonic()
