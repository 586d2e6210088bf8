"""Imports large libraries outside the event loop: an import can take 300 ms, and no request is served meanwhile.

`imported` runs the import in a worker thread, which shares the interpreter lock in short intervals. It returns at once
if the module is already imported. Code that may run without an event loop uses a plain `import`. `OnDemand` creates a
part of the server when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")

_imported: dict[str, ModuleType] = {}


def is_imported(module: str, last: str) -> bool:
    """Whether a module is imported up to its last name `last`: another thread may still be importing it."""
    return hasattr(sys.modules.get(module), last)


async def imported(name: str) -> ModuleType:
    """Import a module in a worker thread and return it. After that a plain `import` of it costs nothing."""
    module = _imported.get(name)
    if module is None:
        import trio  # here, because kinds import this module and commands need no event loop

        module = _imported[name] = await trio.to_thread.run_sync(importlib.import_module, name)
    return module


class OnDemand(Generic[T]):
    """A value that is created, after importing its module, on first use."""

    def __init__(self, module: str, make: Callable[[], Awaitable[T]]) -> None:
        self._module = module
        self._make = make
        self.made: T | None = None

    async def get(self) -> T:
        if self.made is None:
            await imported(self._module)
            made = await self._make()
            if self.made is None:  # otherwise another task created one in the meantime
                self.made = made
        return self.made
