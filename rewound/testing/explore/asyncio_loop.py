"""An event loop of asyncio that waits only where an explored run says so, in the time of its server.

asyncio polls its selector whenever no callback is ready, with the time until its next timer: exactly then the
controller waits, for its client or for time. So a selector that calls `wait` there makes every step of a controller a
step of the run. The order of callbacks is asyncio's own, first in, first out.

There is nothing else to wait for: sockets, subprocesses and threads of a controller are errors, because the run would
not see that it waits for them.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any

_OUTSIDE = (
    "a controller of asyncio waits only in its client and in asyncio itself: "
    "it has no sockets, subprocesses and threads of its own in rewound.explore"
)


class WaitsOutside(RuntimeError):
    """The controller would wait for something that the explorer does not see."""


class ExploredLoop(asyncio.SelectorEventLoop):
    def __init__(self, wait: Callable[[float | None], None], seconds: Callable[[], float]) -> None:
        """`wait` returns when an operation has completed, or after so many seconds of the server's time."""
        self._seconds = seconds
        self._explored = _Selector(wait)
        super().__init__(self._explored)
        self._explored.refuses_sockets = True

    def time(self) -> float:
        return self._seconds()

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]
        raise WaitsOutside(_OUTSIDE)


class _Selector(selectors.BaseSelector):
    """A selector with only the socket by which a loop wakes itself."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self.refuses_sockets = False

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.refuses_sockets:
            raise WaitsOutside(_OUTSIDE)
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._wait(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys
