"""The time limits of calls that are in progress over pooled connections, or wait for others.

A cancel scope with a deadline costs as much as the rest of such a call. Here a call adds its stream with its deadline
to a dictionary, and one task for all calls expires the streams whose time is over. The task exists while calls are in
progress, and sleeps until the next deadline, even if that call has ended in the meantime.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

import trio


class TooSlow(Exception):
    """The time of a call is over."""


class Expires(Protocol):
    def expire(self) -> None:
        """Make pending and later waits fail with TooSlow."""


class Deadlines:
    __slots__ = ("_due", "_sleeping")

    def __init__(self) -> None:
        self._due: dict[Expires, float] = {}
        self._sleeping: trio.CancelScope | None = None  # of the task, if there is one

    def add(self, stream: Expires, deadline: float) -> None:
        if deadline == inf:
            return
        self._due[stream] = deadline
        if self._sleeping is None:
            self._sleeping = trio.CancelScope(deadline=deadline)
            trio.lowlevel.spawn_system_task(self._expire_streams)
        elif deadline < self._sleeping.deadline:
            self._sleeping.deadline = deadline

    def remove(self, stream: Expires) -> None:
        self._due.pop(stream, None)

    async def _expire_streams(self) -> None:
        try:
            while self._sleeping is not None:
                with self._sleeping:
                    await trio.sleep_forever()
                self._expire(trio.current_time())
                self._sleeping = trio.CancelScope(deadline=min(self._due.values())) if self._due else None
        finally:
            self._sleeping = None

    def _expire(self, now: float) -> None:
        for stream in [stream for stream, deadline in self._due.items() if deadline <= now]:
            if (
                self._due.get(stream, inf) <= now
            ):  # otherwise the end of another one has removed or extended it
                del self._due[stream]
                stream.expire()
