"""Counts events that a backend lost, and logs them at a bounded rate."""

from __future__ import annotations

import logging
import time
from threading import Lock

logger = logging.getLogger(__name__)

_PERIOD = 10.0  # seconds between two lines about one backend


class Losses:
    """Used by the event loop and by threads."""

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
