"""An index in memory of which events the journal has, by type, namespace and change.

A timeline counts the events of many types in many buckets of time. The journal has an index by type, but no counts: a
million events would be a million reads per request. This index has the offset of every event in an array per type,
namespace and change, eight bytes each, so that a count is two binary searches. It is read from the journal's index by
type with the first timeline that somebody asks for, and continued with each later one; nothing follows the feed for it.

It covers the newest `MAX_EVENTS` events above the retention floor. Times are not in it: `times.py` finds their offsets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import partial
from itertools import islice
from typing import Final

from actors.rewind.steps import Steps, Work
from actors.timeline.times import Times
from journal import history
from journal.log import Journal

MAX_EVENTS: Final = 4_000_000  # 32 MB
_LINKS: Final = 300  # read per transaction, in about a millisecond
_TRIMMED: Final = 500  # tracks per step

CREATED, UPDATED, DELETED = range(3)
CHANGES: Final = ("created", "updated", "deleted")


class Track:
    """The events of one type in one namespace: ascending offsets, by change."""

    __slots__ = ("namespace", "offsets", "type_id")

    def __init__(self, key: bytes) -> None:
        self.type_id = int.from_bytes(key[:2], "big")
        self.namespace = key[2:].decode()
        self.offsets = (array("Q"), array("Q"), array("Q"))


class TimelineIndex:
    """`update` before reading it. One caller updates at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tracks: dict[bytes, Track] = {}  # by the part of a state key before the name
        self._read_upto: dict[int, int] = {}  # by type
        self.times = Times(journal)
        self.start = 0  # it has the events after this offset
        self.upto = 0  # and up to this one

    def update(self) -> Steps[None]:
        """Read what was committed since, and drop what retention removed."""
        with self._journal.read() as view:
            head, floor = view.head, view.floor
            types = view.written_types()
        start = max(floor, head - MAX_EVENTS)
        if start > self.start:
            yield from self._trim(start)
            self.start = start
        if head == self.upto:
            return
        # A replay may have gone back: what was read stays, and is not shown.
        for type_id in types:
            while (after := max(self._read_upto.get(type_id, 0), start)) < head:
                yield Work(partial(self._read, type_id, after, head))
        yield from self.times.update(start, head)
        self.upto = head

    def _read(self, type_id: int, after: int, upto: int) -> None:
        last, tracks = upto, self._tracks
        with self._journal.read() as view:
            links = list(islice(history.links(view, type_id, after, upto), _LINKS))
        for offset, key, previous, removed in links:
            scope = key[: key.index(b"\0", 2)]
            track = tracks.get(scope)
            if track is None:
                track = tracks[scope] = Track(scope)
            track.offsets[DELETED if removed else UPDATED if previous else CREATED].append(offset)
        if len(links) == _LINKS:
            last = links[-1].offset
        self._read_upto[type_id] = last

    def _trim(self, start: int) -> Steps[None]:
        scopes = list(self._tracks)
        for at in range(0, len(scopes), _TRIMMED):
            yield Work(partial(self._trim_some, scopes[at : at + _TRIMMED], start))

    def _trim_some(self, scopes: list[bytes], start: int) -> None:
        for scope in scopes:
            track = self._tracks[scope]
            for offsets in track.offsets:
                del offsets[: bisect_right(offsets, start)]
            if not any(track.offsets):
                del self._tracks[scope]

    def tracks(self) -> list[Track]:
        return list(self._tracks.values())

    def statistics(self) -> dict[str, int]:
        return {
            "tracks": len(self._tracks),
            "events": sum(len(offsets) for track in self._tracks.values() for offsets in track.offsets),
        }
