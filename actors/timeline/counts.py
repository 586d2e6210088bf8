"""Counts events per bucket of time.

edges     [10, 14, 14, 20]           bucket 0 has the offsets 11 to 14, bucket 1 none, bucket 2 those from 15 to 20
cells     [0, 3, 1, 0,  2, 0, 6, 0]  bucket, created, updated, deleted; and so on, without empty buckets
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from actors.rewind.steps import Steps, Work
from actors.timeline.index import Track

SECOND: Final = 1_000_000
_STEPS: Final = (1, 2, 5)
_WALKED: Final = 4  # events per bucket


def bucket_width(span: int, buckets: int) -> int:
    """Microseconds: 1, 2 or 5 times a power of ten, so that a range has at most `buckets` of them.

    Buckets begin at multiples of it: those of a timeline that moves stay the same.
    """
    least = max(1, -(-span // max(1, buckets - 1)))
    power = 1
    while True:
        for step in _STEPS:
            if step * power >= least:
                return step * power
        power *= 10


class Cells:
    """The counts of one row of a timeline: of each change, by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts: dict[int, list[int]] = {}
        self.total = 0

    def add(self, bucket: int, change: int) -> None:
        self.counts.setdefault(bucket, [0, 0, 0])[change] += 1
        self.total += 1

    def __len__(self) -> int:
        return len(self.counts)

    def merge(self, buckets: int) -> None:
        """Make one bucket of several."""
        merged: dict[int, list[int]] = {}
        for bucket, counts in self.counts.items():
            known = merged.setdefault(bucket // buckets, [0, 0, 0])
            for change, count in enumerate(counts):
                known[change] += count
        self.counts = merged

    def flat(self) -> list[int]:
        return [number for bucket in sorted(self.counts) for number in (bucket, *self.counts[bucket])]


def total(tracks: Iterable[Track], first: int, last: int) -> int:
    """How many events these tracks have after the first offset and up to the last one."""
    return sum(
        bisect_right(offsets, last) - bisect_right(offsets, first)
        for track in tracks
        for offsets in track.offsets
    )


def count(tracks: Iterable[Track], edges: Sequence[int], cells: Cells) -> Steps[None]:
    """Add the events of these tracks to a row."""
    for track in tracks:
        for change, offsets in enumerate(track.offsets):
            first = bisect_right(offsets, edges[0])
            last = bisect_right(offsets, edges[-1], first)
            if first < last:
                cells.total += last - first
                walk = _walk if last - first < _WALKED * len(edges) else _search
                yield Work(partial(walk, offsets[first:last], edges, change, cells.counts))


def count_rows(rows: Iterable[tuple[Cells, Sequence[Track]]], edges: Sequence[int], most: int) -> Steps[int]:
    """Count the events of every row, in buckets so wide that all rows together have at most `most` cells.

    Returns how many buckets became one. Rows that are counted already become narrower as soon as there are too many
    cells, so that there are never many more, however many rows and buckets somebody asks for.
    """
    merged, counted = 1, list[Cells]()
    for cells, tracks in rows:
        yield from count(tracks, edges, cells)
        counted.append(cells)
        while sum(map(len, counted)) > most and len(edges) > 2:
            merged *= 2
            edges = [*edges[:-1:2], edges[-1]]
            for one in counted:
                yield Work(partial(one.merge, 2))
    return merged


def _walk(offsets: array[int], edges: Sequence[int], change: int, counts: dict[int, list[int]]) -> None:
    """Look at each event: cheaper than a search for each bucket, if there are few events in one."""
    bucket, edge = -1, edges[0]
    current: list[int] = []
    for offset in offsets:
        if offset > edge:
            bucket = bisect_left(edges, offset, bucket + 1) - 1
            edge = edges[bucket + 1]
            current = counts.setdefault(bucket, [0, 0, 0])
        current[change] += 1


def _search(offsets: array[int], edges: Sequence[int], change: int, counts: dict[int, list[int]]) -> None:
    first = 0
    for bucket, edge in enumerate(edges[1:]):
        following = bisect_right(offsets, edge, first)
        if following > first:
            counts.setdefault(bucket, [0, 0, 0])[change] += following - first
            first = following


def bucket_of(edges: Sequence[int], offset: int) -> int:
    return bisect_left(edges, offset) - 1
