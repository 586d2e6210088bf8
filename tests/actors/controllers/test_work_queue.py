"""The work queue holds a key once, hands it out to one task at a time, and makes it ready again when necessary."""

from __future__ import annotations

from weakref import WeakSet

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.controllers.work_queue import WorkQueue


async def test_key_added_twice_is_taken_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "aba":
        queue.add(key)
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    assert queue.statistics().ready == 0


async def test_key_added_while_active_is_ready_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    assert queue.statistics().ready == 0
    queue.done("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert queue.statistics().ready == 0


async def test_pause_doubles_up_to_the_longest(autojump_clock: MockClock) -> None:
    queue: WorkQueue[str] = WorkQueue(first_pause=1, longest_pause=5)
    queue.add("a")
    taken = []
    for _ in range(5):
        await queue.take()
        taken.append(trio.current_time())
        queue.retry("a")
    assert taken == [0, 1, 3, 7, 12]


async def test_success_resets_the_pause(autojump_clock: MockClock) -> None:
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


async def test_add_makes_a_failed_key_ready_at_once(autojump_clock: MockClock) -> None:
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


async def test_sooner_of_two_delays_counts(autojump_clock: MockClock) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 7)
    await queue.take()
    assert trio.current_time() == 3
    assert queue.statistics().delayed == 0


async def test_active_keys_are_ready_again_after_a_crash() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.requeue_active()
    assert await queue.take() == "a"


class Key:
    """A key that reports whether anything still refers to it."""


async def test_keys_that_became_ready_before_they_were_due_are_forgotten() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    held: WeakSet[Key] = WeakSet()
    for _ in range(1000):
        held.add(key := Key())
        queue.add_after(key, 3600)
        queue.add(key)
        queue.done(await queue.take())
        del key
    assert len(held) < 100


async def test_namespaces_take_turns() -> None:
    queue: WorkQueue[tuple[str, str]] = WorkQueue()
    for name in "abc":
        queue.add(("large", name))
    queue.add(("small", "d"))
    taken = []
    for _ in range(4):
        taken.append(await queue.take())
        queue.done(taken[-1])
    assert taken == [("large", "a"), ("small", "d"), ("large", "b"), ("large", "c")]


async def test_namespaces_of_keys_that_end_otherwise_take_turns() -> None:
    queue: WorkQueue[tuple[str, str, int]] = WorkQueue(namespace_of=lambda key: key[0])
    for key in (("large", "a", 1), ("large", "b", 2), ("small", "a", 3)):
        queue.add(key)
    assert [(await queue.take())[0] for _ in range(3)] == ["large", "small", "large"]


async def test_namespace_without_an_active_key_comes_first() -> None:
    queue: WorkQueue[tuple[str, str]] = WorkQueue()
    for name in "abc":
        queue.add(("large", name))
    await queue.take()
    queue.add(("small", "d"))
    assert await queue.take() == ("small", "d")
    assert await queue.take() == ("large", "b")


async def test_tasks_for_other_namespaces_wait_for_one(nursery: trio.Nursery) -> None:
    queue: WorkQueue[tuple[str, str]] = WorkQueue()
    taken: list[tuple[str, str]] = []

    async def take() -> None:
        taken.append(await queue.take(shared=1))

    for name in "abc":
        queue.add(("large", name))
    for _ in range(3):
        nursery.start_soon(take)
    await wait_all_tasks_blocked()
    assert taken == [("large", "a")]
    queue.add(("small", "d"))
    await wait_all_tasks_blocked()
    assert taken == [("large", "a"), ("small", "d")]
    queue.done(("large", "a"))
    await wait_all_tasks_blocked()
    assert taken[2:] == [("large", "b")]
    nursery.cancel_scope.cancel()


async def test_queue_remembers_nothing_of_namespaces_without_keys() -> None:
    queue: WorkQueue[tuple[str, str]] = WorkQueue()
    for number in range(3):
        queue.add((f"n{number}", "a"))
        queue.add((f"n{number}", "b"))
    for _ in range(6):
        queue.done(await queue.take())
    assert not (queue._idle or queue._busy or queue._active_in) and queue.statistics().ready == 0


async def test_queue_says_that_a_key_is_overdue_until_it_is_taken(autojump_clock: object) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 5)
    assert not queue.is_overdue()
    await trio.sleep(5)
    assert queue.is_overdue()
    assert await queue.take() == "a"
    assert not queue.is_overdue()
