"""A sweep sends the same bytes to every member; events committed together are sent in one call."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.gateway.watch import frames
from rewound.gateway.watch.group import SMALLEST_TURN, TURN, TURN_BYTES
from tests.gateway.watch.memory_hub import FakePipe, memory_hub


async def test_members_get_the_same_bytes() -> None:
    async with memory_hub() as base:
        watchers = [base.join() for _ in range(5)]
        base.put("a")
        base.put("a")
        base.remove("a")
        await wait_all_tasks_blocked()
        assert [event["type"] for event in watchers[0].events] == ["ADDED", "MODIFIED", "DELETED"]
        assert len({watcher.pipe.received for watcher in watchers}) == 1
        assert len({watcher.group for watcher in watchers}) == 1


async def test_batch_is_sent_in_one_call() -> None:
    async with memory_hub() as base:
        watcher = base.join()
        base.commit([base.event(f"n-{number}") for number in range(50)])
        base.put("more")
        await wait_all_tasks_blocked()
        assert watcher.names == [*(f"n-{number}" for number in range(50)), "more"]
        assert watcher.pipe.calls == 1


async def test_burst_is_sent_in_rounds() -> None:
    async with memory_hub() as base:
        watcher = base.join()
        count, size = 100, frames.ROUND_BYTES // 10
        base.commit([base.event(f"n-{number}", size=size) for number in range(count)])
        await wait_all_tasks_blocked()
        assert len(watcher.names) == count
        assert count / 10 <= watcher.pipe.calls <= count / 5


async def test_event_larger_than_a_round_is_sent() -> None:
    async with memory_hub() as base:
        watcher = base.join()
        base.put("huge", size=3 * frames.ROUND_BYTES)
        base.put("small")
        await wait_all_tasks_blocked()
        assert watcher.names == ["huge", "small"]


async def test_other_tasks_run_during_a_large_sweep() -> None:
    async with memory_hub() as base:
        watchers = [base.join() for _ in range(TURN * 3)]
        turns: list[int] = []

        async def look() -> None:
            with trio.fail_after(60):
                while len(turns) < 20:
                    turns.append(sum(bool(watcher.pipe.received) for watcher in watchers))
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            base.put("a")
        assert {0, TURN * 3} < set(turns)
        assert set(turns) <= {0, TURN, TURN * 2, TURN * 3}


async def test_large_events_make_short_turns() -> None:
    async with memory_hub() as base:
        watchers = [base.join() for _ in range(SMALLEST_TURN * 4)]
        turns: list[int] = []

        async def look() -> None:
            with trio.fail_after(60):
                while len(turns) < 20:
                    turns.append(sum(bool(watcher.pipe.received) for watcher in watchers))
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            base.put("a", size=TURN_BYTES)
        assert {0, SMALLEST_TURN * 4} < set(turns)
        assert all(turn % SMALLEST_TURN == 0 for turn in turns)


async def test_changes_of_other_types_and_names_wake_no_group() -> None:
    async with memory_hub() as base:
        watchers = [base.join(name=f"n-{number}") for number in range(10)]
        base.put("n-3")
        base.put("n-4")
        base.put_other_type()
        await wait_all_tasks_blocked()
        assert [watcher.names for watcher in watchers] == [
            [f"n-{number}"] if number in (3, 4) else [] for number in range(10)
        ]
        assert [watcher.group.idle for watcher in watchers] == [True] * 10
        assert base.hub.statistics()["things"].frames == 2


async def test_groups_without_members_are_removed() -> None:
    async with memory_hub() as base:
        one, other = base.join(), base.join(labels="app=web")
        assert base.hub.groups() == 2
        base.leave(other, labels="app=web")
        assert base.hub.groups() == 1
        base.put("a")
        base.leave(one)
        await wait_all_tasks_blocked()
        assert base.hub.groups() == 0
        assert base.join(FakePipe()).group is not one.group


async def test_disconnected_member_is_removed_in_the_sweep() -> None:
    async with memory_hub() as base:
        gone, stays = base.join(), base.join()
        gone.pipe.close()
        base.put("a")
        await wait_all_tasks_blocked()
        assert stays.names == ["a"]
        assert gone.member.ended
        assert list(stays.group.sweeping.values()) == [stays.member]
