"""Simultaneous calls of several tasks for the same thing share one call and its result or failure."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
import trio
import trio.testing

from rewound.actors.access.remote.shared_calls import ExpiringCache, SharedCalls


class Slow:
    def __init__(self, error: Exception | None = None) -> None:
        self.calls = 0
        self._error = error

    async def __call__(self) -> int:
        self.calls += 1
        await trio.sleep(1)
        if self._error is not None:
            raise self._error
        return self.calls


async def test_result_is_shared(autojump_clock: trio.testing.MockClock) -> None:
    calls: SharedCalls[str, int] = SharedCalls()
    make, results = Slow(), []

    async def ask(key: str) -> None:
        results.append(await calls.result(key, make))

    async with trio.open_nursery() as nursery:
        for key in ("a", "a", "b", "a"):
            nursery.start_soon(ask, key)
    assert make.calls == 2 and trio.current_time() < 2
    await ask("a")
    assert make.calls == 3


async def test_failure_is_shared(autojump_clock: trio.testing.MockClock) -> None:
    calls: SharedCalls[str, int] = SharedCalls()
    make = Slow(ValueError("why"))

    async def ask() -> None:
        with pytest.raises(ValueError, match="why"):
            await calls.result("a", make)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    assert make.calls == 1


async def test_cancelled_caller_leaves_the_call_to_another(autojump_clock: trio.testing.MockClock) -> None:
    calls: SharedCalls[str, int] = SharedCalls()
    make, results = Slow(), []

    async def leave() -> None:
        with trio.move_on_after(0.5):
            await calls.result("a", make)

    async def stay() -> None:
        await trio.testing.wait_all_tasks_blocked()
        results.append(await calls.result("a", make))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        nursery.start_soon(stay)
        nursery.start_soon(stay)
    assert (make.calls, results) == (2, [2, 2])


async def test_failed_call_holds_nothing(autojump_clock: trio.testing.MockClock) -> None:
    calls: SharedCalls[str, int] = SharedCalls()

    class Reply:
        pass

    held: list[weakref.ref[Reply]] = []

    async def make() -> int:
        reply = Reply()
        held.append(weakref.ref(reply))
        await trio.sleep(1)
        raise ValueError("not JSON")

    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            await calls.result("a", make)
        assert held[0]() is None, "what the call received is freed without the garbage collector"
    finally:
        gc.enable()


async def test_cache_forgets_by_time_and_by_number(autojump_clock: trio.testing.MockClock) -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(2)
    cache.put("a", 1, 10)
    cache.put("b", 2, 20)
    assert cache.get("a") == 1
    cache.put("c", 3, 20)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
    autojump_clock.jump(10)
    assert (cache.get("a"), cache.get("c")) == (None, 3)
    cache.put("c", 4, 0)
    assert cache.get("c") is None and len(cache) == 0
