"""Waiting until a server and its clients, all in this process, have nothing left to do."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.connections.limits import DRAIN_TICK

# Seconds of real time, also under a virtual clock: a busy machine takes a while to deliver bytes between sockets.
_DELIVERY = 0.003


async def until_idle() -> None:
    """Return once every task waits and no bytes are on their way to any of them."""
    await wait_all_tasks_blocked(_DELIVERY)


async def advance(clock: MockClock, seconds: float) -> None:
    """Wait until all tasks are idle, advance the virtual clock, and wait until all have reacted."""
    await until_idle()
    clock.jump(seconds)
    await until_idle()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; fails when everything is idle and it still does not."""
    for _ in range(100):
        if holds():
            return
        await until_idle()
    assert holds(), "it never held"


class Stoppable(Protocol):
    stop: trio.Event
    stopped: trio.Event


async def seconds_to_stop(server: Stoppable, clock: MockClock) -> float:
    """Stop a server, and return how long it takes in virtual time."""
    await until_idle()
    server.stop.set()
    for count in range(int(70 / DRAIN_TICK)):
        # Longer than elsewhere: bytes that arrive late would count as progress of a silent client.
        await wait_all_tasks_blocked(3 * _DELIVERY)
        if server.stopped.is_set():
            return count * DRAIN_TICK
        clock.jump(DRAIN_TICK)
    return inf
