"""A token bucket: how long the next batch has to wait, so that at most `rate` batches a second are sent."""

from __future__ import annotations


class Throttle:
    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._last: float | None = None

    def delay(self, now: float) -> float:
        """Take a token; return the seconds until it exists."""
        if self._last is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
        self._last = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)
