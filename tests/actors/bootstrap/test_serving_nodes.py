"""The Endpoints of the API's Service list all serving nodes: a new one at once, a dead one until its lease expires."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.bootstrap.objects import ServingAddress
from rewound.actors.bootstrap.serving import INTERVAL, TTL, ServingNodes
from rewound.actors.store.etcd.records import Keys
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd

A, B, C = (ServingAddress(f"192.0.2.{number}", 6443) for number in (1, 2, 3))


class Running:
    """One node; `published` is what it wrote last."""

    def __init__(self, cluster: FakeCluster, address: ServingAddress) -> None:
        self.etcd = FakeEtcd(cluster)
        self.nodes = ServingNodes(self.etcd, Keys("/test"), address.address, address)
        self.stop = trio.Event()
        self.published: set[ServingAddress] = set()

    async def run(self) -> None:
        self.published = await self.nodes.join()
        await self.nodes.run(self._publish, self.stop)

    async def _publish(self, found: Collection[ServingAddress]) -> None:
        self.published = set(found)


@asynccontextmanager
async def running(*addresses: ServingAddress) -> AsyncIterator[list[Running]]:
    cluster = FakeCluster()
    async with trio.open_nursery() as nursery:
        found = [Running(cluster, one) for one in addresses]
        for one in found:
            nursery.start_soon(one.run)
            await wait_all_tasks_blocked()
        yield found
        nursery.cancel_scope.cancel()


async def test_new_node_publishes_all_and_the_others_find_it(autojump_clock: MockClock) -> None:
    async with running(A, B, C) as nodes:
        assert [one.published for one in nodes] == [{A}, {A, B}, {A, B, C}]
        await trio.sleep(INTERVAL + 1)
        assert [one.published for one in nodes] == [{A, B, C}] * 3


async def test_stopped_node_publishes_those_that_stay(autojump_clock: MockClock) -> None:
    async with running(A, B) as (a, b):
        b.stop.set()
        await b.nodes.left.wait()
        assert b.published == {A}
        a.stop.set()
        await a.nodes.left.wait()
        assert a.published == {A}  # the last address is never removed


async def test_node_that_is_cut_off_is_removed_with_its_lease_and_returns(autojump_clock: MockClock) -> None:
    async with running(A, B) as (a, b):
        b.etcd.is_cut = True
        await trio.sleep(TTL - INTERVAL - 1)
        assert a.published == {A, B}
        await trio.sleep(2 * INTERVAL + 2)
        assert a.published == {A}
        b.etcd.is_cut = False
        await trio.sleep(2 * INTERVAL + 2)
        assert a.published == b.published == {A, B}


async def test_end_does_not_wait_for_etcd(autojump_clock: MockClock) -> None:
    async with running(A) as (a,):
        a.etcd.is_cut, a.etcd.gives_up_after = True, 1000.0
        a.stop.set()
        with trio.fail_after(INTERVAL):
            await a.nodes.left.wait()
