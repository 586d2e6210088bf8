"""Imports large libraries outside the event loop: an import takes up to 300 ms, in which no request would be served.

`imported` runs the import in a worker thread, where it shares the interpreter in short intervals, and returns at once
when the module has been imported before. Code that may run without an event loop imports as usual. `OnDemand` is a part
of the server that waits for its first use.
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
    """Whether a module has been imported, up to what it defines `last`: an import in another thread may still run."""
    return hasattr(sys.modules.get(module), last)


async def imported(name: str) -> ModuleType:
    """The module of this name. The caller may then use `import` statements for it, at no cost."""
    module = _imported.get(name)
    if module is None:
        import trio  # kinds import this module, and commands need no event loop

        module = _imported[name] = await trio.to_thread.run_sync(importlib.import_module, name)
    return module


class OnDemand(Generic[T]):
    """What is made, and its module imported, when it is first needed."""

    def __init__(self, module: str, make: Callable[[], Awaitable[T]]) -> None:
        self._module = module
        self._make = make
        self.made: T | None = None

    async def get(self) -> T:
        if self.made is None:
            await imported(self._module)
            made = await self._make()
            if self.made is None:  # else another task has made one meanwhile
                self.made = made
        return self.made
