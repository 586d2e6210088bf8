"""Watchers who ask for the same bytes. Events are filtered, encoded and framed once for all of them.

`sweeping` members have everything up to `swept`. With every step the group's task offers each of them the same
bytes in one non-blocking call; several events travel in one call when they came together. A member whose socket
cannot take them all leaves the sweep: it keeps a cursor and at most the rest of one (shared) frame, catches up in
a task of its own when its socket can take more, and rejoins. Nothing is buffered for it and it is never
dropped, unless the watch history passes its cursor.

A group at rest has swept all that concerns it; its `head` is then brought up to date by whoever needs it to be.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

import trio

from gateway.requests.request import Ending
from gateway.watch.backlog import Backlog
from gateway.watch.changes import Change, TooOld
from gateway.watch.frames import ROUND_BYTES, Frame, KeptFrames, joined, note_sent, rounds
from gateway.watch.framing import Framing
from gateway.watch.interest import Interest
from gateway.watch.member import Member, Pipe
from gateway.watch.topic import Topic
from gateway.watch.volley import Volley

logger = logging.getLogger(__name__)

# Members served between two turns of the event loop: two milliseconds of sends, or three with encryption.
TURN = 256
TURN_BYTES = 2 << 20
SMALLEST_TURN = 8
# What a step over events that are not shown counts for, in bytes: a group that sees little must not take for ever.
SILENCE = 16 << 10
_NOBODY: frozenset[Pipe] = frozenset()


class Surroundings(Protocol):
    """What a group knows of the hub."""

    nursery: trio.Nursery

    def newest(self) -> int:
        """The offset of the newest commit."""

    def floor(self) -> int:
        """Where the watch history begins."""

    def groups(self) -> int:
        """How many groups there are."""


class Group:
    def __init__(
        self, interest: Interest, framing: Framing, volley: Volley, topic: Topic[Any], hub: Surroundings
    ) -> None:
        self._selection = interest.selection
        self._present = interest.present
        self._first = interest.first or interest.present
        self._framing = framing
        self._volley = volley
        self._changes = topic.changes
        self._tally = topic.tally
        self._hub = hub
        self.resting = True
        self.head = hub.newest()  # where the round under way leads to
        self.swept = self.head  # what every sweeping member has
        # By their connections: an event that all of them take is sent without a look at a single member.
        self.sweeping: dict[Pipe, Member] = {}
        self.lagging: set[Member] = set()
        self._kept = KeptFrames(self.head, hub.groups)
        self._backlog = Backlog(topic.changes, self._framed, hub.groups)
        # Connections that a round has not come to yet: a list and where to begin, made a set if anybody asks.
        self._unserved: tuple[list[Pipe], int] | frozenset[Pipe] = _NOBODY
        self._departures = 0
        self._moved = trio.lowlevel.ParkingLot()

    @property
    def empty(self) -> bool:
        return not self.sweeping and not self.lagging

    # Members.

    def join(self, member: Member) -> None:
        """Take in a member at its cursor: into the sweep if it has everything, else to catch up first.

        TooOld: the watch history has passed it already. OSError: it is gone.
        """
        self.freshen()
        if member.cursor < self.head and not member.pipe.clogged:
            self._send_some(member)
        in_step = member.cursor == self.head and member.rest is None and not member.pipe.clogged
        if in_step and not member.fresh:
            self.sweeping[member.pipe] = member
        else:
            self._lag(member)

    def leave(self, member: Member) -> None:
        member.ended = True
        if self.sweeping.get(member.pipe) is member:  # the next watch of a connection has the same pipe
            del self.sweeping[member.pipe]
            self._departures += 1
        if member in self.lagging:
            self.lagging.discard(member)
            self.nudge()

    def dismiss(self, member: Member, fate: Ending | None = None) -> None:
        """Let a member go for a reason of its group's, or because it is gone; its own task does the rest."""
        self.leave(member)
        member.fate = fate
        if fate is Ending.TOO_OLD:
            self._tally.expired += 1
        member.pipe.interrupt()

    def dismiss_all(self, fate: Ending) -> None:
        for member in [*self.sweeping.values(), *self.lagging]:
            self.dismiss(member, fate)
        self.nudge()

    def nudge(self) -> None:
        """Those who wait for the sweep look about them: the time of one of them may be over."""
        self._moved.unpark_all()

    async def rested(self) -> None:
        """Wait until every member that sweeps has all that was committed."""
        while not self.resting and not self.empty:
            await self._moved.park()

    def reached(self, member: Member) -> int:
        """How far a member has been served, also in the middle of a sweep."""
        if member.pipe not in self.sweeping:
            return member.cursor
        if isinstance(self._unserved, tuple):
            pipes, first = self._unserved
            self._unserved = frozenset(pipes[first:])
        if member.pipe in self._unserved:
            return self.swept
        self.freshen()
        return self.head

    # The sweep.

    def freshen(self) -> None:
        """At rest, nothing has happened here up to the newest commit."""
        if self.resting:
            self.head = self.swept = self._hub.newest()

    def disturb(self, before: int) -> None:
        """A commit concerns this group; nothing up to `before`, if it was at rest, did."""
        if self.resting:
            self.resting = False
            self.head = self.swept = before

    async def step(self) -> None:
        """Bring everybody who sweeps some changes further; at rest when there are no more."""
        reached = self._hub.newest()
        if self.sweeping or len(self.lagging) > 1:
            changes, reached = self._changes.after(self.head, reached)
            for part in rounds(self._framed(changes)):
                await self._sweep(part)
        else:
            # One who lags alone frames for itself what it can take, if it ever can.
            self._kept.forget(reached)
        self._move_to(reached)
        self.swept = reached
        self.resting = reached == self._hub.newest()

    def _framed(self, changes: list[Change], *, first: bool = False) -> list[Frame]:
        frames: list[Frame] = []
        present = self._first if first else self._present
        for change in changes:
            shown = self._selection.show(change)
            if shown is not None:
                frames.append((change.event.offset, self._framing(present(*shown))))
                present = self._present
        self._tally.frames += len(frames)
        return frames

    async def _sweep(self, frames: list[Frame]) -> None:
        """One round. Whoever joins from here on has these frames already, or is behind."""
        self._kept.add(frames)
        self._move_to(frames[-1][0])
        await self.offer(frames)
        self.swept = self.head

    def _move_to(self, head: int) -> None:
        self.head = head
        self._moved.unpark_all()

    async def offer(self, frames: list[Frame]) -> None:
        """The same bytes to every member that has all up to `swept`, in one call each."""
        data = joined(frames)
        pipes = list(self.sweeping)
        departures = self._departures
        length = max(SMALLEST_TURN, min(TURN, TURN_BYTES // len(data)))
        for first in range(0, len(pipes), length):
            turn = pipes[first : first + length]
            if first:
                self._unserved = pipes, first
                await trio.lowlevel.checkpoint()
                if self._departures != departures:
                    turn = [pipe for pipe in turn if pipe in self.sweeping]
            missed = self._volley(turn, data)
            self._tally.deliveries += (len(turn) - len(missed)) * len(frames)
            for pipe, taken in missed:
                self._miss(self.sweeping[pipe], frames, taken)
        self._unserved = _NOBODY

    def _miss(self, member: Member, frames: list[Frame], taken: int | Exception) -> None:
        if isinstance(taken, Exception):
            self._lose(member, taken)
        else:
            self._fall_behind(member, frames, taken)

    def _lose(self, member: Member, error: Exception) -> None:
        if isinstance(error, OSError | trio.ClosedResourceError):
            self.dismiss(member)
        else:
            logger.error("a watcher failed", exc_info=error)
            self.dismiss(member, Ending.FAILED)

    def _fall_behind(self, member: Member, frames: list[Frame], sent: int) -> None:
        del self.sweeping[member.pipe]
        member.cursor = self.swept
        self._tally.deliveries += note_sent(member, frames, abs(sent))
        self._tally.lagged += 1
        self._lag(member)

    # Catching up.

    def _lag(self, member: Member) -> None:
        self.lagging.add(member)
        self._hub.nursery.start_soon(self._rejoin, member)

    async def _rejoin(self, member: Member) -> None:
        try:
            await self._catch_up(member)
        except TooOld:
            self.dismiss(member, Ending.TOO_OLD)
        except Exception as error:
            self._lose(member, error)
        finally:
            self.lagging.discard(member)
            if member.settled is not None:
                member.settled.set()

    async def _catch_up(self, member: Member) -> None:
        """Serve a member alone until it has everything, then let it sweep with the others."""
        while not member.ended:
            await member.pipe.flush()
            if member.pipe.clogged or not self._send_rest(member):
                member.insist()
            elif member.over():
                return
            elif member.cursor > self.head:
                await self._moved.park()  # it came from further ahead than the sweep under way has got
            elif member.cursor == self.head:
                if not member.fresh:
                    self.sweeping[member.pipe] = member
                    return
                await self._moved.park()  # its first event is its own: it is not swept to it
            else:
                self._send_some(member)

    def _send_rest(self, member: Member) -> bool:
        rest = member.rest
        if rest is None:
            return True
        sent = member.pipe.transmit(rest)
        if abs(sent) < len(rest):
            member.rest = rest[abs(sent) :]
            return False
        member.rest = None
        self._tally.deliveries += 1
        return sent > 0

    def _send_some(self, member: Member) -> None:
        """As much as a round holds, or as the connection takes."""
        left = ROUND_BYTES
        while left > 0 and member.cursor < self.head:
            frames, reached = self._frames_after(member.cursor, first=member.fresh)
            data = joined(frames) if frames else b""
            sent = member.pipe.transmit(data) if data else 0
            self._tally.deliveries += note_sent(member, frames, abs(sent))
            if abs(sent) == len(data):
                member.cursor = reached
            if sent != len(data):
                return
            left -= max(len(data), SILENCE)

    def _frames_after(self, cursor: int, *, first: bool) -> tuple[list[Frame], int]:
        """Some frames behind a cursor, and the offset that they bring a watcher to."""
        if cursor >= self._kept.floor and not first:
            return self._kept.after(cursor, self.head)
        if cursor < self._hub.floor():
            raise TooOld
        if not first:
            return self._backlog.after(cursor, self.head)
        changes, reached = self._changes.after(cursor, self.head, ROUND_BYTES)
        return self._framed(changes, first=True), reached
