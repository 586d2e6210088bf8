"""The wall clock, in microseconds since 1970; tests replace it with a fixed one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int: ...


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000


def nanoseconds(clock: Clock) -> Callable[[], int]:
    """The time in nanoseconds since 1970. For the wall clock this calls no Python code."""
    return time.time_ns if isinstance(clock, WallClock) else lambda: clock.now() * 1000
