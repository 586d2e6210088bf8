"""Work that takes longer than others should wait, done in a thread beside the event loop.

Who calls knows from how many bytes on that is worth a thread: below, the way there costs more than the work. Most of
it holds the interpreter, so more threads would only take turns; two let a small one pass a large one. What clients
send has others than what they are told: nobody's answer waits behind bodies that were made to take long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

T = TypeVar("T")

READING = trio.CapacityLimiter(2)
TELLING = trio.CapacityLimiter(2)


async def read_aside(work: Callable[..., T], *arguments: Any) -> T:
    return await trio.to_thread.run_sync(work, *arguments, limiter=READING)


async def tell_aside(work: Callable[..., T], *arguments: Any) -> T:
    return await trio.to_thread.run_sync(work, *arguments, limiter=TELLING)
