"""Runs the steps of `actors/rewind` in turns on the event loop, and large pieces of work in a thread.

Pieces that wait for a disk, such as searches, may use a CPU for a second each. Only so many run at once that the event
loop keeps half of the CPUs; the others wait, and users take turns.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import trio

from rewound.actors.rewind.long_work import LongWork
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.turns import Turn, WaitingUsers, next_turn, user_at_work
from rewound.gateway.wire.worker_threads import encode_in_thread

T = TypeVar("T")

LARGE: Final = 64 * 1024  # bytes of objects: about a millisecond of parsing and comparing


# Threads for all requests and for indexing the journal, apart from those that encode large responses.
MOST_THREADS: Final = 4


def _threads() -> int:
    """The number of threads: half of the CPUs. With more, requests would wait for the operating system's scheduler."""
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) // 2))


class ThreadTurns:
    """Limits how many pieces run at once. Those that wait are served by user, in turn."""

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._waiting = WaitingUsers()
        self._limiter = trio.CapacityLimiter(threads)

    async def run(self, work: Callable[[], Any]) -> Any:
        async with self._turn(user_at_work.get()):
            return await run_in_thread(work, limiter=self._limiter)

    @asynccontextmanager
    async def _turn(self, user: str) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            await self._waiting.wait(user)
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.resume_next()
        else:
            self._free += 1


_thread_turns: Final[trio.lowlevel.RunVar[ThreadTurns]] = trio.lowlevel.RunVar("thread_turns")


async def _wait_in_thread(work: Callable[[], Any]) -> Any:
    try:
        turns = _thread_turns.get()
    except LookupError:
        turns = ThreadTurns(_threads())
        _thread_turns.set(turns)
    return await turns.run(work)


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
