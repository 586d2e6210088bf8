"""Runs the conversions that commands of actors wait for, each in a task of its own; their number is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from actors.conversion.converter import Converter
from actors.conversion.waiting import converted
from actors.errors import Overloaded, ShuttingDown
from actors.kinds.declaration.definition import ConversionNeeded

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
