"""Waiting until a server and its clients, all in this process, have nothing left to do."""

from __future__ import annotations

from trio.testing import MockClock, wait_all_tasks_blocked

# Seconds of real time, also under a virtual clock: on a busy machine bytes take a while from one socket to the other.
_ON_THE_WAY = 0.003


async def at_rest() -> None:
    """Once every task waits, and nothing is on its way to any of them."""
    await wait_all_tasks_blocked(_ON_THE_WAY)


async def let_pass(clock: MockClock, seconds: float) -> None:
    """Let everybody come to rest, then let time pass and everybody react to it."""
    await at_rest()
    clock.jump(seconds)
    await at_rest()
