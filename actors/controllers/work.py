"""What a controller still has to look at: keys, each at most once, ready now or due later.

The feed's callback adds keys, the loop takes them. A key that is added while it is being worked on comes up
once more afterwards, so no change is ever missed and no key is ever worked on twice at a time. A key whose
work failed comes back after a pause that doubles with every failure up to a limit; anything new about it
brings it up at once.

Bounded by the number of objects that need attention, because a key is held once: a limit would have to drop
keys, and a dropped key is an object forgotten until the next start.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 60.0

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WorkStatistics:
    ready: int
    active: int
    later: int
    taken: int
    failures: int


class WorkQueue(Generic[K]):
    def __init__(self, first_pause: float = FIRST_PAUSE, longest_pause: float = LONGEST_PAUSE) -> None:
        self._first_pause, self._longest_pause = first_pause, longest_pause
        # In order of arrival. A plain dict would walk over all that was taken before to find its first key.
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._active: dict[K, bool] = {}  # True: added again meanwhile
        self._due: dict[K, float] = {}
        # May hold entries that `_due` no longer confirms. The number keeps keys from being compared.
        self._timetable: list[tuple[float, int, K]] = []
        self._failed: dict[K, int] = {}
        self._moved = trio.lowlevel.ParkingLot()
        self._scheduled = self._taken = self._failures = 0

    def add(self, key: K) -> None:
        """Have the key looked at as soon as possible."""
        if key in self._active:
            self._active[key] = True
            return
        self._due.pop(key, None)
        self._ready[key] = None
        self._moved.unpark_all()

    def add_after(self, key: K, seconds: float) -> None:
        """Have the key looked at within some time, together with what happens to it until then."""
        due = trio.current_time() + seconds
        if key in self._ready or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._scheduled += 1
        heapq.heappush(self._timetable, (due, self._scheduled, key))
        self._moved.unpark_all()

    async def take(self) -> K:
        """The next key; it stays taken until `done` or `retry`."""
        while True:
            self._bring_up_due()
            if self._ready:
                return self._next()
            with trio.move_on_at(self._timetable[0][0] if self._timetable else float("inf")):
                await self._moved.park()

    def done(self, key: K) -> None:
        self._failed.pop(key, None)
        self._release(key)

    def retry(self, key: K) -> float:
        """Put a key back whose work failed; answers the pause it was given."""
        failed = self._failed.get(key, 0)
        self._failed[key] = failed + 1
        self._failures += 1
        # The exponent is limited before the power is taken: failures may go on for years.
        pause: float = min(self._first_pause * 2 ** min(failed, 32), self._longest_pause)
        if not self._release(key):
            self.add_after(key, pause)
        return pause

    def recover(self) -> None:
        """Bring up again what was being worked on when the loop broke."""
        for key in tuple(self._active):
            self._active[key] = True
            self._release(key)

    def statistics(self) -> WorkStatistics:
        return WorkStatistics(
            len(self._ready), len(self._active), len(self._due), self._taken, self._failures
        )

    def _next(self) -> K:
        key, _ = self._ready.popitem(last=False)
        self._active[key] = False
        self._taken += 1
        return key

    def _release(self, key: K) -> bool:
        """Whether the key is ready again, because it was added while it was being worked on."""
        again = self._active.pop(key)
        if again:
            self.add(key)
        return again

    def _bring_up_due(self) -> None:
        now = trio.current_time()
        while self._timetable and self._timetable[0][0] <= now:
            due, _, key = heapq.heappop(self._timetable)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
