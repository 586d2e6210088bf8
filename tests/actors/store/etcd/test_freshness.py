"""Consistent reads wait for all that other nodes have acknowledged, and share a read or a transaction of etcd."""

import pytest
import trio

from rewound.actors.errors import Unreachable
from rewound.actors.store.etcd.epoch import newest_version
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import RunningNode, running
from tests.actors.store.proposals import creation


async def test_read_waits_until_the_node_has_an_acknowledged_write(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        b.etcd.stalled = True
        assert await a.write(creation(1, "x")) is None
        assert b.feed.head < a.feed.head
        async with trio.open_nursery() as nursery:
            nursery.start_soon(b.node.freshness.wait)
            await trio.sleep(1)
            assert nursery.child_tasks
            b.etcd.stalled = False
        assert b.feed.head == a.feed.head


async def test_reads_that_wait_share_one_read_of_etcd(tmp_path, autojump_clock):
    async with running(FakeCluster(), tmp_path, "a") as a:
        assert await a.write(creation(1, "x")) is None
        ranges = a.etcd.ranges
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(a.node.freshness.wait)
        assert a.etcd.ranges <= ranges + 2


async def test_read_without_quorum_is_refused(tmp_path, autojump_clock):
    async with running(FakeCluster(), tmp_path, "a") as a:
        a.etcd.is_cut = True
        with pytest.raises(Unreachable, match="no member answers"):
            await a.node.freshness.wait()


class Slow:
    """Transactions of a node take a while until etcd applies them."""

    SECONDS = 0.04

    def __init__(self, node: RunningNode) -> None:
        self._txn = node.etcd.txn

    async def txn(self, *args, **named):
        await trio.sleep(self.SECONDS)
        return await self._txn(*args, **named)


@pytest.mark.parametrize("another", [True, False], ids=["another transaction follows", "none follows"])
async def test_write_needs_no_read_while_transactions_follow_each_other(
    tmp_path, autojump_clock, monkeypatch, another
):
    reads: list[int] = []

    async def read(*args):
        reads.append(await newest_version(*args))
        return reads[-1]

    monkeypatch.setattr("rewound.actors.store.etcd.freshness.newest_version", read)
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        a.etcd.txn = Slow(a).txn
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.write, creation(1, "first"))
            await trio.sleep(Slow.SECONDS / 2)
            if another:
                nursery.start_soon(a.write, creation(1, "second"))
            assert await b.write(creation(1, "of-b")) is None
            before = trio.current_time()
            await a.node.freshness.wait(to_write=True)
            assert a.feed.head >= b.events()[-1].offset
            assert trio.current_time() - before < Slow.SECONDS * (2 if another else 1)
            assert len(reads) == (0 if another else 1)


async def test_write_is_fresh_when_the_transaction_that_it_waits_for_fails(tmp_path, autojump_clock):
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        a.etcd.txn = Slow(a).txn
        assert await b.write(creation(1, "taken")) is None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.write, creation(1, "first"))
            await trio.sleep(Slow.SECONDS / 2)
            nursery.start_soon(a.write, creation(1, "taken"))  # etcd does not apply it
            with trio.fail_after(10):
                await a.node.freshness.wait(to_write=True)
            assert a.feed.head >= b.events()[0].offset


async def test_write_does_not_wait_for_a_transaction_without_a_reply(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(Slow, "SECONDS", 8.0)
    cluster = FakeCluster()
    async with running(cluster, tmp_path, "a") as a, running(cluster, tmp_path, "b") as b:
        a.etcd.txn = Slow(a).txn
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.write, creation(1, "first"))
            await trio.sleep(1)
            assert await b.write(creation(1, "of-b")) is None
            with trio.fail_after(1):
                await a.node.freshness.wait(to_write=True)
            assert a.feed.head >= b.events()[-1].offset
