"""Sends signals to the server during traffic, at checkpoints that a seed has chosen.

Every client calls `checkpoint` twice per request: when it has sent it and when it has the response. So a signal
can arrive at any stage of the other clients' requests. Counting checkpoints instead of seconds makes a seed mean
about the same moment on a fast machine and on a slow one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

ScheduledSignal = tuple[int, int]  # checkpoint, signal


class SignalSchedule:
    def __init__(self, signals: Sequence[ScheduledSignal], signal: Callable[[int], None]) -> None:
        self._left = sorted(signals)
        self._signal = signal
        self._checkpoints = 0
        self._lock = threading.Lock()

    def checkpoint(self) -> None:
        with self._lock:
            self._checkpoints += 1
            while self._left and self._left[0][0] <= self._checkpoints:
                self._signal(self._left.pop(0)[1])
