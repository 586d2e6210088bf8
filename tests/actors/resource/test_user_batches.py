"""Deletions of collections: a user has one batch of commands at a time, and all users share the size of one."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.resource.collection import BATCH, SMALLEST_BATCH, UserBatches


async def test_requests_of_one_user_send_their_batches_one_after_the_other() -> None:
    batches, at_once, most, done = UserBatches(), 0, 0, []

    async def request(number: int) -> None:
        nonlocal at_once, most
        for _ in range(3):
            async with batches.turn("alice"):
                at_once += 1
                most = max(most, at_once)
                await trio.lowlevel.checkpoint()
                at_once -= 1
        done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(request, number)
    assert (most, sorted(done)) == (1, list(range(5)))
    assert batches.size == BATCH  # nothing is left of the user


async def test_batch_that_waits_delays_no_other_user() -> None:
    batches, started, end = UserBatches(), [], trio.Event()

    async def request(user: str) -> None:
        async with batches.turn(user):
            started.append((user, batches.size))
            await end.wait()

    async with trio.open_nursery() as nursery:
        for user in ("alice", "alice", "bob", "carol"):
            nursery.start_soon(request, user)
            await wait_all_tasks_blocked()
        assert started == [("alice", BATCH), ("bob", BATCH // 2), ("carol", BATCH // 3)]
        end.set()
    assert started[3:] == [("alice", BATCH)]


async def test_batches_of_many_users_stay_small_and_never_empty() -> None:
    batches, end = UserBatches(), trio.Event()

    async def request(user: str) -> None:
        async with batches.turn(user):
            await end.wait()

    async with trio.open_nursery() as nursery:
        for number in range(4 * BATCH):
            nursery.start_soon(request, f"user-{number}")
        await wait_all_tasks_blocked()
        assert batches.size == SMALLEST_BATCH
        end.set()


async def test_cancelled_request_leaves_its_turn_to_the_next() -> None:
    batches, started = UserBatches(), []

    async def request(number: int) -> None:
        async with batches.turn("alice"):
            started.append(number)
            if not number:
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(request, 1)
            nursery.start_soon(cancel_soon, scope)
            await request(0)
    assert sorted(started) in ([0, 1], [1])
    assert batches.size == BATCH


async def cancel_soon(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()
