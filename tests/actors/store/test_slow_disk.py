"""Commits move to a worker thread when the disk is slow, and back when it is fast again."""

import threading

import pytest
import trio

from rewound.actors.store.committer import DiskSpeed, run_beside


@pytest.fixture(autouse=True)
def usual_limit(monkeypatch):
    monkeypatch.setattr("rewound.actors.store.committer.SLOW_COMMIT", 0.004)


def recorded(*seconds: float) -> DiskSpeed:
    speed = DiskSpeed()
    for one in seconds:
        speed.record(one)
    return speed


def test_one_long_commit_does_not_move_the_others():
    assert not recorded(*[0.001] * 20, 30.0).slow


def test_slow_disk_and_fast_again():
    speed = recorded(*[0.02] * 3)
    assert speed.slow
    for _ in range(5):
        speed.record(0.003)
    assert speed.slow, "3 ms is not below half of the limit"
    for _ in range(20):
        speed.record(0.001)
    assert not speed.slow


async def test_event_loop_stands_still_until_the_work_lets_it_continue():
    order: list[str] = []
    others_ran = threading.Event()

    def work(let_loop_continue):
        order.append("put")
        let_loop_continue()
        assert others_ran.wait(10), "the event loop should run while the disk is awaited"
        order.append("committed")
        return threading.current_thread()

    async def other() -> None:
        order.append("other task")
        others_ran.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        thread = await run_beside(work)
    assert thread is not threading.current_thread()
    assert order == ["put", "other task", "committed"]


async def test_event_loop_continues_when_the_work_raises():
    def work(let_loop_continue):
        raise ValueError("no space")

    with pytest.raises(ValueError, match="no space"):
        await run_beside(work)


async def test_work_may_let_the_loop_continue_twice():
    """The map grows, and the puts are repeated."""

    def work(let_loop_continue):
        let_loop_continue()
        let_loop_continue()
        return 1

    assert await run_beside(work) == 1


async def test_cancelled_task_waits_for_the_work():
    done: list[bool] = []
    cancelled = threading.Event()

    def work(let_loop_continue):
        let_loop_continue()
        assert cancelled.wait(10)
        done.append(True)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                scope.cancel()
                cancelled.set()

            nursery.start_soon(cancel)
            await run_beside(work)
            assert done
