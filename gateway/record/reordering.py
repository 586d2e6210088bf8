"""Brings the changes of all watches into the order of their versions.

Each kind has a watch of its own, and one may be behind another: a change is held for a moment, until those with lower
versions have arrived too. Nothing is released before all kinds were listed, because the first lists are sorted as one.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.record.changes import Change

HOLD_SECONDS = 1.0  # watches of one server are rarely apart by more


class Reordering:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._held: list[tuple[float, Change]] = []
        self.size = 0  # bytes of what is held
        self.open = False  # whether anything may be released

    def __len__(self) -> int:
        return len(self._held)

    def add(self, change: Change) -> None:
        self._held.append((self._now(), change))
        self.size += len(change.body)

    def due(self) -> list[Change]:
        """The changes that have waited long enough, with all that have lower versions."""
        if not self.open:
            return []
        until = self._now() - HOLD_SECONDS
        old = [change for arrived, change in self._held if arrived <= until]
        if not old:
            return []
        newest = max((one.number for one in old if one.number is not None), default=0)
        released = {id(one) for one in old}
        released |= {id(one) for _, one in self._held if one.number is not None and one.number <= newest}
        found = [one for _, one in self._held if id(one) in released]
        self._held = [(arrived, one) for arrived, one in self._held if id(one) not in released]
        self.size -= sum(len(one.body) for one in found)
        return found

    def all(self) -> list[Change]:
        """Everything, at the end."""
        held, self._held, self.size = self._held, [], 0
        return [change for _, change in held]
