"""Runs the steps of `actors/rewind` in turns on the event loop, and large pieces of work in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import trio

from rewound.actors.rewind.long_work import LongWork
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.gateway.wire.worker_threads import encode_in_thread

T = TypeVar("T")

LARGE: Final = 64 * 1024  # bytes of objects: about a millisecond of parsing and comparing


# Of all requests and of what indexes the journal: a search may take a second, and must not delay large responses.
_WAITING: Final = trio.CapacityLimiter(4)


async def _wait_in_thread(work: Callable[[], Any]) -> Any:
    return await run_in_thread(work, limiter=_WAITING)


async def run_in_turns(steps: LongWork[T]) -> T:
    result: Any = None
    turn = Turn()
    while True:
        try:
            work = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        if work.waits or work.size > LARGE:
            result = await (_wait_in_thread if work.waits else encode_in_thread)(work.run)
            turn = Turn()
            continue
        result = work.run()
        if turn.over():
            await next_turn()
            turn = Turn()
