"""Rows of a timeline are counted in wider buckets when they would have too many cells."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from rewound.actors.rewind.long_work import LongWork, run
from rewound.actors.rewind.timeline import Cells, Track, count, count_rows, sum_of, total
from tests.cases import cases

BUCKETS = 41
EDGES = [number * 10 for number in range(BUCKETS + 1)]


def track(chance: Random) -> Track:
    made = Track(b"\0\1default")
    for offset in range(1, EDGES[-1] + 1):
        if chance.random() < 0.3:
            made.offsets[chance.randrange(3)].append(offset)
    return made


def total_of(rows: list[tuple[Cells, list[Track]]]) -> int:
    return sum(len(cells) for cells, _ in rows)


@cases("most", [1, 30, 100, 500, 10_000])
def test_cells_are_those_of_all_buckets_merged(most: int) -> None:
    tracks = [[track(Random(number))] for number in range(30)]
    narrow = [(Cells(), some) for some in tracks]
    for cells, some in narrow:
        run(count(some, EDGES, cells))
    merged = 1
    while total_of(narrow) > most and merged < BUCKETS:
        merged *= 2
        for cells, _ in narrow:
            cells.merge(2)
    rows = [(Cells(), some) for some in tracks]
    assert run(count_rows(rows, EDGES, most)) == merged
    assert [cells.flat() for cells, _ in rows] == [cells.flat() for cells, _ in narrow]
    assert [cells.total for cells, _ in rows] == [cells.total for cells, _ in narrow]


def test_there_are_never_many_more_cells_than_allowed() -> None:
    rows = [(Cells(), [track(Random(number))]) for number in range(30)]
    steps = count_rows(rows, EDGES, 100)
    most = 0
    result = None
    try:
        while True:
            result = steps.send(result).run()
            most = max(most, total_of(rows))
    except StopIteration:
        pass
    assert 100 < most <= 100 + BUCKETS
    assert total_of(rows) <= 100


def test_looks_at_many_tracks_in_turns() -> None:
    """Including types without events in the range."""
    tracks = [Track(b"\0\1default") for _ in range(5000)]
    for steps in (count(tracks, EDGES, Cells()), sum_of(partial(total, first=0, last=9), tracks)):
        assert _pieces(steps) >= 5000 / 500


def _pieces(steps: LongWork[Any]) -> int:
    found, result = 0, None
    try:
        while True:
            result = steps.send(result).run()
            found += 1
    except StopIteration:
        return found
