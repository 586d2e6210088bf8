"""A bounded cache of old versions, which decides how each is rebuilt."""

from __future__ import annotations

import threading
from collections import OrderedDict

from journal import snapshots
from journal.replay.replayed import Replayed
from journal.replay.undone import Undone
from journal.state import Stop
from journal.transaction import ReadTransaction

# Cached versions: as many lists of old versions may page at once; one more rebuilds its version for each page.
VERSIONS = 16
VERSION_KEYS = 400_000  # objects in all cached versions together: about 60 MB at most
UNDO_EVENTS = 20_000  # up to this many events are always undone: some tens of milliseconds, once

Version = Undone | Replayed


class Versions:
    """A cache of old versions that evicts the least recently used."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[int, int], Version] = OrderedDict()
        self._lock = threading.Lock()  # housekeeping reads old versions in another thread

    def version(self, reading: ReadTransaction, type_id: int, offset: int) -> Version:
        """The version of a type at an offset, extended to the head of the transaction."""
        with self._lock:
            return self._extend(reading, type_id, offset, None)

    def step(self, reading: ReadTransaction, type_id: int, offset: int, stop: Stop) -> Version | None:
        """The same if it is complete before `stop`; else None, and the next call goes on. Waits for no other thread."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            version = self._extend(reading, type_id, offset, stop)
        finally:
            self._lock.release()
        return version if version.complete(reading) else None

    def _extend(self, reading: ReadTransaction, type_id: int, offset: int, stop: Stop | None) -> Version:
        version = self._cached.pop((type_id, offset), None)  # not to be used again if this fails
        if version is None or not _usable(version, reading):
            version = self._create(reading, type_id, offset)
        version = version.extended(reading, stop)
        self._cache((type_id, offset), version)
        return version

    def _create(self, reading: ReadTransaction, type_id: int, offset: int) -> Version:
        """By the way that has the fewest events: from the present, a snapshot, or a version that is cached."""
        undo_events = reading.head - offset
        if undo_events <= UNDO_EVENTS:
            return Undone(type_id, offset, {}, [], {})
        base, distance = snapshots.closest(reading, offset)
        near = self._nearest(reading, type_id, offset)
        if near is not None and abs(near.offset - offset) < min(undo_events, distance):
            return Replayed.beside(reading, near, offset)
        if undo_events <= distance:
            return Undone(type_id, offset, {}, [], {})
        return Replayed(reading, type_id, offset, base)

    def _nearest(self, reading: ReadTransaction, type_id: int, offset: int) -> Replayed | None:
        """The cached replayed version of a type that is nearest to an offset, if all events in between are kept."""
        floor = reading.floor
        usable = (
            one
            for (cached_type, at), one in self._cached.items()
            if cached_type == type_id and at >= floor and isinstance(one, Replayed) and one.complete(reading)
        )
        return min(usable, key=lambda one: abs(one.offset - offset), default=None)

    def _cache(self, name: tuple[int, int], version: Version) -> None:
        self._cached[name] = version
        while len(self._cached) > VERSIONS or (len(self._cached) > 1 and self._keys() > VERSION_KEYS):
            self._cached.popitem(last=False)

    def _keys(self) -> int:
        return sum(len(version.offsets) for version in self._cached.values())

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._cached.clear()

    def statistics(self) -> dict[str, int]:
        return {"old_versions": len(self._cached), "old_version_keys": self._keys()}


def _usable(version: Version, reading: ReadTransaction) -> bool:
    """Whether a version fits a transaction: it may be newer, or retention may have removed its snapshot."""
    if isinstance(version, Undone):
        return version.seen <= reading.head
    return version.complete(reading) or reading.floor <= version.highest_floor
