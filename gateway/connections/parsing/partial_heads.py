"""The heads of requests that have arrived in part, on all connections: together they hold no more than strangers may.

Nobody is authenticated before the end of a head, so a peer could hold as much as the largest head on every connection.
Beyond the limit the largest is given up: honest heads are small, or the rest of them follows at once.
"""

from __future__ import annotations

from typing import Protocol


class HeadReader(Protocol):
    def give_up_head(self) -> None:
        """End the connection soon, and release the head."""


class PartialHeads:
    __slots__ = ("_limit", "_sizes", "total")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[HeadReader, int] = {}
        self.total = 0  # bytes

    def hold(self, reader: HeadReader, size: int) -> None:
        """Set how many bytes of a head a reader has; 0 when it has the whole head, or has ended."""
        self.total += size - self._sizes.pop(reader, 0)
        if not size:
            return
        self._sizes[reader] = size
        while self.total > self._limit:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self.total -= self._sizes.pop(largest)
            largest.give_up_head()
