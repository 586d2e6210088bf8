"""Waiting until a server and its clients, all in this process, have nothing left to do."""

from __future__ import annotations

from trio.testing import MockClock, wait_all_tasks_blocked

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
