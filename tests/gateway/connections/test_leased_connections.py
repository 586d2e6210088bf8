"""A worker whose leased connections are used up lets new ones wait until it gets more, or closes an idle one."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rewound.actors.flowcontrol.leases import Change, Demand, Holder, Order
from rewound.gateway.connections.limits import CONNECTIONS, ConnectionLease, Limits
from tests.gateway.connections.http_server import served
from tests.settling import advance


class Worker:
    def __init__(self, most: int = 1000) -> None:
        self.holder, self.asked, self.number = Holder(), trio.Event(), 0
        self.holder.wake = self._wake
        self.lease = ConnectionLease(self.holder, most)

    def _wake(self) -> None:
        self.asked.set()

    def order(self, granted: int, target: int) -> Demand:
        self.number += 1
        order = Order(self.number, {CONNECTIONS: Change(granted, target, 100)})
        return self.holder.receive(order).demands[CONNECTIONS]


async def test_worker_asks_for_more_connections_than_it_may_have(mock_clock: MockClock) -> None:
    worker = Worker()
    worker.order(1, 1)
    async with served(limits=Limits(lease=worker.lease)) as host, host.connect() as first:
        assert (await first.get()).status == 200
        assert (worker.holder.lease(CONNECTIONS).demand(), worker.asked.is_set()) == (Demand(1, 1, 1), False)
        async with host.connect() as second:
            await second.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await worker.asked.wait()
            assert worker.holder.lease(CONNECTIONS).demand() == Demand(1, 1, 17, 2)
            worker.order(5, 6)
            assert (await second.reply()).status == 200
            assert (await first.get()).status == 200
            assert worker.holder.lease(CONNECTIONS).demand() == Demand(6, 2, 2)


async def test_idle_connection_is_closed_if_there_are_no_more(mock_clock: MockClock) -> None:
    worker = Worker()
    worker.order(1, 1)
    async with served(limits=Limits(lease=worker.lease)) as host, host.connect() as first:
        assert (await first.get()).status == 200
        async with host.connect() as second:
            await second.send(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
            await worker.asked.wait()
            await advance(mock_clock, 1)
            assert (await second.reply()).status == 200
            assert await first.ended()
            assert worker.lease.open == 1


def test_worker_asks_for_no_more_than_its_files_allow() -> None:
    worker = Worker(most=3)
    worker.lease.open = 3
    assert worker.lease.demand() == (3, 3, 0)
