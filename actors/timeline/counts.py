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
    """The counts of one row of a timeline."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}
        self.total = 0

    def add(self, bucket: int, change: int, count: int = 1) -> None:
        counts = self._counts.get(bucket)
        if counts is None:
            counts = self._counts[bucket] = [0, 0, 0]
        counts[change] += count
        self.total += count

    def __len__(self) -> int:
        return len(self._counts)

    def flat(self) -> list[int]:
        return [number for bucket in sorted(self._counts) for number in (bucket, *self._counts[bucket])]


def count(tracks: Iterable[Track], edges: Sequence[int], cells: Cells) -> Steps[None]:
    """Add the events of these tracks to a row."""
    for track in tracks:
        yield Work(partial(_count_track, track, edges, cells))


def _count_track(track: Track, edges: Sequence[int], cells: Cells) -> None:
    for change, offsets in enumerate(track.offsets):
        first = bisect_right(offsets, edges[0])
        last = bisect_right(offsets, edges[-1], first)
        if last - first < len(edges):
            for offset in offsets[first:last]:
                cells.add(bucket_of(edges, offset), change)
        else:
            _count_many(offsets, edges, first, last, change, cells)


def _count_many(
    offsets: array[int], edges: Sequence[int], first: int, last: int, change: int, cells: Cells
) -> None:
    before = edges[0]
    for bucket, edge in enumerate(edges[1:]):
        if edge == before:
            continue
        before = edge
        following = bisect_right(offsets, edge, first, last)
        if following > first:
            cells.add(bucket, change, following - first)
            first = following


def bucket_of(edges: Sequence[int], offset: int) -> int:
    return bisect_left(edges, offset) - 1
