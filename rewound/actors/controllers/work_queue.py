"""The work queue of a controller: keys to reconcile, each at most once, ready now or due later.

The feed's callback adds keys, the loop takes them. A key that is added while it is being reconciled becomes ready again
afterwards, so the queue misses no change and never hands out a key twice at a time. A failed key becomes ready after a
pause that doubles with every failure up to a limit; `add` makes it ready at once.

Namespaces take turns: the next key is the first one of the namespace that has waited longest, and namespaces of which
no key is being reconciled come first. Within a namespace keys keep their order. So however many keys one namespace has,
and however long each takes, another one waits for a single key at most (`Loop` keeps some tasks for it).

The number of objects that need work bounds the queue, because it holds a key once. A limit would have to drop keys, and
the object of a dropped key would not be reconciled until the next start.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import msgspec
import trio

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 60.0
# Outdated entries of the schedule that may stay, besides as many as there are due keys.
_FEW_OUTDATED: Final = 64

K = TypeVar("K", bound=Hashable)


def namespace_before_name(key: Hashable) -> Hashable:
    """The namespace of keys that end with namespace and name. All keys that are not tuples count as one namespace."""
    return key[-2] if isinstance(key, tuple) and len(key) > 1 else ""


class WorkQueueStatistics(msgspec.Struct, frozen=True):
    ready: int
    active: int
    delayed: int
    taken: int
    failures: int


class WorkQueue(Generic[K]):
    def __init__(
        self,
        first_pause: float = FIRST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
        namespace_of: Callable[[K], Hashable] = namespace_before_name,
    ) -> None:
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self.namespace_of = namespace_of
        # The keys of each namespace in order of arrival, by whether keys of it are being reconciled (`_active_in`). A
        # plain dict would skip over all removed entries to find its first key.
        self._idle: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()
        self._busy: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()
        self._ready = 0
        self._active: dict[K, bool] = {}  # True: added again in the meantime
        self._active_in: dict[Hashable, int] = {}
        self._due: dict[K, float] = {}
        # May contain outdated entries, which differ from `_due`. The number avoids a comparison of keys.
        self._schedule: list[tuple[float, int, K]] = []
        self._failed: dict[K, int] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self._scheduled = self._taken = self._failures = 0

    def add(self, key: K) -> None:
        """Make the key ready now, or after `done` if it is being reconciled."""
        if key in self._active:
            self._active[key] = True
            return
        self._due.pop(key, None)
        namespace = self.namespace_of(key)
        keys = self._of_namespace(namespace).setdefault(namespace, OrderedDict())
        if key not in keys:
            keys[key] = None
            self._ready += 1
        self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Make the key ready after this time, unless it is ready or due sooner."""
        due = trio.current_time() + seconds
        if self._is_ready(key) or self._due.get(key, due + 1) <= due:
            return
        is_first = not self._schedule or due < self._schedule[0][0]
        self._due[key] = due
        self._scheduled += 1
        heapq.heappush(self._schedule, (due, self._scheduled, key))
        if len(self._schedule) > 2 * len(self._due) + _FEW_OUTDATED:
            self._schedule = [one for one in self._schedule if self._due.get(one[2]) == one[0]]
            heapq.heapify(self._schedule)
        if is_first:
            self._wake()

    async def take(self, shared: int | None = None) -> K:
        """The next ready key; it stays active until `done` or `retry`.

        While `shared` keys are active, wait for one of a namespace without an active key.
        """
        while True:
            self._make_due_keys_ready()
            if self._idle or (self._busy and (shared is None or len(self._active) < shared)):
                return self._next()
            with trio.move_on_at(self._schedule[0][0] if self._schedule else float("inf")):
                await self._changed.park()

    def done(self, key: K) -> None:
        self._failed.pop(key, None)
        self._release(key)

    def retry(self, key: K) -> float:
        """Schedule a key that failed; returns the pause."""
        failed = self._failed.get(key, 0)
        self._failed[key] = failed + 1
        self._failures += 1
        # Limit the exponent before taking the power: failures may continue for years.
        pause: float = min(self._first_pause * 2 ** min(failed, 32), self._longest_pause)
        if not self._release(key):
            self.add_after(key, pause)
        return pause

    def requeue_active(self) -> None:
        """Make the keys ready again that were active when the loop crashed."""
        for key in tuple(self._active):
            self._active[key] = True
            self._release(key)

    def is_overdue(self) -> bool:
        """Whether the time of a key has come that is not ready yet, because `take` has not continued since."""
        return bool(self._schedule) and self._schedule[0][0] <= trio.current_time()

    def statistics(self) -> WorkQueueStatistics:
        return WorkQueueStatistics(
            self._ready, len(self._active), len(self._due), self._taken, self._failures
        )

    def _wake(self) -> None:
        if self._changed:  # mostly nobody waits
            self._changed.unpark_all()

    def _of_namespace(self, namespace: Hashable) -> OrderedDict[Hashable, OrderedDict[K, None]]:
        return self._busy if namespace in self._active_in else self._idle

    def _is_ready(self, key: K) -> bool:
        namespace = self.namespace_of(key)
        return key in self._of_namespace(namespace).get(namespace, ())

    def _next(self) -> K:
        namespace, keys = (self._idle or self._busy).popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self._busy[namespace] = keys  # behind the other namespaces
        self._active[key] = False
        self._active_in[namespace] = self._active_in.get(namespace, 0) + 1
        self._ready -= 1
        self._taken += 1
        return key

    def _release(self, key: K) -> bool:
        """End the key's active state; returns whether it is ready again, because it was added meanwhile."""
        again = self._active.pop(key)
        namespace = self.namespace_of(key)
        self._active_in[namespace] -= 1
        if not self._active_in[namespace]:
            del self._active_in[namespace]
            if keys := self._busy.pop(namespace, None):
                self._idle[namespace] = keys
        self._wake()
        if again:
            self.add(key)
        return again

    def _make_due_keys_ready(self) -> None:
        now = trio.current_time()
        while self._schedule and self._schedule[0][0] <= now:
            due, _, key = heapq.heappop(self._schedule)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
