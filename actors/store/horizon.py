"""The oldest resourceVersion that watches, exact lists and continue tokens may use: the watch history, in offsets.

`floor()` is the newest version at the begin of the window. Requests for older versions get 410, even though the journal
may still have them for debugging.
"""

from __future__ import annotations

from actors.clock import Clock
from journal.log import Journal

# Finding the floor costs a binary search in the journal; a window of minutes does not need it fresher than this.
FRESH_FOR = 200_000  # microseconds


class Horizon:
    def __init__(self, journal: Journal, clock: Clock, window: int) -> None:
        self._journal = journal
        self._clock = clock
        self.window = window  # microseconds
        self._floor = 0
        self._found_at = -FRESH_FOR

    def floor(self) -> int:
        now = self._clock.now()
        if now - self._found_at >= min(FRESH_FOR, self.window // 10):
            with self._journal.read() as view:
                self._floor = max(self._floor, view.offset_at(now - self.window), view.floor)
            self._found_at = now
        return self._floor
