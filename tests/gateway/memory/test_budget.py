"""The memory budget: what one user, all users and unauthenticated clients may hold, and who waits."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.memory import budget as memory
from rewound.gateway.memory.budget import MAX_WAIT, MemoryBudget, TooManyRequests
from rewound.gateway.memory.process import ProcessMemory
from rewound.gateway.message import Peer, Request

LARGE = 2 * memory.SMALL


def request(user: str = "") -> Request:
    return Request("POST", "/", "", {}, b"", Peer(), user=user)


def test_one_user_holds_at_most_half() -> None:
    budget = MemoryBudget(1000)
    first, second, other = request("ann"), request("ann"), request("bob")
    budget.take(first, 400)
    with pytest.raises(TooManyRequests, match="your other requests"):
        budget.take(second, 101)
    budget.take(other, 500)
    assert budget.statistics().held == 900
    assert second.reserved == 0


def test_unauthenticated_clients_hold_an_eighth_together() -> None:
    budget = MemoryBudget(1000)
    budget.take(request(), 100)
    with pytest.raises(TooManyRequests, match="memory limit"):
        budget.take(request(), 26)
    budget.take(request("ann"), 500)


def test_an_authenticated_request_counts_for_its_user() -> None:
    budget = MemoryBudget(1000)
    one = request()
    budget.take(one, 120)
    budget.assign(one, "ann")
    budget.take(request(), 120)
    with pytest.raises(TooManyRequests):
        budget.take(request("ann"), 400)


def test_all_that_was_taken_is_given_back_once() -> None:
    budget = MemoryBudget(1000)
    one = request("ann")
    budget.take(one, 300)
    budget.take(one, 100)
    budget.release(one, 150)
    assert (one.reserved, budget.statistics().held) == (250, 250)
    budget.release(one)
    budget.release(one)
    assert (one.reserved, budget.statistics().held, budget.statistics().most_held) == (0, 0, 400)


async def test_a_request_waits_for_room(autojump_clock: MockClock) -> None:
    budget = MemoryBudget(1000)
    large = [request("ann"), request("bob")]
    for one in large:
        budget.take(one, 500)
    taken: list[str] = []

    async def wait(user: str, size: int) -> None:
        await budget.wait_for(request(user), size)
        taken.append(user)

    async with trio.open_nursery() as nursery:
        for user in ("cid", "dan"):
            nursery.start_soon(wait, user, 400)
            await wait_all_tasks_blocked()
        assert budget.statistics().waiting == 2
        budget.release(large[0])
        await wait_all_tasks_blocked()
        assert taken == ["cid"]
        budget.release(large[1])
    assert taken == ["cid", "dan"]
    assert budget.statistics().waiting == 0


async def test_a_request_that_waits_too_long_is_refused(autojump_clock: MockClock) -> None:
    budget = MemoryBudget(1000)
    budget.take(request("ann"), 500)
    budget.take(request("bob"), 500)
    began = trio.current_time()
    with pytest.raises(TooManyRequests):
        await budget.wait_for(request("cid"), 1)
    assert trio.current_time() - began == MAX_WAIT
    assert budget.statistics().waiting == 0


async def test_what_never_fits_is_refused_at_once() -> None:
    budget = MemoryBudget(1000)
    with pytest.raises(TooManyRequests):
        await budget.wait_for(request("ann"), 501)


async def test_used_up_share_of_one_user_delays_no_other_user(autojump_clock: MockClock) -> None:
    budget = MemoryBudget(1000)
    first = request("ann")
    budget.take(first, 500)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.wait_for, request("ann"), 100)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        await budget.wait_for(request("bob"), 100)
        assert trio.current_time() == began
        budget.release(first)


async def test_requests_of_one_user_get_room_in_order(autojump_clock: MockClock) -> None:
    budget = MemoryBudget(1000)
    first = request("ann")
    budget.take(first, 450)
    taken: list[int] = []

    async def wait(size: int) -> None:
        await budget.wait_for(request("ann"), size)
        taken.append(size)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 400)
        await wait_all_tasks_blocked()
        nursery.start_soon(wait, 50)
        await wait_all_tasks_blocked()
        assert taken == []
        budget.release(first, 51)
        await wait_all_tasks_blocked()
        assert taken == []
        budget.release(first)


async def test_requests_beyond_those_that_may_wait_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(memory, "MAX_WAITING", 1)
    budget = MemoryBudget(1000)
    first = request("ann")
    budget.take(first, 500)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.wait_for, request("ann"), 100)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        with pytest.raises(TooManyRequests):
            await budget.wait_for(request("ann"), 100)
        assert trio.current_time() == began
        budget.release(first)


def test_large_requests_wait_while_the_process_is_at_its_limit() -> None:
    used = 900_000
    process = ProcessMemory(1_000_000, read=lambda: used, clock=lambda: 1.0, trim=lambda: None)
    budget = MemoryBudget(1_000_000, process)
    budget.take(request("ann"), 100_000)
    with pytest.raises(TooManyRequests):
        budget.take(request("ann"), 100_001)
    budget.take(request("ann"), memory.SMALL)


async def test_a_request_that_waits_sees_that_the_process_uses_less(autojump_clock: MockClock) -> None:
    used = [2 * LARGE]
    process = ProcessMemory(2 * LARGE, read=lambda: used[0], clock=trio.current_time, trim=lambda: None)
    budget = MemoryBudget(8 * LARGE, process)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.wait_for, request("ann"), LARGE)
        await wait_all_tasks_blocked()
        assert budget.statistics().waiting == 1
        used[0] = 0
    assert (budget.held, budget.statistics().waiting) == (LARGE, 0)
    assert trio.current_time() < MAX_WAIT


async def test_a_request_behind_one_that_was_cancelled_gets_room(autojump_clock: MockClock) -> None:
    budget = MemoryBudget(1000)
    budget.take(request("ann"), 300)
    scope = trio.CancelScope()

    async def wait_in_vain() -> None:
        with scope:
            await budget.wait_for(request("ann"), 500)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_in_vain)
        await wait_all_tasks_blocked()
        nursery.start_soon(budget.wait_for, request("ann"), 100)
        await wait_all_tasks_blocked()
        assert budget.statistics().waiting == 2
        scope.cancel()
    assert (budget.held, budget.statistics().waiting) == (400, 0)
    assert trio.current_time() < MAX_WAIT


async def test_room_that_comes_in_the_instant_of_a_cancellation_goes_to_others() -> None:
    budget = MemoryBudget(1000)
    first, given_up, other = request("ann"), request("ann"), request("bob")
    budget.take(first, 500)
    budget.take(request("cid"), 400)
    scope = trio.CancelScope()

    async def wait_in_vain() -> None:
        with scope:
            await budget.wait_for(given_up, 500)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_in_vain)
        await wait_all_tasks_blocked()
        nursery.start_soon(budget.wait_for, other, 500)
        await wait_all_tasks_blocked()
        scope.cancel()
        budget.release(first)
    assert (given_up.reserved, other.reserved) == (0, 500)
    assert budget.statistics().waiting == 0


async def test_free_memory_is_returned_once_after_large_requests(autojump_clock: MockClock) -> None:
    trims: list[float] = []
    process = ProcessMemory(memory.NO_LIMIT, trim=lambda: trims.append(trio.current_time()))
    budget = MemoryBudget(4 * memory.MUCH, process)

    def hold(size: int) -> None:
        one = request("ann")
        budget.take(one, size)
        budget.release(one)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.trim_after_work)
        hold(memory.MUCH - 1)
        await trio.sleep(10 * memory.REST)
        assert trims == []
        for _ in range(10):  # each puts it off
            hold(memory.MUCH)
            await trio.sleep(memory.REST * 0.9)
        assert trims == []
        last = trio.current_time()
        await trio.sleep(10 * memory.REST)
        assert len(trims) == 1
        assert trims[0] <= last + 2 * memory.REST
        nursery.cancel_scope.cancel()
