"""Watchers who ask for the same bytes. Events are filtered, encoded and framed once for all of them.

`sweeping` members have everything up to `head`. With every advance the group's task offers each of them the same
bytes in one non-blocking call; several events travel in one call when they came together. A member whose socket
cannot take them all leaves the sweep: it keeps a cursor and at most the rest of one (shared) frame, catches up
from the changes in its own task when its socket can take more, and rejoins. Nothing is buffered for it and it is
never dropped, unless the watch history passes its cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from gateway.watch.changes import Change, Changes
from gateway.watch.framing import Framing
from gateway.watch.member import Member
from gateway.watch.selection import Selection

# Members served between two turns of the event loop: about two milliseconds of sends.
TURN = 256
# Events looked at in one step, and bytes offered in one call: a burst is swept in several rounds of this size.
STEP = 512
ROUND_BYTES = 256 << 10
# Frames kept for those who have just fallen behind.
KEPT_FRAMES = 1024
KEPT_FRAME_BYTES = 2 << 20

Frame = tuple[int, bytes]  # the offset it brings a watcher to, and its bytes


class TooOld(Exception):
    """The watch history has passed a member's cursor."""


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    sweeping: int
    lagging: int
    frames: int
    deliveries: int
    lagged: int


class Group:
    def __init__(
        self,
        selection: Selection,
        present: Callable[[str, bytes], bytes],
        framing: Framing,
        changes: Changes,
        floor: Callable[[], int],
    ) -> None:
        self._selection = selection
        self._present = present  # event type and stored bytes to the document
        self._framing = framing
        self._changes = changes
        self._floor = floor
        self.head = changes.head
        self.swept = self.head  # what every sweeping member has, also in the middle of a sweep
        self.sweeping: dict[Member, None] = {}
        self.lagging: set[Member] = set()
        self._frames: deque[Frame] = deque()
        self._frame_bytes = 0
        self._frames_floor = self.head
        self._moved = trio.lowlevel.ParkingLot()
        self._made = self._delivered = self._lagged = 0

    @property
    def empty(self) -> bool:
        return not self.sweeping and not self.lagging

    def statistics(self) -> GroupStatistics:
        return GroupStatistics(
            len(self.sweeping), len(self.lagging), self._made, self._delivered, self._lagged
        )

    def frame(self, kind: str, body: bytes) -> bytes:
        return self._framing(self._present(kind, body))

    # The sweep.

    async def advance(self, nursery: trio.Nursery) -> None:
        """Bring everybody who sweeps to the newest change."""
        while self.head < self._changes.head:
            changes, reached = self._changes.after(self.head, STEP)
            frames = self._framed(changes)
            self._made += len(frames)
            for part in _rounds(frames):
                await self._sweep(part, nursery)
            self._move_to(reached)
            self.swept = reached

    def _framed(self, changes: list[Change]) -> list[Frame]:
        frames: list[Frame] = []
        for change in changes:
            shown = self._selection.show(change)
            if shown is not None:
                frames.append((change.event.offset, self.frame(*shown)))
        return frames

    async def _sweep(self, frames: list[Frame], nursery: trio.Nursery) -> None:
        """One round. Whoever joins from here on has these frames already."""
        before = self.head
        self._keep(frames)
        self._move_to(frames[-1][0])
        await self.offer(frames, before, nursery)
        self.swept = self.head

    def _move_to(self, head: int) -> None:
        self.head = head
        self._moved.unpark_all()

    async def offer(self, frames: list[Frame], before: int, nursery: trio.Nursery) -> None:
        """The same bytes to every member that has all up to `before`, in one call each."""
        data = b"".join([frame for _, frame in frames])
        size = len(data)
        members = list(self.sweeping)
        for first in range(0, len(members), TURN):
            if first:
                await trio.lowlevel.checkpoint()
            for member in members[first : first + TURN]:
                if member.ended:
                    continue
                try:
                    sent = member.pipe.transmit(data)
                except OSError:
                    self.leave(member)
                    member.pipe.interrupt()
                    continue
                if sent != size:
                    member.cursor = before
                    self._fall_behind(member, frames, sent, nursery)
        self._delivered += len(members) * len(frames)

    def _fall_behind(self, member: Member, frames: list[Frame], sent: int, nursery: trio.Nursery) -> None:
        del self.sweeping[member]
        self.lagging.add(member)
        self._lagged += 1
        note_sent(member, frames, abs(sent))
        nursery.start_soon(self._rejoin, member)

    async def _rejoin(self, member: Member) -> None:
        try:
            await self.catch_up(member)
        except TooOld:
            member.expired = True
            self.leave(member)
            member.pipe.interrupt()
        except (OSError, trio.ClosedResourceError):
            self.leave(member)
            member.pipe.interrupt()
        finally:
            if member.settled is not None:
                member.settled.set()

    # Catching up.

    async def catch_up(self, member: Member) -> None:
        """Serve a member alone until it has everything, then let it sweep with the others."""
        self.lagging.add(member)
        while True:
            await member.pipe.flush()
            if member.pipe.clogged or (member.rest is not None and not self._send_rest(member)):
                member.insist()
                continue
            if member.over():
                self.lagging.discard(member)
                return
            if member.cursor > self.head:
                await self.moved(member.cursor - 1)
            if member.cursor == self.head:
                self.lagging.discard(member)
                if not member.ended:
                    self.sweeping[member] = None
                return
            self._send_some(member)

    @staticmethod
    def _send_rest(member: Member) -> bool:
        assert member.rest is not None
        size = len(member.rest)
        sent = member.pipe.transmit(member.rest)
        member.rest = member.rest[abs(sent) :] if abs(sent) < size else None
        return sent == size

    def _send_some(self, member: Member) -> None:
        frames, reached = self.frames_after(member.cursor)
        if not frames:
            member.cursor = reached
            return
        data = b"".join([frame for _, frame in frames])
        sent = member.pipe.transmit(data)
        note_sent(member, frames, abs(sent))
        if sent == len(data):
            member.cursor = reached

    def frames_after(self, cursor: int) -> tuple[list[Frame], int]:
        """Some frames behind a cursor, and the offset that they bring a watcher to."""
        if cursor >= self._frames_floor:
            kept = [frame for frame in self._frames if frame[0] > cursor]
            return _first_round(kept, self.head)
        if cursor < self._floor():
            raise TooOld
        changes, reached = self._changes.after(cursor, STEP)
        swept = [change for change in changes if change.event.offset <= self.head]
        return _first_round(self._framed(swept), min(reached, self.head))

    async def moved(self, cursor: int) -> None:
        """Wait until the group is past a cursor."""
        while self.head <= cursor:
            await self._moved.park()

    def leave(self, member: Member) -> None:
        member.ended = True
        self.sweeping.pop(member, None)
        self.lagging.discard(member)

    def _keep(self, frames: list[Frame]) -> None:
        self._frames.extend(frames)
        self._frame_bytes += sum(len(frame) for _, frame in frames)
        while len(self._frames) > KEPT_FRAMES or self._frame_bytes > KEPT_FRAME_BYTES:
            offset, frame = self._frames.popleft()
            self._frames_floor = offset
            self._frame_bytes -= len(frame)


def note_sent(member: Member, frames: list[Frame], sent: int) -> None:
    """Move a cursor over the frames that were taken whole; keep the rest of the one that was not."""
    for offset, frame in frames:
        if sent < len(frame):
            if sent:
                member.cursor = offset
                member.rest = memoryview(frame)[sent:]
            return
        sent -= len(frame)
        member.cursor = offset


def _rounds(frames: list[Frame]) -> list[list[Frame]]:
    rounds: list[list[Frame]] = []
    size = ROUND_BYTES
    for frame in frames:
        if size + len(frame[1]) > ROUND_BYTES:
            rounds.append([])
            size = 0
        rounds[-1].append(frame)
        size += len(frame[1])
    return rounds


def _first_round(frames: list[Frame], reached: int) -> tuple[list[Frame], int]:
    rounds = _rounds(frames)
    if len(rounds) <= 1:
        return frames, reached
    return rounds[0], rounds[0][-1][0]
