"""The number of stored objects of a resource, as estimates of work need it: at most a second old."""

from __future__ import annotations

import time
from typing import Final

from journal.log import Journal

_SECONDS: Final = 1.0
_MAX_RESOURCES: Final = 1024  # clients choose the names; the cache is cleared when it is full


class ObjectCounts:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}

    def count(self, group: str, resource: str) -> int:
        """0 for a resource that is not stored."""
        now = time.monotonic()
        known = self._counts.get((group, resource))
        if known is not None and now < known[0]:
            return known[1]
        if len(self._counts) >= _MAX_RESOURCES:
            self._counts.clear()
        number = self._read(f"{resource}.{group}" if group else resource)
        self._counts[group, resource] = (now + _SECONDS, number)
        return number

    def _read(self, type_name: str) -> int:
        type_id = self._journal.type_id(type_name)
        if not type_id:
            return 0
        with self._journal.read() as view:
            return view.count(type_id)
