"""Members that join or leave during a sweep miss no event and get none twice."""

from __future__ import annotations

from itertools import pairwise

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.gateway.watch.group import TURN
from tests.gateway.watch.memory_hub import MemoryHub, Watcher, memory_hub


async def in_turns(base: MemoryHub, writes: int, act: list[Watcher]) -> None:
    for number in range(writes):
        base.commit([base.event(f"n-{number}-{part}") for part in range(3)])
        await trio.lowlevel.checkpoint()
    act.clear()


async def test_member_may_join_at_any_moment_of_a_sweep() -> None:
    async with memory_hub() as base:
        first = [base.join() for _ in range(TURN * 2 + 10)]
        joined: list[tuple[int, Watcher]] = []
        writing = [first[0]]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_turns, base, 30, writing)
            while writing:
                # From the group's version, and from some that the current sweep has or has not reached.
                for back in (0, 1, 2, 5):
                    after = max(base.feed.head - back, 0)
                    joined.append((after, base.join(after=after)))
                await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        everything = first[0].versions
        assert everything == list(range(1, 91))
        assert all(watcher.versions == everything for watcher in first)
        for after, watcher in joined:
            assert watcher.versions == list(range(after + 1, 91))
        assert len(joined) > 50
        assert not first[0].group.lagging


async def test_member_may_leave_at_any_moment_of_a_sweep() -> None:
    async with memory_hub() as base:
        members = [base.join() for _ in range(TURN * 3)]
        writing = [members[0]]
        left: list[tuple[int, Watcher]] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_turns, base, 10, writing)
            place = 0
            while writing and place < TURN * 3:
                for member in members[place : place + 20]:
                    # It has received everything up to this offset, and nothing beyond.
                    reached = member.group.reached(member.member)
                    left.append((reached, member))
                    base.leave(member)
                place += 20
                await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        for reached, member in left:
            assert member.versions == list(range(1, len(member.versions) + 1))
            assert reached == (member.versions[-1] if member.versions else 0)
        assert len({reached for reached, _ in left}) > 2


async def test_next_watch_of_a_connection_may_join_while_the_sweep_has_not_reached_the_last_one() -> None:
    async with memory_hub() as base:
        members = [base.join() for _ in range(TURN * 3)]
        base.put("a")
        with trio.fail_after(60):
            while not members[0].versions:
                await trio.lowlevel.checkpoint()
        last = members[-1]
        assert last.versions == []
        base.leave(last)
        following = base.join(last.pipe, after=0)
        assert following.group.reached(following.member) == 1
        await wait_all_tasks_blocked()
        assert following.versions == [1]
        assert base.put("b") == 2
        await wait_all_tasks_blocked()
        assert following.versions == [1, 2]


async def test_head_of_a_group_never_decreases() -> None:
    async with memory_hub() as base:
        watcher = base.join(labels="never")
        heads = [watcher.group.head]
        for _ in range(20):
            base.put("a")
            heads.append(watcher.group.head)
            base.put_other_type()
            base.join(labels="never")
            heads.append(watcher.group.head)
            await wait_all_tasks_blocked()
            heads.append(watcher.group.reached(watcher.member))
        assert all(one <= other for one, other in pairwise(heads))
        assert heads[-1] == base.feed.head
