"""When a signal goes off during traffic: at a passage that a seed has chosen.

Every client passes twice per request, when it is sent and when it is answered, so a signal catches the others
at whatever they are waiting for. Counting passages instead of time makes a seed mean the same moment on a fast
machine and on a slow one, as far as an operating system allows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

Strike = tuple[int, int]  # passage, signal


class Fuse:
    def __init__(self, strikes: Sequence[Strike], signal: Callable[[int], None]) -> None:
        self._left = sorted(strikes)
        self._signal = signal
        self._passages = 0
        self._lock = threading.Lock()

    def passage(self) -> None:
        with self._lock:
            self._passages += 1
            while self._left and self._left[0][0] <= self._passages:
                self._signal(self._left.pop(0)[1])
