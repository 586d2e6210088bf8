"""A watcher: a connection, how far it has been served, and the rest of a frame that did not fit; no queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import trio

from gateway.requests.request import Ending
from gateway.watch.volley import Missed

# How long a watcher that does not read may hold up the end of its own stream.
FAREWELL = 5.0


class Pipe(Protocol):
    """What a watch needs of a connection; `gateway.connections.link.Link` is one."""

    deadline: float  # when to interrupt by itself, again and again from then on

    @property
    def clogged(self) -> bool:
        """Bytes that `transmit` took have not left yet."""

    def transmit(self, data: bytes | memoryview) -> int:
        """Send what fits, now, and say how much was taken; less than zero: taken, but not all has left."""

    @staticmethod
    def volley(pipes: Sequence[Any], data: bytes) -> Missed:
        """The same to many pipes of this kind: those that did not take all, with what `transmit` would say."""

    async def flush(self) -> None:
        """Wait until what was taken has left and more fits, or for an interruption. One task at a time."""

    async def receive(self) -> bytes:
        """The client's next bytes; none at its end; ClosedResourceError when interrupted."""

    def interrupt(self) -> None:
        """Wake the tasks that wait on the connection."""


class House(Protocol):
    """What a member knows of the hub."""

    closing: bool


class Member:
    __slots__ = (
        "_house",
        "cursor",
        "ended",
        "ends_at",
        "fate",
        "fresh",
        "pipe",
        "rest",
        "settled",
    )

    def __init__(self, pipe: Pipe, ends_at: float, house: House, *, fresh: bool = False) -> None:
        self.pipe = pipe
        self.ends_at = ends_at
        self._house = house
        self.cursor = 0  # everything up to this offset has been sent, but for `rest`
        self.rest: memoryview | None = None  # of the frame at the cursor; shared bytes, not a copy
        self.fresh = fresh  # its first event has another form than all others, and has not been sent
        self.ended = False  # takes part in no more sweeps
        self.fate: Ending | None = None  # why its group dismissed it
        self.settled: trio.Event | None = None  # set when a member that was behind has come to a frame's end
        pipe.deadline = ends_at

    def over(self) -> bool:
        """It should end, at the next frame's end."""
        return self.ended or self._house.closing or trio.current_time() >= self.ends_at

    def end(self) -> None:
        """Its time is over now, whatever the client asked for."""
        self.ends_at = self.pipe.deadline = trio.current_time()
        self.pipe.interrupt()

    def insist(self) -> None:
        """Called while it cannot take more: one whose time is long over is cut off."""
        now = trio.current_time()
        if self._house.closing and self.ends_at > now:
            self.ends_at = self.pipe.deadline = now
        if now >= self.ends_at + FAREWELL:
            raise ConnectionResetError("the watcher did not read to the end of an event")


async def push(member: Member, data: bytes) -> None:
    """All of it, however slow the client is, unless its time is long over."""
    pipe, left = member.pipe, memoryview(data)
    while left or pipe.clogged:
        taken = pipe.transmit(left) if left else 0
        left = left[abs(taken) :]
        if left or pipe.clogged:
            member.insist()
            await pipe.flush()
