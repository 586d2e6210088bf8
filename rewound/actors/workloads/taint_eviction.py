"""When the NoExecute taints of its node evict a pod, and for how long it may stay before. No I/O.

A pod that does not tolerate a taint is evicted at once. One that tolerates all of them for a limited time is evicted
after the shortest of these times, counted from when the taints were first seen on its node; it stays if they are
removed before. A scheduled eviction is not moved, and an executed one is not repeated while the taints are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from rewound.actors.messages import Object
from rewound.actors.selectors.nodes import NO_EXECUTE, tolerates
from rewound.actors.workloads.cache import Key, key_of

_DONE = -inf


def no_execute_taints(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == NO_EXECUTE]


def tolerated_seconds(taints: Sequence[Object], tolerations: Sequence[Object]) -> float | None:
    """How long a pod with these tolerations may stay, inf: forever; None if it does not tolerate all taints."""
    shortest = inf
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return None
        if (seconds := used.get("tolerationSeconds")) is not None:
            shortest = min(shortest, max(0, seconds))
    return shortest


class Evictions:
    """The pods to evict, and when."""

    def __init__(self, cancelled: Callable[[Key], None]) -> None:
        """`cancelled` is called for a pod that stays after all, or that is gone before."""
        self._cancelled = cancelled
        self._due: dict[Key, float] = {}

    def clear(self) -> None:
        self._due.clear()

    def consider(self, pod: Object, taints: Sequence[Object], now: float) -> float | None:
        """Check a pod whose node, tolerations or taints have changed; returns when to evict it, if at all."""
        key = key_of(pod)
        seconds = tolerated_seconds(taints, pod["spec"].get("tolerations") or ()) if taints else inf
        if seconds is None:
            if self._due.get(key, now) > now:
                self.cancel(key)
            self._due[key] = now
        elif seconds == inf:
            self.cancel(key)
        else:
            self._due.setdefault(key, now + seconds)
        return self.due(key)

    def due(self, key: Key) -> float | None:
        """When to evict the pod; None if that is not planned, or already done."""
        due = self._due.get(key, _DONE)
        return None if due == _DONE else due

    def done(self, key: Key) -> None:
        if key in self._due:
            self._due[key] = _DONE

    def cancel(self, key: Key) -> None:
        if self._due.pop(key, _DONE) != _DONE:
            self._cancelled(key)
