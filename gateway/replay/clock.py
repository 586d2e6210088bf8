"""The time of a replay: that of the recording at the present moment."""

from __future__ import annotations

import time


class ReplayClock:
    """Stands still unless the player moves it, so that ages and times are those of the recorded moment."""

    def __init__(self, time: int = 0) -> None:
        self.time = time  # microseconds since 1970

    def now(self) -> int:
        return self.time


class ForkClock:
    """The time of a copy that is written to: that of the fork, and from `start` on it passes at the replay's speed."""

    def __init__(self, moment: int) -> None:
        self._time = moment
        self._speed = 0.0
        self._since = time.monotonic()

    def now(self) -> int:
        return self._time + round((time.monotonic() - self._since) * self._speed * 1e6)

    def start(self, speed: float) -> None:
        self._speed, self._since = speed, time.monotonic()

    def advance_to(self, moment: int) -> None:
        """It is at least this time."""
        if moment > self.now():
            self._time, self._since = moment, time.monotonic()
