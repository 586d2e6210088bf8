"""Runs work that needs objects in other versions.

Conversions that commands of actors wait for run in a task of their own each; their number is bounded. Synchronous work
runs again after each conversion, until it has all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import trio

from actors.conversion.converter import Converter
from actors.errors import ConversionFailed, Overloaded, ShuttingDown
from actors.golang.json import dumps
from actors.kinds.declaration.definition import ConversionNeeded, Conversions, Versions

# More than any work needs that asks for the same conversions each time.
MAX_CONVERSIONS: Final = 64

T = TypeVar("T")
Run = Callable[[Callable[[], T]], Awaitable[T]]


class Converts(Protocol):
    async def convert(self, versions: Versions, documents: list[bytes], target: str) -> list[bytes]:
        """ConversionFailed."""


async def converted(converter: Converts, needed: ConversionNeeded) -> bytes:
    document = dumps({"apiVersion": needed.source, **needed.object})
    [result] = await converter.convert(needed.versions, [document], needed.target)
    return result


async def run_converting(converter: Converts, work: Callable[[], T], run: Run[T]) -> T:
    """What `work` returns. `run` calls it, perhaps in a thread. ConversionFailed."""
    known = Conversions()

    def work_with_conversions() -> T:
        with known.in_use():
            return work()

    while len(known) < MAX_CONVERSIONS:
        try:
            return await run(work_with_conversions)
        except ConversionNeeded as needed:
            known.add(needed, await converted(converter, needed))
    raise ConversionFailed("the object needs too many conversions")


# As many as a mailbox holds: each waiting write takes some kilobytes.
MAX_CALLS: Final = 4096

Done = Callable[[bytes | Exception], None]


class ConversionCalls:
    def __init__(self, nursery: trio.Nursery, converter: Converter, limit: int = MAX_CALLS) -> None:
        self._nursery = nursery
        self._converter = converter
        self._limit = limit
        self._running = 0

    def start(self, needed: ConversionNeeded, done: Done) -> trio.CancelScope:
        """Calls `done` exactly once, after this returns. Raises Overloaded if too many calls are running."""
        if self._running >= self._limit:
            raise Overloaded
        scope = trio.CancelScope()
        self._running += 1
        self._nursery.start_soon(self._call, needed, done, scope)
        return scope

    async def _call(self, needed: ConversionNeeded, done: Done, scope: trio.CancelScope) -> None:
        outcome: bytes | Exception = ShuttingDown()
        try:
            with scope:
                outcome = await converted(self._converter, needed)
        except Exception as error:
            outcome = error
        finally:
            self._running -= 1
            done(outcome)
