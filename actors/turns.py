"""Turns on the event loop: long work looks at the clock and runs a checkpoint after each turn.

Nothing may hold the loop for longer than five milliseconds. A turn is shorter, because work overruns it: it looks at
the clock only between steps.
"""

from __future__ import annotations

import time

TURN = 0.002  # seconds

now = time.perf_counter


class Turn:
    """A turn that begins when it is made, or several."""

    __slots__ = ("_end",)

    def __init__(self, count: int = 1) -> None:
        self._end = now() + count * TURN

    def over(self) -> bool:
        return now() >= self._end
