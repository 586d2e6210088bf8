"""Unauthenticated clients wait for their turns; authenticated ones never do. Time and work are virtual."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf

import pytest
import trio
from trio.lowlevel import checkpoint
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.unauthenticated import (
    UnauthenticatedClient,
    UnauthenticatedWork,
    WorkShares,
    address_key,
)
from rewound.gateway.message import Peer, Request, Response
from tests.cases import cases
from tests.gateway.connections.http2.raw_client import raw_client
from tests.gateway.connections.http_server import Host, served

SHARES = WorkShares()
TURN = 0.003  # seconds of work


class Processor:
    """The CPU time of the event loop."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Connection:
    """A connection of a client that sends without end, and what the server did for it."""

    def __init__(self, work: UnauthenticatedWork, processor: Processor, address: str) -> None:
        self.deadline = inf
        self.unauthenticated: UnauthenticatedClient | None = None
        self.peer = Peer(address)
        self.done = 0.0
        self._processor = processor
        work.accept(self, self.peer)
        self.client.pause()  # until it sends something

    @property
    def client(self) -> UnauthenticatedClient:
        assert self.unauthenticated is not None
        return self.unauthenticated

    async def one_turn(self, seconds: float = TURN) -> None:
        self.client.pause()
        await self.client.turn()
        self.work(seconds)

    def work(self, seconds: float) -> None:
        self._processor.now += seconds
        self.done += seconds

    async def send_without_end(self) -> None:
        while True:
            await self.one_turn()
            self.client.pause()
            await checkpoint()  # for more bytes, which have arrived


class Bench:
    def __init__(self) -> None:
        self.processor = Processor()
        self.work = UnauthenticatedWork(SHARES, self.processor)

    def connect(self, address: str = "192.0.2.1") -> Connection:
        return Connection(self.work, self.processor, address)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Bench, trio.Nursery]]:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.work.run)
        yield bench, nursery
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("addresses", "share", "burst"),
    [(1, SHARES.address, SHARES.address_burst), (8, SHARES.everyone, SHARES.everyone_burst)],
    ids=["one address", "eight addresses"],
)
async def test_work_is_limited_to_a_share_and_a_burst(
    addresses: int, share: float, burst: float, autojump_clock: MockClock
) -> None:
    async with running() as (bench, nursery):
        clients = [bench.connect(f"192.0.2.{index % addresses}") for index in range(40)]
        for client in clients:
            nursery.start_soon(client.send_without_end)
        await trio.sleep(20)
    assert 0 <= bench.processor.now - 20 * share <= burst + 2 * TURN
    each = [sum(one.done for one in clients[index::addresses]) for index in range(addresses)]
    assert max(each) - min(each) < 8 * TURN, "addresses take turns"
    done = [one.done for one in clients]
    assert max(done) - min(done) < 8 * TURN, "and so do the connections of an address"
    assert bench.work.delays > 40


async def test_another_address_is_not_delayed(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        for _ in range(40):
            nursery.start_soon(bench.connect().send_without_end)
        await trio.sleep(5)
        began = trio.current_time()
        await bench.connect("192.0.2.2").one_turn()
        assert trio.current_time() - began <= 2 * TURN / SHARES.everyone


async def test_new_connection_of_a_busy_address_is_the_next_one(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        for _ in range(40):
            nursery.start_soon(bench.connect().send_without_end)
        await trio.sleep(5)
        began = trio.current_time()
        await bench.connect().one_turn()
        assert trio.current_time() - began <= 2 * TURN / SHARES.address


ARRIVAL = 3  # turns from the first bytes to an authenticated request


async def _arrive(client: Connection, arrived: list[float]) -> None:
    for _ in range(ARRIVAL):
        await client.one_turn(0.001)
    client.peer.known = True
    client.client.pause()
    arrived.append(trio.current_time())


async def _begin_arriving(client: Connection) -> None:
    """A client that sends only the first part of a handshake."""
    await client.one_turn(0.001)
    client.client.pause()


async def test_client_that_arrives_after_a_burst_does_not_wait_for_it(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        for _ in range(2000):
            nursery.start_soon(_begin_arriving, bench.connect())
        await trio.sleep(1)
        assert bench.work.waiting > 1000
        began, arrived = trio.current_time(), list[float]()
        await _arrive(bench.connect(), arrived)
        assert arrived[0] - began <= 10 * 0.001 / SHARES.address
        assert bench.work.waiting > 1000
        nursery.cancel_scope.cancel()


async def test_clients_of_a_burst_arrive_one_after_the_other(autojump_clock: MockClock) -> None:
    """With equal turns for all, none would have authenticated before all have started."""
    async with running() as (bench, nursery):
        clients, arrived = [bench.connect() for _ in range(400)], list[float]()
        for client in clients:
            nursery.start_soon(_arrive, client, arrived)
        while len(arrived) < 100:
            await checkpoint()
        assert sum(bool(client.done) for client in clients) < 200
        while len(arrived) < 400:
            await checkpoint()
        assert trio.current_time() < 400 * ARRIVAL * 0.001, "who has authenticated pays back"


async def test_client_that_costs_much_waits_for_those_that_arrive(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        costly = [bench.connect() for _ in range(20)]
        for client in costly:
            nursery.start_soon(client.send_without_end)
        await trio.sleep(5)
        before, arrived = sum(client.done for client in costly), list[float]()
        for _ in range(10):
            await _arrive(bench.connect(), arrived)
        assert sum(client.done for client in costly) - before <= 10 * TURN


async def test_authenticated_connection_is_never_delayed_and_pays_back(autojump_clock: MockClock) -> None:
    async with running() as (bench, _):
        known, other = bench.connect(), bench.connect()
        await known.one_turn(1.0)
        known.client.pause()
        known.peer.known = True  # a request that had to wait for the identity provider
        await known.client.turn()
        assert (trio.current_time(), bench.work.delays) == (0, 0)
        known.client.pause()
        assert known.unauthenticated is None
        await other.one_turn()
        assert trio.current_time() == 0
        assert bench.work.delays == 1, "for one poll: that much work had been done since the last one"


async def test_few_work_between_two_polls(autojump_clock: MockClock) -> None:
    """However many connections are ready at the same time, and however little the server owes them."""
    async with running() as (bench, nursery):
        for index in range(40):
            nursery.start_soon(bench.connect(f"192.0.2.{index}").send_without_end)
        most = last = 0.0
        for _ in range(400):
            await checkpoint()
            most, last = max(most, bench.processor.now - last), bench.processor.now
            autojump_clock.jump(0.1)  # as if the machine were too busy to give the server its share
        # The counting task runs somewhere within a pass, so it may see parts of two.
        assert TURN <= most <= 2 * (SHARES.step + TURN)
        assert bench.processor.now > 100 * TURN


async def test_delay_extends_the_deadline(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        first, second = bench.connect(), bench.connect()
        await first.one_turn(1.0 + SHARES.address_burst)
        first.client.pause()
        second.deadline = 2.0
        nursery.start_soon(second.one_turn)
        await wait_all_tasks_blocked()
        assert second.client.waits
        await trio.sleep(1 / SHARES.address + 0.1)
        assert second.done == TURN
        assert second.deadline == pytest.approx(2 + 1 / SHARES.address)


async def test_interruption_ends_a_delay_of_reading_only(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        first, second = bench.connect(), bench.connect()
        await first.one_turn(1.0)
        with trio.CancelScope() as again:
            nursery.start_soon(_interrupted, first.client, lambda: again.cancel())
            await first.client.next_turn()
        assert again.cancelled_caught
        nursery.start_soon(_interrupted, second.client, lambda: None)
        with pytest.raises(trio.ClosedResourceError):
            await second.one_turn()


async def _interrupted(client: UnauthenticatedClient, then: Callable[[], None]) -> None:
    await wait_all_tasks_blocked()
    client.interrupt()
    await wait_all_tasks_blocked()
    then()


async def test_stopping_server_delays_no_client(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        clients = [bench.connect() for _ in range(5)]
        await clients[0].one_turn(100.0)
        clients[0].client.pause()
        for client in clients:
            nursery.start_soon(client.one_turn)
        await wait_all_tasks_blocked()
        assert bench.work.waiting == 5
        bench.work.stop()
        await wait_all_tasks_blocked()
        assert [client.done for client in clients] == [100 + TURN, *[TURN] * 4]
        await clients[1].one_turn(100.0)
        await clients[2].one_turn(100.0)
        assert trio.current_time() == 0


class MostWork(trio.abc.Instrument):
    """The most seconds of work between two polls."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._began = processor.now
        self.most = 0.0

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self._processor.now - self._began)
        self._began = self._processor.now


async def test_thousands_that_wait_when_the_server_stops_go_on_in_turns(autojump_clock: MockClock) -> None:
    async with running() as (bench, nursery):
        clients = [bench.connect() for _ in range(1000)]
        for client in clients:
            nursery.start_soon(_begin_arriving, client)
        await wait_all_tasks_blocked()
        assert bench.work.waiting > 800
        most = MostWork(bench.processor)
        trio.lowlevel.add_instrument(most)
        bench.work.stop()
        await wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(most)
        assert all(client.done for client in clients)
        assert trio.current_time() == 0
        assert most.most <= 2 * SHARES.step


async def test_clients_that_leave_while_they_wait_are_forgotten(autojump_clock: MockClock) -> None:
    """Even if more arrive than can be served: with the newest first, the oldest would wait for ever."""
    async with running() as (bench, nursery):
        first = bench.connect()
        await first.one_turn(100.0)
        first.client.pause()

        async def leaves(client: Connection) -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.one_turn()

        for _ in range(20):
            clients = [bench.connect() for _ in range(50)]
            for client in clients:
                nursery.start_soon(leaves, client)
            await wait_all_tasks_blocked()
            assert bench.work.waiting == 50
            for client in clients:
                client.client.interrupt()
            await wait_all_tasks_blocked()
            assert bench.work.waiting == 0
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_when_blocked, scope)
            await bench.connect().one_turn()
        assert bench.work.waiting == 0


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_work_of_others_while_a_handler_waits_is_not_counted(autojump_clock: MockClock) -> None:
    bench = Bench()
    client = bench.connect()

    async def handle() -> str:
        client.work(0.01)
        await trio.sleep(1)
        client.work(0.02)
        return "response"

    async def others() -> None:
        await trio.sleep(0.5)
        bench.processor.now += 100

    client.client.pause()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        assert await client.client.measured(handle()) == "response"
    assert client.client.spent == pytest.approx(0.03)


async def test_work_of_a_handler_after_it_has_authenticated_is_not_counted(autojump_clock: MockClock) -> None:
    async with running() as (bench, _):
        client, other = bench.connect(), bench.connect()

        async def handle() -> None:
            client.work(0.01)
            client.peer.known = True
            for _ in range(10):
                await checkpoint()
                client.work(1.0)  # a long list
            await trio.sleep(60)  # for its client

        async def measured() -> None:
            await client.client.measured(handle())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(measured)
            await wait_all_tasks_blocked()
            await other.one_turn()
            assert trio.current_time() == 0, "another connection of the address does not wait for that work"
            nursery.cancel_scope.cancel()


@cases(
    "address, key",
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("2001:db8:1:2::1", "2001:0db8:0001:0002"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
    ],
)
def test_whose_account_an_address_has(address: str, key: str) -> None:
    assert address_key(address) == key


async def test_addresses_are_forgotten(autojump_clock: MockClock) -> None:
    bench = Bench()
    for index in range(5000):
        connection = bench.connect(f"192.0.{index // 250}.{index % 250}")
        connection.client.close()
        assert connection.unauthenticated is None
    kept = bench.connect("192.0.2.251")
    kept.work(1.0)
    kept.client.pause()
    assert len(bench.work._addresses) <= 1025
    for index in range(2000):
        bench.connect(f"198.51.{index // 250}.{index % 250}").client.close()
    assert "192.0.2.251" in bench.work._addresses, "as long as it has connections"


def served_with(processor: Processor, cost: float) -> AbstractAsyncContextManager[Host]:
    """A server whose requests take this long, and that authenticates clients with a token."""

    async def handle(request: Request) -> Response:
        processor.now += cost
        request.peer.known = request.peer.known or b"authorization" in request.headers
        return Response(200, b"")

    return served(handle, Limits(unauthenticated=SHARES))


GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
KNOWN = b"GET / HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer x\r\n\r\n"


async def _send(host: Host, protocol: str, count: int) -> None:
    """Send requests together, and read all responses."""
    if protocol == "HTTP/2":
        async with raw_client(host) as client:
            for stream in [await client.request() for _ in range(count)]:
                assert (await client.response(stream)).status == 200
        return
    async with host.connect() if protocol == "HTTP/1.1" else host.connect_tls() as client:
        await client.send(GET * count)
        for _ in range(count):
            assert (await client.reply()).status == 200


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/1.1 with TLS", "HTTP/2"])
async def test_requests_of_unauthenticated_clients_are_delayed_and_all_answered(
    protocol: str, autojump_clock: MockClock
) -> None:
    processor = Processor()
    async with served_with(processor, 0.01) as host:
        host.server.state.unauthenticated.clock = processor
        autojump_clock.autojump_threshold = 0.01
        began = trio.current_time()
        await _send(host, protocol, 40)
        seconds = trio.current_time() - began
    least = (40 * 0.01 - SHARES.address_burst - 0.01) / SHARES.address
    assert least <= seconds <= least + 0.2
    assert host.statistics.delays >= 30


async def test_requests_after_an_authenticated_one_are_not_delayed(mock_clock: MockClock) -> None:
    """On an address whose other clients have used up its share: time does not pass."""
    processor = Processor()
    async with served_with(processor, 0.01) as host, host.connect() as known, host.connect() as other:
        host.server.state.unauthenticated.clock = processor
        await known.send(KNOWN + GET * 40)
        await other.send(GET * 40)
        for _ in range(41):
            assert (await known.reply()).status == 200
        for _ in range(40):
            await known.get()
        assert processor.now >= 81 * 0.01
        assert host.statistics.requests < 81 + 40
        host.stop.set()
        for _ in range(40):
            assert (await other.reply()).status == 200
