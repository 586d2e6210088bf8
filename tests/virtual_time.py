"""Virtual time that stands still while a thread works.

trio's clock for tests jumps to the next deadline when all tasks wait, and a task that waits for a thread counts as
waiting: on a slow machine, a request handled in a thread would time out. So while a thread runs, an additional task
is always ready to run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

_PAUSE = 0.0002  # seconds during which the thread can use the interpreter alone


def stopped_by_threads(run_sync: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Replaces `trio.to_thread.run_sync` in tests whose clock jumps."""
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
