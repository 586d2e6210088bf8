"""Connections that become readable in the same pass of the event loop take turns, by the time that each needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.gateway.connections.read_turns import ReadTurns
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served

MANY = 300


class Connection:
    def __init__(self, *, streaming: bool = False) -> None:
        self.streaming = streaming


class Bench(trio.abc.Instrument):
    """Connections that each use some CPU time, and the most time that all used between two polls."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = self._began = self.most = 0.0
        self.turns = ReadTurns(lambda: self._now)
        self.done: list[Connection] = []

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self._now - self._began)
        self._began = self._now

    async def read(self, connection: Connection) -> None:
        if self.turns.over():
            await self.turns.wait(connection)
        self._now += self._seconds
        self.done.append(connection)


@asynccontextmanager
async def running(seconds: float) -> AsyncIterator[tuple[Bench, trio.Nursery]]:
    bench = Bench(seconds)
    trio.lowlevel.add_instrument(bench)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.turns.run)
        await wait_all_tasks_blocked()
        yield bench, nursery
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(bench)


@pytest.mark.parametrize("milliseconds", [0.05, 0.5, 1.0])
async def test_those_that_become_readable_together_hold_the_loop_for_a_turn(milliseconds: float) -> None:
    async with running(milliseconds / 1000) as (bench, nursery):
        for _ in range(3):
            # The server estimates the time of one from the previous ones.
            nursery.start_soon(bench.read, Connection())
        await wait_all_tasks_blocked()
        for _ in range(MANY):
            nursery.start_soon(bench.read, Connection())
        await wait_all_tasks_blocked()
        assert len(bench.done) == MANY + 3
        assert not bench.turns.waiting
        assert bench.most <= 0.005


async def test_a_request_does_not_wait_for_all_that_leave() -> None:
    async with running(0.001) as (bench, nursery):
        await bench.read(Connection())
        for _ in range(MANY):
            nursery.start_soon(bench.read, Connection(streaming=True))
        with trio.fail_after(60):
            while not bench.turns.waiting:
                await trio.lowlevel.checkpoint()
        await bench.read(Connection())
        assert len(bench.done) < MANY / 2


async def test_one_that_is_interrupted_or_cancelled_waits_no_more() -> None:
    turns, interrupted, scope = ReadTurns(), Connection(streaming=True), trio.CancelScope()

    async def leaves() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await turns.wait(interrupted)

    async def given_up() -> None:
        with scope:
            await turns.wait(Connection())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaves)
        nursery.start_soon(given_up)
        await wait_all_tasks_blocked()
        assert turns.waiting == 2
        turns.interrupt(interrupted)
        turns.interrupt(interrupted)  # waits no more
        scope.cancel()
    assert not turns.waiting


async def test_requests_that_arrive_together_are_all_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.gateway.connections.read_turns._MOST", 1)
    monkeypatch.setattr("rewound.gateway.connections.read_turns._FEWEST", 1)

    async def handle(request: Request) -> Response:
        request.peer.known = True
        return Response(200, b"")

    async with served(handle) as host, trio.open_nursery() as nursery:

        async def ask() -> None:
            async with host.connect() as client:
                for _ in range(3):
                    assert (await client.get()).status == 200

        for _ in range(20):
            nursery.start_soon(ask)
