"""A key is held once, worked on by one at a time, and comes back when it must."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from actors.controllers.work import WorkQueue


async def test_a_key_added_twice_is_taken_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "aba":
        queue.add(key)
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    assert queue.statistics().ready == 0


async def test_a_key_added_while_worked_on_comes_up_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    assert queue.statistics().ready == 0
    queue.done("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert queue.statistics().ready == 0


async def test_pauses_double_up_to_the_longest(autojump_clock: MockClock) -> None:
    queue: WorkQueue[str] = WorkQueue(first_pause=1, longest_pause=5)
    queue.add("a")
    taken = []
    for _ in range(5):
        await queue.take()
        taken.append(trio.current_time())
        queue.retry("a")
    assert taken == [0, 1, 3, 7, 12]


async def test_success_makes_the_next_pause_short_again(autojump_clock: MockClock) -> None:
    queue: WorkQueue[str] = WorkQueue(first_pause=1)
    queue.add("a")
    for _ in range(3):
        await queue.take()
        queue.retry("a")
    await queue.take()
    queue.done("a")
    queue.add("a")
    await queue.take()
    assert queue.retry("a") == 1


async def test_news_of_a_failing_key_bring_it_up_at_once(autojump_clock: MockClock) -> None:
    queue: WorkQueue[str] = WorkQueue(first_pause=50)
    queue.add("a")
    await queue.take()
    queue.retry("a")
    queue.add("a")
    assert await queue.take() == "a"
    assert trio.current_time() == 0
    queue.done("a")
    await trio.sleep(100)
    with trio.move_on_after(100):
        pytest.fail(f"{await queue.take()} came up a second time")


async def test_of_two_times_the_sooner_counts(autojump_clock: MockClock) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 7)
    await queue.take()
    assert trio.current_time() == 3
    assert queue.statistics().later == 0


async def test_what_was_being_worked_on_when_the_loop_broke_comes_up_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.recover()
    assert await queue.take() == "a"
