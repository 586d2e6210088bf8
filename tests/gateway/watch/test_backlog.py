"""Members that are far behind share encoded segments, whatever their cursors."""

from __future__ import annotations

from rewound.gateway.watch.changes import Changes, TooOld
from rewound.gateway.watch.frames import RETAINED_BYTES, ROUND_BYTES, SEGMENT, Backlog, Frame
from rewound.journal.records import Event
from tests.gateway.watch.memory_hub import MemoryHub, memory_hub


class Shared:
    """A backlog of every event of a memory hub; it records which segments it had to encode."""

    def __init__(self, base: MemoryHub) -> None:
        # As after a restart: no earlier change is in memory.
        changes = Changes(base.journal, base.type_id, base.feed.head)
        self.made: list[int] = []
        self._backlog = Backlog(changes, self._framed, lambda: 1)
        self._base = base

    def _framed(self, events: list[Event]) -> list[Frame]:
        self.made += [event.offset for event in events]
        return [(event.offset, event.body) for event in events]

    def walk(self, cursor: int) -> list[int]:
        """Return the offsets that a member gets from this cursor up to the head."""
        seen: list[int] = []
        while cursor < self._base.feed.head:
            frames, reached = self._backlog.after(cursor, self._base.feed.head)
            assert reached > cursor
            seen += [offset for offset, _ in frames]
            cursor = reached
        return seen


async def test_members_with_any_cursor_share_segments() -> None:
    async with memory_hub() as base:
        offsets = [base.put(f"n-{number % 7}") for number in range(SEGMENT * 4)]
        shared, whole = Shared(base), base.feed.head // SEGMENT * SEGMENT
        for begin in (0, 0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 5, 2 * SEGMENT):
            assert shared.walk(begin) == [offset for offset in offsets if offset > begin]
        assert len([offset for offset in shared.made if offset <= whole]) == len(
            {offset for offset in shared.made if offset <= whole}
        )


async def test_empty_segments_are_skipped() -> None:
    async with memory_hub() as base:
        first = base.put("a")
        for _ in range(SEGMENT * 5):
            base.put_other_type()
        last = base.put("a")
        for _ in range(SEGMENT * 2):
            base.put_other_type()
        shared, steps, cursor = Shared(base), 0, first
        while cursor < base.feed.head:
            _, cursor = shared._backlog.after(cursor, base.feed.head)
            steps += 1
        assert shared.walk(first) == [last]
        assert steps <= 4


async def test_incomplete_segment_is_not_cached() -> None:
    async with memory_hub() as base:
        offsets = [base.put("a") for _ in range(3)]
        shared = Shared(base)
        assert shared.walk(0) == offsets
        offsets.append(base.put("b"))
        assert shared.walk(0) == offsets


async def test_large_objects_are_returned_in_rounds() -> None:
    async with memory_hub() as base:
        offsets = [base.put("a", size=ROUND_BYTES // 4) for _ in range(SEGMENT * 2)]
        shared = Shared(base)
        assert shared.walk(0) == offsets
        assert shared.walk(3) == offsets[3:]


async def test_cache_size_is_bounded() -> None:
    async with memory_hub() as base:
        size = ROUND_BYTES // SEGMENT // 2
        for _ in range(RETAINED_BYTES // size * 2):
            base.put("a", size=size)
        shared = Shared(base)
        shared.walk(0)
        assert shared._backlog._bytes <= RETAINED_BYTES
        assert len(shared._backlog._segments) > 1


async def test_compacted_start_of_a_segment_does_not_affect_later_cursors() -> None:
    async with memory_hub() as base:
        offsets = [base.put("a") for _ in range(SEGMENT * 2)]
        shared = Shared(base)
        after, gone = shared._backlog._changes.after, offsets[4]

        def partly_gone(offset: int, upto: int, size: int) -> tuple[list[Event], int]:
            if offset < gone:
                raise TooOld
            return after(offset, upto, size)

        shared._backlog._changes.after = partly_gone  # type: ignore[method-assign,assignment]
        assert shared.walk(gone) == offsets[5:]
