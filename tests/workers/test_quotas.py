"""Limits shared by all workers, over channels: who holds what when workers start, want more, and end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from rewound.actors.flowcontrol.configuration import LevelSettings
from rewound.actors.flowcontrol.seats import Flow, Level, SchemaCounts, Seats
from rewound.workers.channel import Channel
from rewound.workers.quotas import QuotasOfWorker, QuotasOfWriter, connect_locally

LEVEL = "level"


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():
            await trio.sleep(0.005)


class Worker:
    """A priority level with the seats of a worker, whose process has this id."""

    def __init__(self, process: int) -> None:
        self.quotas = QuotasOfWorker(process)
        self.seats = Seats(holder=self.quotas.holder)
        self.level: Level = self.seats.set_level(
            LevelSettings(LEVEL, "", exempt=False, seats=8, queue_length=50)
        )
        self.lease = self.quotas.holder.lease(LEVEL)
        self.others: Sequence[int] = ()
        self.channel: Channel
        self.quotas.report_processes(self.count)
        self.release = trio.Event()

    def count(self, processes: Sequence[int]) -> None:
        self.others = processes

    async def request(self) -> None:
        flow, waited = Flow(self.level, SchemaCounts("", LEVEL), (0,), None, limited=True), None
        if not self.seats.try_start(flow, 1):
            waited = await self.seats.wait(flow, 1)
        await self.release.wait()
        self.seats.end(flow, 1, waited)

    async def connect(self, writer: QuotasOfWriter, nursery: trio.Nursery) -> None:
        here, there = (trio.SocketStream(one) for one in trio.socket.socketpair())
        own = self.channel = Channel(here)
        other = Channel(there)
        own.notices.update(self.quotas.notices(lambda: own))
        other.notices.update(writer.notices(lambda: other))

        async def run_other() -> None:
            await other.run()
            writer.disconnected(other)

        nursery.start_soon(own.run)
        nursery.start_soon(run_other)
        self.quotas.connected(own)


@asynccontextmanager
async def other_process() -> AsyncIterator[subprocess.Popen[bytes]]:
    """Something that has a process id, and can end."""
    process = subprocess.Popen(["sleep", "1000"])
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


async def test_seats_move_to_where_requests_wait_and_return_from_workers_that_end() -> None:
    limits = {LEVEL: 8, f"{LEVEL}/queue": 50}
    async with other_process() as process, trio.open_nursery() as nursery:
        writer = QuotasOfWriter(lambda: dict(limits), ())
        first, second = Worker(os.getpid()), Worker(process.pid)
        nursery.start_soon(writer.run)
        for worker in (first, second):
            nursery.start_soon(worker.quotas.run)
            nursery.start_soon(worker.seats.run)
            await worker.connect(writer, nursery)
            await worker.quotas.ordered()
        await until(lambda: (first.level.seats, second.level.seats) == (4, 4))
        await until(lambda: len(first.others) == 2)
        assert set(first.others) == {os.getppid(), process.pid}

        for _ in range(20):
            nursery.start_soon(first.request)
        await until(lambda: (first.level.running, second.lease.held) == (7, 1))  # the other keeps one

        limits[LEVEL] = 5
        writer.reconfigure()
        await until(lambda: first.lease.limit == 5)
        assert first.level.seats <= 5
        limits[LEVEL] = 8
        writer.reconfigure()
        await until(lambda: first.level.seats == 7)

        second.channel.close()
        await trio.sleep(0.1)
        assert first.level.running == 7  # the process of the other one still lives
        process.kill()
        process.wait(30)
        await until(lambda: first.level.running == 8)
        nursery.cancel_scope.cancel()


async def test_next_writer_process_grants_nothing_before_it_knows_who_holds_what() -> None:
    async with other_process() as process, trio.open_nursery() as nursery:
        first, second = Worker(os.getpid()), Worker(process.pid)
        for worker in (first, second):
            nursery.start_soon(worker.quotas.run)
            nursery.start_soon(worker.seats.run)
        async with trio.open_nursery() as of_writer:
            writer = QuotasOfWriter(lambda: {LEVEL: 8}, ())
            of_writer.start_soon(writer.run)
            await first.connect(writer, of_writer)
            await until(lambda: first.level.seats == 8)
            for _ in range(8):
                nursery.start_soon(first.request)
            await until(lambda: first.level.running == 8)
            of_writer.cancel_scope.cancel()

        writer = QuotasOfWriter(lambda: {LEVEL: 8}, (os.getpid(), process.pid))
        nursery.start_soon(writer.run)
        await second.connect(writer, nursery)
        nursery.start_soon(second.request)
        await trio.sleep(0.1)
        assert (first.level.running, second.level.running, second.lease.held) == (8, 0, 0)
        await first.connect(writer, nursery)
        first.release.set()
        await until(lambda: second.level.running == 1)
        nursery.cancel_scope.cancel()


async def test_writer_process_that_stops_grants_nothing_more() -> None:
    async with trio.open_nursery() as nursery:
        writer, worker = QuotasOfWriter(lambda: {LEVEL: 8}, ()), Worker(os.getpid())
        nursery.start_soon(writer.run)
        writer.stop()
        await worker.connect(writer, nursery)
        await worker.channel.drained()
        await trio.sleep(0.05)
        assert worker.lease.held == 0
        nursery.cancel_scope.cancel()


async def test_writer_process_holds_a_part_like_workers() -> None:
    limits = {LEVEL: 8, f"{LEVEL}/queue": 500}
    async with other_process() as process, trio.open_nursery() as nursery:
        writer = QuotasOfWriter(lambda: limits, ())
        own, other = Worker(os.getpid()), Worker(process.pid)
        nursery.start_soon(writer.run)
        nursery.start_soon(connect_locally(own.quotas, writer).run)
        for worker in (own, other):
            nursery.start_soon(worker.quotas.run)
            nursery.start_soon(worker.seats.run)
        await own.quotas.ordered()
        assert own.level.seats == 8
        await other.connect(writer, nursery)
        nursery.start_soon(other.request)
        await until(lambda: other.level.running == 1)
        for _ in range(20):
            nursery.start_soon(own.request)
        await until(lambda: own.level.running == 7)
        assert sorted(own.others) == sorted([os.getppid(), process.pid])
        own.release.set()
        for _ in range(20):
            nursery.start_soon(other.request)
        await until(lambda: (other.level.running, own.lease.held) == (7, 1))
        drain = trio.Event()
        nursery.start_soon(own.quotas.leave_with, drain)
        drain.set()
        await until(lambda: (other.level.running, own.lease.held) == (8, 0))
        nursery.cancel_scope.cancel()
