"""A mailbox is bounded, keeps the order of messages, and returns all of them at once."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.errors import Overloaded
from rewound.actors.runtime.mailbox import Mailbox, Reply


async def test_drain_takes_all_messages_in_order():
    mailbox: Mailbox[int] = Mailbox(8)
    for number in range(5):
        mailbox.send_nowait(number)
    assert await mailbox.drain() == [0, 1, 2, 3, 4]


async def test_drain_waits_for_the_first_message():
    mailbox: Mailbox[str] = Mailbox(8)
    taken: list[list[str]] = []

    async def owner():
        taken.append(await mailbox.drain())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(owner)
        await wait_all_tasks_blocked()
        mailbox.send_nowait("a")
        mailbox.send_nowait("b")
    assert taken == [["a", "b"]]


async def test_full_mailbox_refuses_and_counts_messages():
    mailbox: Mailbox[int] = Mailbox(2)
    mailbox.send_nowait(1)
    mailbox.send_nowait(2)
    with pytest.raises(Overloaded):
        mailbox.send_nowait(3)
    statistics = mailbox.statistics()
    assert (statistics.waiting, statistics.received, statistics.refused) == (2, 2, 1)


async def test_cancelled_owner_can_drain_again():
    mailbox: Mailbox[int] = Mailbox(2)
    with trio.move_on_after(0):
        await mailbox.drain()
    mailbox.send_nowait(1)
    assert await mailbox.drain() == [1]


async def test_reply_may_come_before_or_after_the_wait():
    early: Reply[int] = Reply()
    early.succeed(1)
    assert await early.wait() == 1
    late: Reply[int] = Reply()
    async with trio.open_nursery() as nursery:

        async def complete():
            await wait_all_tasks_blocked()
            late.succeed(2)

        nursery.start_soon(complete)
        assert await late.wait() == 2


async def test_reply_after_a_cancelled_wait_is_dropped():
    reply: Reply[int] = Reply()
    with trio.move_on_after(0):
        await reply.wait()
    reply.succeed(1)
    assert await reply.wait() == 1


async def test_failed_reply_raises():
    reply: Reply[int] = Reply()
    reply.fail(KeyError("x"))
    with pytest.raises(KeyError):
        await reply.wait()
