"""A watch group: watchers that need the same bytes. Events are filtered, encoded and framed once for all of them.

`sweeping` members have been sent everything up to `swept`. In every step the group's task sends the same bytes to
each of them in one non-blocking call, several events together if they were committed together. A member whose socket
cannot take them all leaves the sweep: it keeps a cursor and at most the rest of one (shared) frame, catches up in its
own task when its socket is writable again, and rejoins. Nothing is buffered for it, and it is removed only when its
cursor leaves the watch history.

An idle group has swept every commit that affects it; `update_head` then moves its `head` to the newest commit.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Protocol

import trio

from rewound.actors.errors import ConversionFailed, RequestError
from rewound.actors.runtime.turns import Turn
from rewound.gateway.message import EndReason
from rewound.gateway.watch.broadcast import Broadcast
from rewound.gateway.watch.changes import TooOld
from rewound.gateway.watch.frames import (
    ROUND_BYTES,
    Backlog,
    Frame,
    RecentFrames,
    joined,
    joined_rounds,
    note_sent,
)
from rewound.gateway.watch.framing import Framing, framed_by
from rewound.gateway.watch.interest import Interest
from rewound.gateway.watch.member import Limit, Member, Pipe
from rewound.gateway.watch.watched_type import WatchedType
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

# Members sent to between two checkpoints: two milliseconds of sends, or three with encryption.
TURN, TURN_BYTES, SMALLEST_TURN = 256, 2 << 20, 8
# The cost in bytes of a step without matching events: a member with a narrow selection must not loop for long.
EMPTY_STEP_BYTES = 16 << 10
_NO_PIPES: frozenset[Pipe] = frozenset()
Cause = RequestError | None  # the error that clients get when a group fails; None: an internal error


class GroupHub(Protocol):
    """The part of the hub that a group uses."""

    nursery: trio.Nursery

    def newest(self) -> int:
        """The offset of the newest commit."""

    def deliverable(self) -> int:
        """The offset of the newest commit that watchers may receive."""

    def floor(self) -> int:
        """The offset at which the watch history begins."""

    def groups(self) -> int:
        """The number of groups."""


class Group:
    __slots__ = (
        "_backlog",
        "_broadcast",
        "_changes",
        "_conversion",
        "_counters",
        "_frame",
        "_frame_first",
        "_hub",
        "_progress",
        "_recent",
        "_removals",
        "_selection",
        "_sent",
        "_unserved",
        "head",
        "idle",
        "lagging",
        "sweeping",
        "swept",
    )

    def __init__(
        self,
        interest: Interest,
        framing: Framing,
        broadcast: Broadcast,
        watched: WatchedType[Any],
        hub: GroupHub,
    ) -> None:
        self._selection = interest.selection
        self._frame = self._frame_first = framed_by(framing, interest.encode)
        if interest.encode_first is not None:
            self._frame_first = framed_by(framing, interest.encode_first)
        self._conversion = interest.conversion
        self._broadcast = broadcast
        self._changes = watched.changes
        self._counters = watched.counters
        self._sent = interest.sent
        self._hub = hub
        self.idle = True
        self.head = hub.newest()  # the offset that the current round leads to
        self.swept = self.head  # the offset that every sweeping member has reached
        # By connection: an event that all connections accept is sent without touching any member.
        self.sweeping: dict[Pipe, Member] = {}
        self.lagging: set[Member] = set()
        self._recent = RecentFrames(self.head, hub.groups)
        self._backlog = Backlog(watched.changes, self._framed, hub.groups)
        # Connections that the current round has not reached: a list and a start index, converted to a set on first
        # use.
        self._unserved: tuple[list[Pipe], int] | frozenset[Pipe] = _NO_PIPES
        self._removals = 0
        self._progress = trio.lowlevel.ParkingLot()

    @property
    def empty(self) -> bool:
        return not self.sweeping and not self.lagging

    # Members.

    def join(self, member: Member) -> None:
        """Add a member at its cursor: to the sweep if it has everything, otherwise it catches up first.

        Raises TooOld if its cursor has left the watch history, OSError if the client disconnected.
        """
        self.update_head()
        if member.cursor < self.head and not member.pipe.has_unsent and not self._converts():
            self._send_some(member)
        caught_up = member.cursor == self.head and member.rest is None and not member.pipe.has_unsent
        if caught_up and not member.first_pending and member.limit is None:
            self.sweeping[member.pipe] = member
        else:
            self._start_catching_up(member)

    def leave(self, member: Member) -> None:
        member.ended = True
        if self.sweeping.get(member.pipe) is member:  # the next watch of the connection has the same pipe
            del self.sweeping[member.pipe]
            self._removals += 1
        if member in self.lagging:
            self.lagging.discard(member)
            self.wake_waiting()

    def set_limit(self, member: Member, version: int | None) -> None:
        """Send a member no event after a version; None removes the limit. Events that it may receive are sent at
        once.
        """
        if version is None:
            self.update_head()  # the member may be ahead of an idle group
            member.limit = None
        elif member.limit is None:
            member.limit = Limit(version)
        else:
            member.limit.move(version)
        if self.sweeping.get(member.pipe) is member:
            if version is not None:
                self._leave_sweep(member)
            return
        if member.rest is None and not member.pipe.has_unsent and not self._converts() and not member.ended:
            try:
                self._send_some(member)
            except (TooOld, OSError, trio.ClosedResourceError):
                pass  # the member's own task will find it too
        self._progress.unpark_all()

    def _leave_sweep(self, member: Member) -> None:
        """Move a member from the sweep to those that catch up."""
        member.cursor = self.reached(member)
        del self.sweeping[member.pipe]
        self._removals += 1
        self._start_catching_up(member)

    def _bound(self, member: Member) -> int:
        """The offset up to which a member may be sent events: the head, or what its limit allows, if lower or higher.

        Raises TooOld if the events up to its limit are no longer in the watch history.
        """
        limit = member.limit
        if limit is None:
            return self.head
        head = self._hub.newest()
        if limit.version >= head:
            return head
        limit.pass_over(member.cursor)
        if not limit.held and limit.clear < head:
            events, reached = self._changes.after(limit.clear, head)
            selected = (
                one.offset for one in events if self._selection.select(one, self._changes) is not None
            )
            held = next(selected, None)
            limit.clear, limit.held = (reached, False) if held is None else (held - 1, True)
        return min(limit.clear, head)

    def has_all(self, member: Member) -> bool:
        """Whether a member has been sent everything that it may receive."""
        limit, head = member.limit, self.head
        bound = min(head, limit.clear) if limit is not None and limit.held else head
        return member.cursor >= bound and member.rest is None

    def remove(self, member: Member, reason: EndReason | None = None, error: Cause = None) -> None:
        """Remove a member, for a reason of the group or because it disconnected; its own task ends the stream."""
        self.leave(member)
        member.end_reason, member.error = reason, error
        if reason is EndReason.TOO_OLD:
            self._counters.expired += 1
        member.pipe.interrupt()

    def remove_all(self, reason: EndReason, error: Cause = None) -> None:
        for member in [*self.sweeping.values(), *self.lagging]:
            self.remove(member, reason, error)
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Wake members that wait for the sweep, to check again whether they should end."""
        self._progress.unpark_all()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that changes when members are sent to."""
        while not condition():
            await self._progress.park()

    def reached(self, member: Member) -> int:
        """The offset that a member has reached, even in the middle of a sweep."""
        if member.pipe not in self.sweeping:
            return member.cursor
        if isinstance(self._unserved, tuple):
            pipes, first = self._unserved
            self._unserved = frozenset(pipes[first:])
        if member.pipe in self._unserved and self._needs_round(member.pipe):
            return self.swept
        self.update_head()
        return self.head

    # The sweep.

    def update_head(self) -> None:
        """Move an idle group to the newest commit: no commit up to there affects it."""
        if self.idle:
            self._pass_over(self._hub.newest())

    def _pass_over(self, offset: int) -> None:
        """Move an idle group, and the held members waiting at its head, past commits that do not affect it."""
        if self.lagging:
            for member in self.lagging:
                if member.limit is not None and self.head <= member.cursor < offset:
                    member.cursor = offset
                    member.limit.pass_over(offset)
        self.head = self.swept = offset

    def mark_dirty(self, before: int) -> None:
        """Note that a commit after `before` may affect this group; if it was idle, none up to `before` did."""
        self._counters.woken += 1
        if self.idle:
            self.idle = False
            self._pass_over(before)

    async def step(self) -> None:
        """Send the next changes to all sweeping members; the group is idle when there are no more."""
        reached = max(self.head, self._hub.deliverable())
        if self.sweeping or len(self.lagging) > 1:
            events, reached = self._changes.after(self.head, reached)
            if self._converts():
                frames = await self._framed_converted(events)
            else:
                turn = Turn() if len(events) > 1 else None
                frames, reached = self._framed_in_turn(turn, events, reached)
            for part, data in joined_rounds(frames):
                await self._sweep(part, data)
        else:
            # A single lagging member encodes its events in its own task, when its socket accepts them.
            self._recent.clear(reached)
        self._move_to(reached)
        self.swept = reached
        self.idle = reached == self._hub.newest()

    def _converts(self) -> bool:
        return self._conversion is not None and self._conversion.needed

    async def _framed_converted(self, events: list[Event], *, first: bool = False) -> list[Frame]:
        """Frame events whose objects a webhook must convert, all in one call. Raises ConversionFailed."""
        assert self._conversion is not None
        selected = self._selection.select_all(events, self._changes)
        shown = await self._conversion([body for _, _, body in selected]) if selected else []
        frames: list[Frame] = []
        frame = self._frame_first if first else self._frame
        for (offset, kind, _), body in zip(selected, shown, strict=True):
            frames.append((offset, frame(kind, body)))
            frame = self._frame
        self._counters.frames += len(frames)
        return frames

    def _framed(self, events: list[Event]) -> list[Frame]:
        return self._framed_in_turn(None, events, 0)[0]

    def _framed_in_turn(
        self, turn: Turn | None, events: list[Event], reached: int, *, first: bool = False
    ) -> tuple[list[Frame], int]:
        """Frame events that lead to `reached`, or as many as fit the turn, and return the offset that they lead to."""
        frame_first = self._frame_first if first else None
        frames, last = self._selection.framed(events, self._changes, self._frame, frame_first, turn)
        self._counters.frames += len(frames)
        return frames, reached if last is None else last

    async def _sweep(self, frames: list[Frame], data: bytes) -> None:
        """Send one round. A member that joins after this has these frames already, or catches up."""
        self._recent.add(frames, len(data))
        self._move_to(frames[-1][0])
        await self.offer(frames, data)
        self.swept = self.head

    def _move_to(self, head: int) -> None:
        self.head = head
        self._progress.unpark_all()

    async def offer(self, frames: list[Frame], data: bytes) -> None:
        """Send the bytes of some frames to every member that has everything up to `swept`, in one call each."""
        pipes = list(self.sweeping) if data else []  # empty if `testing.faults` drops events
        departures = self._removals
        longest = max(SMALLEST_TURN, min(TURN, TURN_BYTES // (len(data) or 1)))
        first, length = 0, longest
        while first < len(pipes):
            turn = pipes[first : first + length]
            if first:
                self._unserved = pipes, first
                await trio.lowlevel.checkpoint()
                if self._removals != departures:
                    turn = [pipe for pipe in turn if self._needs_round(pipe)]
            first += length
            time = Turn(2) if first < len(pipes) else None
            missed = self._broadcast(turn, data)
            taken_whole = len(turn) - len(missed)
            self._counters.deliveries += taken_whole * len(frames)
            self._sent.add(frames, len(data), taken_whole)
            for pipe, taken in missed:
                self._handle_missed(self.sweeping[pipe], frames, taken)
            if time is not None:
                # Slow sends, with encryption or on a busy machine, make the next turn shorter.
                length = max(SMALLEST_TURN, length // 2) if time.over() else min(longest, length * 2)
        self._unserved = _NO_PIPES

    def _needs_round(self, pipe: Pipe) -> bool:
        """Whether the member of a pipe needs the current round; one that joined since it began already has its
        events.

        The pipe alone does not tell: the next watch of a connection has the same one.
        """
        member = self.sweeping.get(pipe)
        return member is not None and member.cursor <= self.swept

    def _handle_missed(self, member: Member, frames: list[Frame], taken: int | Exception) -> None:
        if isinstance(taken, Exception):
            self._remove_failed(member, taken)
        else:
            self._fall_behind(member, frames, taken)

    def _remove_failed(self, member: Member, error: Exception) -> None:
        if isinstance(error, OSError | trio.ClosedResourceError):
            self.remove(member)
        else:
            logger.error("a watcher failed", exc_info=error)
            self.remove(member, EndReason.FAILED)

    def _fall_behind(self, member: Member, frames: list[Frame], sent: int) -> None:
        del self.sweeping[member.pipe]
        member.cursor = self.swept
        self._note_sent(member, frames, abs(sent))
        self._counters.lagged += 1
        self._start_catching_up(member)

    # Catching up.

    def _start_catching_up(self, member: Member) -> None:
        self.lagging.add(member)
        self._hub.nursery.start_soon(self._run_catch_up, member)

    async def _run_catch_up(self, member: Member) -> None:
        try:
            await self._catch_up(member)
        except TooOld:
            self.remove(member, EndReason.TOO_OLD)
        except ConversionFailed as error:
            self.remove(member, EndReason.FAILED, error)
        except Exception as error:
            self._remove_failed(member, error)
        finally:
            self.lagging.discard(member)
            self._progress.unpark_all()
            if member.catch_up_done is not None:
                member.catch_up_done.set()

    async def _catch_up(self, member: Member) -> None:
        """Send to one member until it has everything, then return it to the sweep."""
        while not member.ended:
            await member.pipe.flush()
            if member.pipe.has_unsent or not self._send_rest(member):
                member.check_close_timeout()
            elif member.should_end():
                return
            elif member.cursor >= (bound := self._bound(member)):
                if member.cursor == self.head and member.limit is None and not member.first_pending:
                    self.sweeping[member.pipe] = member
                    return
                if member.limit is not None and not member.limit.held and bound < self._hub.newest():
                    await trio.lowlevel.checkpoint()  # there is more to look through
                else:
                    # It starts ahead of the current sweep, its first event is encoded for it alone, or it is held.
                    await self._progress.park()
            elif self._converts():
                await self._send_converted(member, bound)
            else:
                self._send_some(member)

    async def _send_converted(self, member: Member, bound: int) -> None:
        """Send up to a round of events whose objects a webhook must convert. Raises ConversionFailed."""
        cursor, first = member.cursor, member.first_pending
        if cursor >= self._recent.floor and not first and member.limit is None:
            frames, reached = self._recent.after(cursor, self.head)
        elif cursor < self._hub.floor():
            raise TooOld
        else:
            events, reached = self._changes.after(cursor, bound, ROUND_BYTES)
            frames = await self._framed_converted(events, first=first)
        if not member.ended:
            self._transmit(member, frames, reached)

    def _send_rest(self, member: Member) -> bool:
        rest = member.rest
        if rest is None:
            return True
        sent = member.pipe.transmit(rest)
        if abs(sent) < len(rest):
            member.rest = rest[abs(sent) :]
            return False
        member.rest = None
        self._counters.deliveries += 1
        return sent > 0

    def _send_some(self, member: Member) -> None:
        """Send up to a round, or as much as the connection accepts."""
        left, turn, bound = ROUND_BYTES, Turn(), self._bound(member)
        while left > 0 and member.cursor < bound:
            frames, reached = self._frames_after(member, bound)
            size = self._transmit(member, frames, reached)
            if size is None or turn.over():
                return
            left -= max(size, EMPTY_STEP_BYTES)

    def _shares_with(self, member: Member) -> bool:
        """Whether there are others to encode for: the segments that they share begin before a member's cursor."""
        return bool(self.sweeping) or len(self.lagging) > (member in self.lagging)

    def _transmit(self, member: Member, frames: list[Frame], reached: int) -> int | None:
        """Send frames that bring a member to an offset; return their size, or None if not everything is sent."""
        data = joined(frames) if frames else b""
        sent = member.pipe.transmit(data) if data else 0
        self._note_sent(member, frames, abs(sent))
        if abs(sent) == len(data):
            member.cursor = reached
        return len(data) if sent == len(data) else None

    def _note_sent(self, member: Member, frames: list[Frame], sent: int) -> None:
        """Count the frames in so many sent bytes; the rest of a partly sent one follows later."""
        whole = note_sent(member, frames, sent)
        self._counters.deliveries += whole
        begun = frames if whole == len(frames) else frames[: whole + (member.rest is not None)]
        if begun:
            self._sent.add(begun, sum([len(data) for _, data in begun]))

    def _frames_after(self, member: Member, bound: int) -> tuple[list[Frame], int]:
        """The frames after the cursor of a member, and the offset that they lead to."""
        cursor, first = member.cursor, member.first_pending
        alone = first or member.limit is not None  # no other watcher receives the same frames
        if cursor >= self._recent.floor and not alone:
            return self._recent.after(cursor, bound)
        if cursor < self._hub.floor():
            raise TooOld
        if not alone and self._shares_with(member):
            return self._backlog.after(cursor, bound)
        events, reached = self._changes.after(cursor, bound, ROUND_BYTES)
        return self._framed_in_turn(Turn(), events, reached, first=first)

    def bookmark_held(self, bookmark: Callable[[int], bytes]) -> None:
        """Send each held member a bookmark of its own, with the version that it has been sent, not the newest one."""
        for member in list(self.lagging):
            if member.limit is None or member.first_pending or member.rest or member.pipe.has_unsent:
                continue
            try:
                self._transmit(member, [(member.cursor, bookmark(member.cursor))], member.cursor)
            except (OSError, trio.ClosedResourceError) as error:
                self._remove_failed(member, error)
        self.wake_waiting()


# Seconds between bookmarks: well within the shortest sensible watch history, so that a client that resumes from a
# bookmark finds the events after it.
BOOKMARK_INTERVAL = 60.0


# Sweepers woken at once: one or two milliseconds of sweeps with a few members each.
WAKE_AT_ONCE, MOST_AT_ONCE = 16, 256


class Sweeper:
    """The task that sweeps a group: commits wake it, and a timer if clients asked for bookmarks.

    The hub starts one for the first watcher of a group and cancels it when the last one leaves. An exception in a
    sweep ends only the watches of that group, each with an ERROR event.
    """

    __slots__ = ("_dirty", "_due", "_framing", "_scope", "group", "interest", "mark_dirty", "queued")

    def __init__(self, group: Group, interest: Interest, framing: Framing) -> None:
        self.group = group
        self.interest = interest
        self._framing = framing
        self._dirty = trio.Event()
        self._due = trio.current_time() + BOOKMARK_INTERVAL
        self._scope = trio.CancelScope()
        self.queued = False  # it is queued in `Wakeups`
        self.mark_dirty = group.mark_dirty

    def wake(self) -> None:
        """Sweep what was committed since the group became idle."""
        self.queued = False
        self._dirty.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            try:
                while True:
                    await self._wait_for_work()
                    await self._catch_up()
            except TooOld:
                self.group.remove_all(EndReason.TOO_OLD)
            except ConversionFailed as error:
                self.group.remove_all(EndReason.FAILED, error)
            except Exception:
                logger.exception("the sweep of %s failed; its watches end", self.interest.key)
                self.group.remove_all(EndReason.FAILED)

    async def _wait_for_work(self) -> None:
        if self.interest.bookmark is None:
            await self._dirty.wait()
        else:
            with trio.move_on_at(self._due):
                await self._dirty.wait()
        self._dirty = trio.Event()

    async def _catch_up(self) -> None:
        while not self.group.idle:
            await self.group.step()
            await self._bookmark_when_due()
            if not self.group.idle:
                await trio.lowlevel.checkpoint()
        await self._bookmark_when_due()

    async def _bookmark_when_due(self) -> None:
        mark = self.interest.bookmark
        if mark is None or trio.current_time() < self._due:
            return
        self._due = trio.current_time() + BOOKMARK_INTERVAL
        self.group.update_head()
        head = self.group.head
        frame = self._framing(mark(head))
        await self.group.offer([(head, frame)], frame)
        if self.group.lagging:
            self.group.bookmark_held(lambda version: self._framing(mark(version)))


class Wakeups:
    """Wakes sweepers, a few at a time if there are many.

    trio runs all ready tasks before it polls sockets again: five thousand sweeps would delay everything else until
    the last of them has ended. How many are woken at once depends on how long the last ones took.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._waiting: deque[Sweeper] = deque()

    def wake(self, sweepers: Collection[Sweeper]) -> None:
        if not self._waiting and len(sweepers) <= WAKE_AT_ONCE:
            for sweeper in sweepers:
                sweeper.wake()
            return
        running = bool(self._waiting)
        for sweeper in sweepers:
            if not sweeper.queued:
                sweeper.queued = True
                self._waiting.append(sweeper)
        if not running and self._waiting:
            self._nursery.start_soon(self._wake_waiting)

    async def _wake_waiting(self) -> None:
        count = WAKE_AT_ONCE
        while self._waiting:
            turn = Turn()
            for _ in range(min(count, len(self._waiting))):
                self._waiting.popleft().wake()
            await trio.lowlevel.checkpoint()
            count = max(1, count // 2) if turn.over() else min(MOST_AT_ONCE, count * 2)
