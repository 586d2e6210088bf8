"""Time as the project sees it: microseconds since 1970, from something that tests can hold still."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int: ...


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000
