"""The wall clock, in microseconds since 1970; tests replace it with one that stands still."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int: ...


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000
