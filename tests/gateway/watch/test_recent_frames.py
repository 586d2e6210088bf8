"""A group keeps recent frames: members read those after their cursor, one round at a time; the memory of all is
bounded.
"""

from __future__ import annotations

from rewound.gateway.watch import frames
from rewound.gateway.watch.frames import (
    ALLOWANCE,
    RETAINED_BYTES,
    RETAINED_FRAMES,
    ROUND_BYTES,
    RecentFrames,
    joined,
    joined_rounds,
    rounds,
)


def numbered(count: int, size: int = 10, start: int = 1) -> list[frames.Frame]:
    return [(offset, bytes(size)) for offset in range(start, start + count)]


def added(kept: RecentFrames, some: list[frames.Frame]) -> None:
    kept.add(some, sum(len(data) for _, data in some))


def test_frames_after_a_cursor() -> None:
    kept = RecentFrames(0, lambda: 1)
    added(kept, numbered(10))
    for cursor in range(11):
        found, reached = kept.after(cursor, 15)
        assert ([offset for offset, _ in found], reached) == (list(range(cursor + 1, 11)), 15)


def test_at_most_a_round_is_returned() -> None:
    kept = RecentFrames(0, lambda: 1)
    added(kept, numbered(10, ROUND_BYTES // 4))
    found, reached = kept.after(2, 99)
    assert ([offset for offset, _ in found], reached) == ([3, 4, 5, 6], 6)


def test_oldest_frames_are_dropped_first() -> None:
    kept = RecentFrames(0, lambda: 1)
    added(kept, numbered(RETAINED_FRAMES + 5))
    assert kept.floor == 5
    found, _ = kept.after(5, 9999)
    assert (found[0][0], len(found)) == (6, RETAINED_FRAMES)


def test_too_large_frame_is_not_retained() -> None:
    kept = RecentFrames(0, lambda: 1)
    added(kept, [(1, bytes(RETAINED_BYTES + 1))])
    assert kept.floor == 1
    assert kept.after(1, 1) == ([], 1)


def test_one_group_of_thousands_keeps_few_bytes() -> None:
    kept = RecentFrames(0, lambda: 10_000)
    added(kept, numbered(100, 1000))
    found, _ = kept.after(kept.floor, 100)
    assert sum(len(data) for _, data in found) <= ALLOWANCE / 10_000


def test_joined_rounds_have_the_bytes_of_their_frames() -> None:
    for some in (numbered(0), numbered(5), numbered(50, ROUND_BYTES // 7)):
        parts = joined_rounds(some)
        assert [part for part, _ in parts] == rounds(some)
        assert [data for _, data in parts] == [joined(part) for part in rounds(some)]


def test_rounds_hold_everything_in_order() -> None:
    parts = rounds(numbered(50, ROUND_BYTES // 7))
    assert [len(part) for part in parts] == [7] * 7 + [1]
    assert [frame for part in parts for frame in part] == numbered(50, ROUND_BYTES // 7)
    assert rounds([]) == []
    assert [len(part) for part in rounds(numbered(3, ROUND_BYTES * 2))] == [1, 1, 1]
