"""Watches that break: cut after some events, or refused because their version is too old.

Each wraps an ordinary `Watch`. A cut watch has a framing of its own, and therefore a group of its own: the framing sees
every event once, counts them, and drops those after the cut. All transports work the same.
"""

from __future__ import annotations

from gateway.message import EndReason, Finished
from gateway.watch.framing import Framing
from gateway.watch.member import Pipe
from gateway.watch.watch import Watch

# The type of an event is in its first bytes, in JSON and in protobuf.
_TYPE_BYTES = 20
_AT_ONCE = Finished(EndReason.TIME_UP)


class CutWatch:
    """Ends its watch after a number of events; bookmarks do not count, because they depend on time."""

    def __init__(self, watch: Watch, events: int, end: str) -> None:
        self._watch = watch
        self._left = events
        self._end = end  # clean, reset or truncated
        self._over = events == 0 and end != "truncated"  # at once: it does not even start

    @property
    def binary(self) -> bool:
        return self._watch.binary

    async def run(self, connection: Pipe, framing: Framing) -> Finished:
        if self._over:
            return self._ended(_AT_ONCE)
        return self._ended(await self._watch.run(connection, self._counting(framing)))

    async def start(self, connection: Pipe, framing: Framing) -> Finished | None:
        if self._over:
            return self._ended(_AT_ONCE)
        finished = await self._watch.start(connection, self._counting(framing))
        return None if finished is None else self._ended(finished)

    def should_end(self) -> bool:
        return self._watch.should_end()

    async def end(self) -> Finished:
        return self._ended(await self._watch.end())

    def leave(self) -> None:
        self._watch.leave()

    def _ended(self, finished: Finished) -> Finished:
        """OSError if the watch is to end without the end of its stream."""
        if self._over and self._end != "clean":
            raise ConnectionResetError("a fault rule cut this watch")
        return finished

    def _counting(self, framing: Framing) -> Framing:
        def frame(payload: bytes) -> bytes:
            kind = payload[:_TYPE_BYTES]
            if b"ERROR" in kind:
                return framing(payload)
            if self._over:
                return b""
            if b"BOOKMARK" in kind:
                return framing(payload)
            return self._next(framing(payload))

        return frame

    def _next(self, framed: bytes) -> bytes:
        self._left -= 1
        if self._left > 0 or (self._left == 0 and self._end == "truncated"):
            return framed
        self._over = True
        self._watch.end_early()
        if self._left == 0:
            return framed
        return framed[: len(framed) // 2] if self._end == "truncated" else b""


class ExpiredWatch:
    """Sends the ERROR event of a version that is too old, and nothing else."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    @property
    def binary(self) -> bool:
        return self._watch.binary

    async def run(self, connection: Pipe, framing: Framing) -> Finished:
        return await self._watch.expire(connection, framing)

    async def start(self, connection: Pipe, framing: Framing) -> Finished | None:
        return await self._watch.expire(connection, framing)

    def should_end(self) -> bool:
        return self._watch.should_end()

    async def end(self) -> Finished:
        return await self._watch.end()

    def leave(self) -> None:
        self._watch.leave()
