"""A member with a limit gets no event beyond it, keeps only a cursor, and misses nothing when the limit moves."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.message import EndReason
from rewound.gateway.watch.group import BOOKMARK_INTERVAL
from tests.examples import examples
from tests.gateway.watch.memory_hub import FakePipe, MemoryHub, Watcher, memory_hub


def limit(watcher: Watcher, version: int | None) -> None:
    watcher.group.set_limit(watcher.member, version)


async def test_sweeping_member_stops_at_its_limit_and_rejoins_the_sweep() -> None:
    async with memory_hub() as base:
        held, free = base.join(), base.join()
        first = base.put("a")
        await wait_all_tasks_blocked()
        limit(held, first)
        later = [base.put(name) for name in "bcd"]
        await wait_all_tasks_blocked()
        assert (held.names, free.names) == (["a"], ["a", "b", "c", "d"])
        limit(held, later[1])
        assert held.names == ["a", "b", "c"]  # at once, before any other task runs
        limit(held, None)
        await wait_all_tasks_blocked()
        assert held.pipe.received == free.pipe.received
        assert held.pipe in held.group.sweeping
        assert not held.group.lagging


async def test_nothing_is_kept_for_a_held_member() -> None:
    """When released, a thousand events are read from the journal; none is encoded before."""
    async with memory_hub() as base:
        held = base.join()
        limit(held, base.feed.head)
        for _ in range(10):
            base.commit([base.event(f"n{number}", size=2000) for number in range(100)])
            await wait_all_tasks_blocked()
        assert held.member.rest is None
        assert base.hub.statistics()["things"].frames == 0
        assert held.names == []
        limit(held, None)
        await wait_all_tasks_blocked()
        assert held.names == [f"n{number}" for number in range(100)] * 10


async def test_cursor_passes_what_is_no_event_of_the_watch() -> None:
    async with memory_hub() as base:
        held = base.join(labels="color=red")
        limit(held, base.feed.head)
        base.put("a", color="blue")
        base.put_other_type()
        red = base.put("b", color="red")
        base.put("c", color="blue")
        await wait_all_tasks_blocked()
        assert held.group.reached(held.member) == red - 1
        base.floor = red - 1  # what was before has left the watch history
        limit(held, None)
        await wait_all_tasks_blocked()
        assert held.names == ["b"]


async def test_member_whose_next_event_left_the_history_is_removed() -> None:
    async with memory_hub() as base:
        held = base.join()
        limit(held, base.feed.head)
        base.put("a")
        base.floor = base.put("b")
        await wait_all_tasks_blocked()
        assert not held.member.ended  # as long as it is held
        limit(held, None)
        await wait_all_tasks_blocked()
        assert held.member.end_reason is EndReason.TOO_OLD


async def test_bookmarks_have_the_version_that_a_held_member_has_reached(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        held, free = base.join(bookmarks=True), base.join(bookmarks=True)
        first = base.put("a")
        await wait_all_tasks_blocked()
        limit(held, first)
        second = base.put("b")
        base.put_other_type()
        await wait_all_tasks_blocked()
        mock_clock.jump(BOOKMARK_INTERVAL + 1)
        await wait_all_tasks_blocked()
        assert [(one["type"]) for one in held.events] == ["ADDED", "BOOKMARK"]
        assert held.versions == [first, second - 1]
        assert free.versions[-1] == base.feed.head
        limit(held, None)
        await wait_all_tasks_blocked()
        assert held.names[-1] == "b"


async def test_first_event_is_encoded_for_the_member_alone() -> None:
    async with memory_hub() as base:
        held = base.join(first_differs=True)
        limit(held, base.feed.head)
        versions = [base.put(name) for name in "ab"]
        await wait_all_tasks_blocked()
        assert held.pipe.received == b""
        for version in versions:
            limit(held, version)
        assert [b"columns" in line for line in held.pipe.received.splitlines()] == [True, False]


@pytest.mark.parametrize("order", ["up", "down"])
async def test_limit_that_goes_back_holds_what_was_not_sent(order: str) -> None:
    async with memory_hub() as base:
        held = base.join()
        start = base.feed.head
        limit(held, start)
        first, second = base.put("a"), base.put("b")
        for version in (first, start) if order == "up" else (start, first):
            limit(held, version)
        await wait_all_tasks_blocked()
        assert held.names == ["a"]
        limit(held, second)
        assert held.names == ["a", "b"]


@examples(30, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from("abc")),
            st.tuples(st.just("limit"), st.integers(0, 6)),
            st.tuples(st.just("free"), st.just(0)),
            st.tuples(st.just("read"), st.integers(1, 300)),
            st.tuples(st.just("wait"), st.just(0)),
        ),
        max_size=25,
    ),
    room=st.integers(0, 300),
    slice=st.sampled_from([0, 3, 50]),
)
async def test_slow_and_held_at_once(steps: list[tuple[str, int | str]], room: int, slice: int) -> None:
    async with memory_hub() as base:
        free = base.join()
        held = base.join(FakePipe(room=room, slice=slice))
        for kind, value in steps:
            await _take(base, held, kind, value)
        held.pipe.read(10**9)
        limit(held, None)
        await wait_all_tasks_blocked()
        assert held.pipe.received == free.pipe.received


async def _take(base: MemoryHub, held: Watcher, kind: str, value: int | str) -> None:
    if kind == "put":
        base.put(str(value))
    elif kind == "limit":
        version = base.feed.head - int(value)
        limit(held, version)
        await wait_all_tasks_blocked()
        ahead = [one for one in held.versions if one > version]
        base.put("more")
        await wait_all_tasks_blocked()
        assert [one for one in held.versions if one > version] == ahead  # nothing new
    elif kind == "free":
        limit(held, None)
    elif kind == "read":
        held.pipe.read(int(value))
    else:
        await wait_all_tasks_blocked()
