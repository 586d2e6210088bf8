"""A member that cannot take more keeps a cursor and the rest of a shared frame, catches up alone, and rejoins."""

from __future__ import annotations

import pytest
import trio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.message import EndReason
from rewound.gateway.watch import changes, frames
from rewound.gateway.watch.member import CLOSE_TIMEOUT
from tests.examples import examples
from tests.gateway.watch.memory_hub import FakePipe, MemoryHub, Watcher, memory_hub


async def feed_slowly(watcher: Watcher, reads: list[int]) -> None:
    """The client reads these counts of bytes, then everything."""
    for count in reads:
        watcher.pipe.read(count)
        await wait_all_tasks_blocked()
    watcher.pipe.read(10**9)
    await wait_all_tasks_blocked()


@pytest.mark.parametrize("slice", [0, 1, 7, 64])
async def test_frame_may_be_sent_in_part_at_any_byte(slice: int) -> None:
    async with memory_hub() as base:
        healthy = base.join()
        base.commit([base.event(name) for name in "abc"])
        await wait_all_tasks_blocked()
        whole = healthy.pipe.received
        for room in range(len(whole) + 1):
            lagging = base.join(FakePipe(room=room, slice=slice), after=0)
            await wait_all_tasks_blocked()
            assert whole.startswith(lagging.pipe.received)
            await feed_slowly(lagging, [1, 1, 5])
            assert lagging.pipe.received == whole
            assert lagging.pipe in lagging.group.sweeping
            assert not lagging.group.lagging
            base.leave(lagging)


@examples(30, suppress_health_check=list(HealthCheck))
@given(
    rooms=st.lists(st.integers(0, 400), min_size=1, max_size=4),
    reads=st.lists(st.integers(1, 300), max_size=12),
    slice=st.sampled_from([0, 3, 50, 1000]),
    writes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 120)), min_size=1, max_size=15),
    kept=st.sampled_from([0, 200, 1 << 20]),
)
def test_members_with_any_pace_get_the_same_bytes(
    rooms: list[int], reads: list[int], slice: int, writes: list[tuple[str, int]], kept: int
) -> None:
    """However sends are split, all members get the same bytes, and events are never truncated or mixed."""

    async def run() -> None:
        async with memory_hub() as base:
            healthy = base.join()
            members = [base.join(FakePipe(room=room, slice=slice)) for room in rooms]
            for place, (name, size) in enumerate(writes):
                base.put(name, size=size)
                await wait_all_tasks_blocked()
                for member in members:
                    if place < len(reads):
                        member.pipe.read(reads[place])
                await wait_all_tasks_blocked()
            for member in members:
                await feed_slowly(member, reads[len(writes) :])
                assert member.pipe.received == healthy.pipe.received
            base.put("last")
            await wait_all_tasks_blocked()
            assert {member.pipe.received for member in members} == {healthy.pipe.received}
            assert not healthy.group.lagging

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "RETAINED_BYTES", kept)
        patch.setattr(frames, "ROUND_BYTES", 150)
        patch.setattr(changes, "HELD_EVENTS", 3)
        trio.run(run)


async def test_the_rest_of_a_frame_is_shared_not_copied() -> None:
    async with memory_hub() as base:
        members = [base.join(FakePipe(room=100 + number)) for number in range(3)]
        base.put("a", size=1000)
        await wait_all_tasks_blocked()
        frames_held = {id(member.member.rest.obj) for member in members if member.member.rest is not None}
        assert len(frames_held) == 1


async def test_lagging_member_does_not_delay_the_others() -> None:
    async with memory_hub() as base:
        lagging, healthy = base.join(FakePipe(room=10)), base.join()
        for number in range(20):
            base.put(f"n-{number}")
            await wait_all_tasks_blocked()
            assert len(healthy.names) == number + 1
        assert lagging.group.lagging == {lagging.member}
        assert lagging.pipe.calls < 5


async def test_changes_are_not_encoded_for_a_single_lagging_member() -> None:
    async with memory_hub() as base:
        lagging = base.join(FakePipe(room=0))
        for number in range(50):
            base.put(f"n-{number}")
            await wait_all_tasks_blocked()
        assert base.hub.statistics()["things"].frames == 1
        lagging.pipe.read(10**9)
        await wait_all_tasks_blocked()
        assert lagging.versions == list(range(1, 51))
        assert lagging.pipe in lagging.group.sweeping


async def test_lagging_member_catches_up_from_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "RETAINED_BYTES", 0)
    monkeypatch.setattr(changes, "HELD_EVENTS", 2)
    monkeypatch.setattr(changes, "STEP_EVENTS", 7)
    async with memory_hub() as base:
        lagging, healthy = base.join(FakePipe(room=0), "app"), base.join(labels="app")
        for number in range(40):
            base.put(f"n-{number % 5}", **({"app": "x"} if number % 3 else {}))
        await wait_all_tasks_blocked()
        lagging.pipe.read(10**9)
        await wait_all_tasks_blocked()
        assert lagging.pipe.received == healthy.pipe.received
        assert lagging.pipe in lagging.group.sweeping


async def test_lagging_member_beyond_the_history_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "RETAINED_BYTES", 0)
    async with memory_hub() as base:
        lagging, healthy = base.join(FakePipe(room=0)), base.join()
        offsets = [base.put(f"n-{number}") for number in range(10)]
        await wait_all_tasks_blocked()
        base.floor = offsets[5]
        lagging.pipe.read(10**9)
        await wait_all_tasks_blocked()
        assert lagging.member.end_reason is EndReason.TOO_OLD
        assert lagging.names == []
        assert len(healthy.names) == 10
        assert healthy.member.end_reason is None
        assert base.hub.statistics()["things"].expired == 1


async def test_recent_frames_are_sent_beyond_the_history() -> None:
    async with memory_hub() as base:
        lagging = base.join(FakePipe(room=0))
        offsets = [base.put(f"n-{number}") for number in range(10)]
        await wait_all_tasks_blocked()
        base.floor = offsets[-1]
        lagging.pipe.read(10**9)
        await wait_all_tasks_blocked()
        assert len(lagging.names) == 10


async def test_lagging_member_is_disconnected_after_the_close_timeout(mock_clock: MockClock) -> None:
    async with memory_hub() as base:
        lagging = base.join(FakePipe(room=10), ends_at=5)
        base.put("a")
        await wait_all_tasks_blocked()
        mock_clock.jump(5 + CLOSE_TIMEOUT - 1)
        lagging.pipe.interrupt()
        await wait_all_tasks_blocked()
        assert lagging.member in lagging.group.lagging
        mock_clock.jump(2)
        lagging.pipe.interrupt()
        await wait_all_tasks_blocked()
        assert lagging.member.ended
        assert lagging.group.empty


async def test_lagging_member_that_leaves_frees_everything() -> None:
    async with memory_hub() as base:
        for slice in (0, 16):
            lagging = base.join(FakePipe(room=10, slice=slice))
            base.put("a")
            await wait_all_tasks_blocked()
            base.leave(lagging)
            lagging.pipe.close()
            await wait_all_tasks_blocked()
            assert base.hub.groups() == 0
            assert lagging.pipe.waiting == 0


async def test_member_that_disconnects_before_its_catch_up_task_runs_is_removed() -> None:
    async with memory_hub() as base:
        lagging = base.join(FakePipe(room=0), after=0)
        base.put("a")
        await wait_all_tasks_blocked()
        again = base.join(FakePipe(room=0), after=0)
        base.leave(again)
        again.pipe.close()
        await wait_all_tasks_blocked()
        assert lagging.group.lagging == {lagging.member}


async def joined_ahead(base: MemoryHub) -> Watcher:
    return base.join(after=base.feed.head)


async def test_member_ahead_of_the_sweep_waits_for_it() -> None:
    """The feed has a commit before its sweep does, so a list may return its version in between."""
    async with memory_hub() as base:
        base.join()
        base.commit([base.event(f"n-{number}") for number in range(3)])
        ahead = await joined_ahead(base)
        middle = base.join(after=base.feed.head - 1)
        await wait_all_tasks_blocked()
        assert ahead.names == []
        assert middle.names == ["n-2"]
        base.put("later")
        await wait_all_tasks_blocked()
        assert ahead.names == ["later"]
        assert middle.names == ["n-2", "later"]
