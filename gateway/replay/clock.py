"""The time of a replay: that of the recording at the present moment."""

from __future__ import annotations


class ReplayClock:
    """Stands still unless the player moves it, so that ages and times are those of the recorded moment."""

    def __init__(self, time: int = 0) -> None:
        self.time = time  # microseconds since 1970

    def now(self) -> int:
        return self.time
