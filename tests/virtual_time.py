"""Virtual time that stands still while a thread works.

trio's clock for tests jumps to the next deadline when all tasks wait, and a task that waits for a thread counts as one
that waits: a request whose object is decided in a thread would end at its time limit on a slow machine. While a thread
runs, one task more is always ready to run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

_PAUSE = 0.0002  # seconds that the thread has the interpreter for itself


def stopped_by_threads(run_sync: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`trio.to_thread.run_sync` for tests whose clock jumps."""
    running = 0

    async def stay_awake() -> None:
        while running:
            time.sleep(_PAUSE)
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def run(*arguments: Any, **options: Any) -> Any:
        nonlocal running
        running += 1
        if running == 1:
            trio.lowlevel.spawn_system_task(stay_awake)
        try:
            return await run_sync(*arguments, **options)
        finally:
            running -= 1

    return run
