"""The limits of both backends: how much they queue, how fast they send (`Throttle`), and what they lost (`Losses`)."""

from __future__ import annotations

import logging
import time
from threading import Lock

logger = logging.getLogger(__name__)

# Bodies are held until they are written; an event at level Metadata is counted as about 2 KiB.
MAX_QUEUED_BYTES = 64 << 20
# How long a stopping server waits for what is queued.
FLUSH_SECONDS = 10.0
_PERIOD = 10.0  # seconds between two log lines about one backend


class Losses:
    """Counts events that a backend lost, and logs them at a limited rate. Used by the event loop and by threads."""

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.count = 0
        self._unlogged = 0
        self._next_line = 0.0
        self._lock = Lock()

    def add(self, count: int, why: str) -> None:
        with self._lock:
            self.count += count
            self._unlogged += count
            now = time.monotonic()
            if now < self._next_line:
                return
            self._next_line = now + _PERIOD
            lost, self._unlogged = self._unlogged, 0
        logger.error("audit: %d events were lost by the backend %s: %s", lost, self.plugin, why)


class Throttle:
    """A token bucket: how long the next batch must wait, so that at most `rate` batches per second are sent."""

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
