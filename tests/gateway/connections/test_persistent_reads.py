"""Sockets that stay registered with epoll: a wait for input ends when trio's own would, and the loop never spins."""

from __future__ import annotations

import runpy
import socket
from collections.abc import Iterator

import pytest
import trio
from trio.lowlevel import notify_closing, wait_readable, wait_writable
from trio.testing import wait_all_tasks_blocked

from actors.tasks import resumption
from gateway.connections import persistent_reads
from gateway.connections.persistent_reads import POSSIBLE, PersistentReads, use, wait_input

needs_known_trio = pytest.mark.skipif(not POSSIBLE, reason="needs epoll and a release of trio that is known")

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    here.setblocking(False)
    yield here, there
    here.close()
    there.close()


def fill(sock: socket.socket) -> None:
    """Send until the buffers are full."""
    sock.setblocking(False)
    try:
        while True:
            sock.send(bytes(65536))
    except BlockingIOError:
        pass


def empty(sock: socket.socket) -> None:
    sock.setblocking(False)
    try:
        while True:
            sock.recv(65536)
    except BlockingIOError:
        pass


async def read(sock: socket.socket, expected: bytes) -> None:
    await wait_input(sock.fileno())
    assert sock.recv(9) == expected


class Polls(trio.abc.Instrument):
    """Counts how often the loop polls."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class Registrations:
    """Counts how often a socket is registered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fd: int) -> None:
        self.count, self._fd = 0, fd
        for name in ("arm", "_disarm", "_update_registrations"):
            self._wrap(monkeypatch, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(PersistentReads, name)

        def counted(*arguments: object) -> object:
            self.count += arguments[1] == self._fd
            return original(*arguments)

        monkeypatch.setattr(PersistentReads, name, counted)


@needs_known_trio
async def test_socket_is_registered_once_for_many_requests(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = pair
    assert use()
    counted = Registrations(monkeypatch, here.fileno())
    for number in range(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, here, b"%d" % number)
            await wait_all_tasks_blocked()
            there.send(b"%d" % number)
    assert counted.count == 1
    notify_closing(here)


@needs_known_trio
async def test_input_that_nobody_waits_for_neither_spins_nor_gets_lost(pair: Pair) -> None:
    here, there = pair
    assert use()
    there.send(b"first")
    await wait_input(here.fileno())
    polls = Polls()
    trio.lowlevel.add_instrument(polls)
    for _ in range(20):  # more input than one event, while nobody waits
        there.send(b"more")
        await trio.sleep(0)
    before = polls.count
    with trio.move_on_after(0.01):
        await trio.sleep_forever()
    trio.lowlevel.remove_instrument(polls)
    assert polls.count - before <= 5
    await wait_input(here.fileno())
    assert here.recv(999) == b"first" + b"more" * 20
    notify_closing(here)


@needs_known_trio
async def test_end_of_the_peer_wakes_a_wait_that_begins_later(pair: Pair) -> None:
    here, there = pair
    assert use()
    there.send(b"x")
    await wait_input(here.fileno())
    assert here.recv(9) == b"x"
    there.close()
    await trio.sleep(0)
    await trio.sleep(0)
    await wait_input(here.fileno())
    assert here.recv(9) == b""
    notify_closing(here)


@needs_known_trio
async def test_another_task_waits_for_output(pair: Pair) -> None:
    here, there = pair
    assert use()
    fill(here)
    woken: list[str] = []

    async def read() -> None:
        await wait_input(here.fileno())
        woken.append("read")

    async def write() -> None:
        await wait_writable(here.fileno())
        woken.append("write")

    for first, second in ((read, write), (write, read)):
        woken.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await wait_all_tasks_blocked()
            nursery.start_soon(second)
            await wait_all_tasks_blocked()
            there.send(b"x")
            await wait_all_tasks_blocked()
            assert woken == ["read"]
            empty(there)
        assert sorted(woken) == ["read", "write"]
        assert here.recv(9) == b"x"
        fill(here)
    notify_closing(here)


@needs_known_trio
async def test_cancelled_wait_leaves_the_input_to_the_next(pair: Pair) -> None:
    here, there = pair
    assert use()
    with trio.move_on_after(0):
        await wait_input(here.fileno())
    there.send(b"x")
    await trio.sleep(0)
    for one in (wait_input, wait_readable, wait_input):
        await one(here.fileno())
    assert here.recv(9) == b"x"
    notify_closing(here)


@needs_known_trio
async def test_closing_wakes_the_wait_and_ends_the_registration(pair: Pair) -> None:
    here, there = pair
    assert use()
    number = here.fileno()

    async def expect_close() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await wait_input(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_close)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await wait_input(number)
        notify_closing(here)
    there.send(b"x")
    with trio.fail_after(60):
        await wait_input(number)  # as another socket with the same number would: registered anew
    notify_closing(here)


@needs_known_trio
async def test_task_with_input_runs_as_itself_and_may_fail(pair: Pair) -> None:
    here, there = pair
    assert use()
    tasks: list[trio.lowlevel.Task] = []

    async def fail() -> None:
        tasks.append(trio.lowlevel.current_task())
        await wait_input(here.fileno())
        tasks.append(trio.lowlevel.current_task())
        await trio.lowlevel.checkpoint()
        await wait_input(here.fileno())  # nobody has read what came
        raise ValueError("mine")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await wait_all_tasks_blocked()
            there.send(b"x")
            await trio.sleep_forever()

    me = trio.lowlevel.current_task()
    with pytest.raises(ExceptionGroup) as caught:
        await run()
    assert caught.group_contains(ValueError, match="mine", depth=1)
    assert tasks[0] is tasks[1] is not me
    assert trio.lowlevel.current_task() is me
    notify_closing(here)


@needs_known_trio
async def test_cancelled_task_ends_at_its_next_wait(pair: Pair) -> None:
    here, there = pair
    assert use()
    steps: list[str] = []
    scope = trio.CancelScope()

    async def run() -> None:
        with scope:
            await wait_input(here.fileno())
            steps.append("input")
            scope.cancel()
            await wait_input(here.fileno())
            steps.append("never")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        there.send(b"x")
    assert steps == ["input"] and scope.cancelled_caught
    notify_closing(here)


@needs_known_trio
async def test_what_is_no_socket_is_an_error_every_time() -> None:
    assert use()
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            await wait_input(-1)


async def test_without_use_it_is_the_wait_of_trio(pair: Pair) -> None:
    here, there = pair
    there.send(b"x")
    await wait_input(here.fileno())
    assert type(trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager) is not PersistentReads


def test_with_an_unknown_trio_it_is_the_wait_of_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "KNOWN", False)
    found = runpy.run_path(persistent_reads.__file__)
    assert found["wait_input"] is wait_readable
    assert not found["use"]()
