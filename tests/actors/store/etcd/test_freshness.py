"""Consistent reads wait for everything that other nodes have acknowledged, and share one read of etcd."""

import pytest
import trio

from rewound.actors.errors import Unreachable
from tests.actors.store.etcd.fake import FakeCluster
from tests.actors.store.etcd.nodes import running
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
