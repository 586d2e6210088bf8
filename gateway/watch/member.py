"""A watcher: a connection, how far it has been served, and the rest of a frame that did not fit; no queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

# How long a watcher that does not read may hold up the end of its own stream.
FAREWELL = 5.0


class Pipe(Protocol):
    """What a group needs of a connection; `gateway.link.Link` is one."""

    @property
    def clogged(self) -> bool:
        """Bytes that `transmit` took have not left yet."""

    def transmit(self, data: bytes | memoryview) -> int:
        """Send what fits, now, and say how much was taken; less than zero: taken, but not all has left."""

    async def flush(self) -> None:
        """Wait until what was taken has left and more fits, or for an interruption."""

    def interrupt(self) -> None:
        """Wake the task that waits on the connection."""


class Member:
    __slots__ = ("_closing", "cursor", "ended", "ends_at", "expired", "pipe", "rest", "settled")

    def __init__(self, pipe: Pipe, ends_at: float, closing: Callable[[], bool]) -> None:
        self.pipe = pipe
        self.ends_at = ends_at
        self._closing = closing  # the server stops
        self.cursor = 0  # everything up to this offset has been sent, but for `rest`
        self.rest: memoryview | None = None  # of the frame at the cursor; shared bytes, not a copy
        self.ended = False  # takes part in no more sweeps
        self.expired = False  # the watch history has passed its cursor
        self.settled: trio.Event | None = None  # set when a member that was behind has come to a frame's end

    def over(self) -> bool:
        """It should end, at the next frame's end."""
        return self.ended or self._closing() or trio.current_time() >= self.ends_at

    def insist(self) -> None:
        """Called while it cannot take more: one whose time is long over is cut off."""
        if self._closing() and self.ends_at > trio.current_time():
            self.ends_at = trio.current_time()
        if trio.current_time() >= self.ends_at + FAREWELL:
            raise ConnectionResetError("the watcher did not read to the end of an event")
