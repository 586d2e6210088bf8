"""Waiting until a server and its clients, all in this event loop, have nothing left to do.

trio knows when all tasks wait and which threads run; it does not know what is between two sockets. The loopback
device delivers in order: when our own byte has arrived, so has everything sent before it. No wait here has a fixed
length: a busy machine takes longer, with the same result.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Protocol

import trio
from trio.testing import (
    MockClock,
    active_thread_count,
    wait_all_tasks_blocked,
    wait_all_threads_completed,
)

from rewound.gateway.connections.limits import DRAIN_TICK

# A bound for tasks that wake each other without end. The longest chain in a test is some hundred.
_MAX_ROUNDS = 10_000


async def settled() -> None:
    """Return once every task waits, no worker thread runs, and the network has delivered what was sent."""
    with _other_tasks() as others, _loopback() as loopback:
        for _ in range(_MAX_ROUNDS):
            await wait_all_tasks_blocked()
            others.ran = False
            if active_thread_count():
                await wait_all_threads_completed()
                continue
            await loopback.deliver()
            await wait_all_tasks_blocked()
            if not others.ran:
                return
    raise AssertionError("the tasks never settle")


async def advance(clock: MockClock, seconds: float) -> None:
    """Let everything settle, advance the virtual clock, and let everything react."""
    await settled()
    clock.jump(seconds)
    await settled()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if everything has settled and it still does not hold."""
    if not holds():
        await settled()
        assert holds(), "it never held"


class Stoppable(Protocol):
    stop: trio.Event
    stopped: trio.Event


async def seconds_to_stop(server: Stoppable, clock: MockClock) -> float:
    """Stop a server, and return how long it takes in virtual time."""
    await settled()
    server.stop.set()
    for count in range(int(70 / DRAIN_TICK)):
        await settled()
        if server.stopped.is_set():
            return count * DRAIN_TICK
        clock.jump(DRAIN_TICK)
    return inf


class _OtherTasks(trio.abc.Instrument):
    """Whether another task than the current one has run."""

    def __init__(self) -> None:
        self._own = trio.lowlevel.current_task()
        self.ran = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._own:
            self.ran = True


@contextmanager
def _other_tasks() -> Iterator[_OtherTasks]:
    others = _OtherTasks()
    trio.lowlevel.add_instrument(others)
    try:
        yield others
    finally:
        trio.lowlevel.remove_instrument(others)


class _Loopback:
    """A connection of this process to itself."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._near = socket.create_connection(listener.getsockname())
            self._far = listener.accept()[0]
        for end in (self._near, self._far):
            end.setblocking(False)
        self._near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def deliver(self) -> None:
        """Send a byte, and wait until it has arrived."""
        self._near.send(b".")
        await trio.lowlevel.wait_readable(self._far)
        self._far.recv(1)

    def close(self) -> None:
        self._near.close()
        self._far.close()


_unused: list[_Loopback] = []


@contextmanager
def _loopback() -> Iterator[_Loopback]:
    found = _unused.pop() if _unused else _Loopback()
    try:
        yield found
    except BaseException:
        found.close()  # a byte may still be on its way
        raise
    _unused.append(found)
