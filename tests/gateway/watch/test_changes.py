"""Changes of a type: the newest from memory, older ones from the journal, in bounded steps; compacted ones raise."""

from __future__ import annotations

import pytest

from rewound.gateway.watch import changes
from rewound.gateway.watch.changes import Changes, TooOld
from rewound.journal import retention
from rewound.journal.records import Event
from tests.gateway.watch.memory_hub import MemoryHub, memory_hub


def offsets(found: list[Event]) -> list[int]:
    return [event.offset for event in found]


def walked(source: Changes, after: int, upto: int) -> list[int]:
    """Return all offsets between two offsets, read in steps."""
    seen: list[int] = []
    while after < upto:
        found, after = source.after(after, upto)
        seen += offsets(found)
    return seen


def written(base: MemoryHub, count: int, size: int = 0) -> Changes:
    source = Changes(base.journal, base.type_id, base.feed.head)
    for number in range(count):
        event = base.event(f"n-{number % 7}", size=size)
        base.commit([event])
        source.add([event])
    return source


async def test_changes_from_memory_and_journal_are_equal() -> None:
    async with memory_hub() as base:
        source = written(base, 50)
        fresh = Changes(base.journal, base.type_id, base.feed.head)
        for after in range(51):
            assert walked(source, after, 50) == walked(fresh, after, 50) == list(range(after + 1, 51))


async def test_batches_are_held_like_single_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "HELD_EVENTS", 60)
    async with memory_hub() as base:
        events = []
        for number in range(100):
            events.append(base.event(f"n-{number % 7}", size=number * 10))
            base.commit([events[-1]])
        one_by_one, in_batches = (Changes(base.journal, base.type_id, 0) for _ in range(2))
        for event in events:
            one_by_one.add([event])
        for begin in range(0, 100, 20):
            in_batches.add(events[begin : begin + 20])
            in_batches.add(events[begin : begin + 20])  # as after an error
        assert len(one_by_one._held) <= 60 and len(in_batches._held) <= 60
        for after in range(0, 100, 3):
            for size in (1, 2000, 1 << 20):
                expected = Changes(base.journal, base.type_id, 100).after(after, 97, size)
                assert one_by_one.after(after, 97, size) == in_batches.after(after, 97, size) == expected


async def test_no_change_beyond_the_requested_offset() -> None:
    async with memory_hub() as base:
        source = written(base, 20)
        fresh = Changes(base.journal, base.type_id, base.feed.head)
        for one in (source, fresh):
            found, reached = one.after(5, 12)
            assert (offsets(found), reached) == (list(range(6, 13)), 12)


async def test_changes_of_other_types_are_skipped() -> None:
    async with memory_hub() as base:
        base.put("a")
        base.put_other_type()
        base.put("b")
        base.put_other_type()
        found, reached = Changes(base.journal, base.type_id, 4).after(0, 4)
        assert (offsets(found), reached) == ([1, 3], 4)


async def test_steps_are_bounded_by_events_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "STEP_EVENTS", 8)
    async with memory_hub() as base:
        source = written(base, 30, size=1000)
        for one in (source, Changes(base.journal, base.type_id, 30)):
            assert len(one.after(0, 30)[0]) == 8
            found, reached = one.after(0, 30, 2500)
            assert (len(found), reached) == (3, 3)
            found, reached = one.after(0, 30, 1)
            assert (len(found), reached) == (1, 1)


async def test_memory_is_bounded_and_the_journal_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "HELD_EVENTS", 10)
    async with memory_hub() as base:
        source = written(base, 95)
        assert len(source._held) <= 10
        for after in range(0, 96, 5):
            assert walked(source, after, 95) == list(range(after + 1, 96))


async def test_memory_of_large_objects_is_bounded() -> None:
    async with memory_hub() as base:
        source = written(base, 12, size=changes.HELD_BYTES // 4)
        assert len(source._held) <= 5
        assert walked(source, 0, 12) == list(range(1, 13))


async def test_change_has_the_previous_event() -> None:
    async with memory_hub() as base:
        source = Changes(base.journal, base.type_id, 0)
        for event in (base.event("a", app="x"), base.event("a", app="y"), base.event("a", removed=True)):
            base.commit([event])
            source.add([event])
        (first, second, third), _ = source.after(0, 3)
        assert source.before(first) is None
        assert source.before(second) == first
        assert source.before(third) == second
        assert b'"resourceVersion":"2"' in source.deselected_body(second)
        assert b'"app":"x"' in source.deselected_body(second)


async def test_compacted_changes_are_too_old() -> None:
    async with memory_hub() as base:
        source = written(base, 30)
        retention.advance(base.journal, 20)
        with pytest.raises(TooOld):
            Changes(base.journal, base.type_id, 30).after(10, 30)
        # Still in memory, but its previous event is compacted.
        change = source.after(14, 30)[0][0]
        with pytest.raises(TooOld):
            source.before(change)
        assert walked(Changes(base.journal, base.type_id, 30), 20, 30) == list(range(21, 31))
