"""The steps of a request: a coroutine that one task runs up to its first wait, and that goes on from there.

A coroutine that does not wait needs no task. One that does has registered the task that ran it with whatever it waits
for, so that this task must yield its trap to trio and take the remaining steps.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator
from functools import partial
from types import TracebackType, coroutine
from typing import Any, TypeVar

import trio

log = logging.getLogger("rewound.gateway")

T = TypeVar("T")

Steps = Coroutine[Any, Any, T]


async def completed(result: T) -> T:
    """The steps of something that is complete."""
    return result


@coroutine
def resume(steps: Steps[T], trap: Any) -> Generator[Any, Any, T]:
    """Go on after the first `steps.send(None)`, which returned `trap`; the caller must not have awaited since."""
    while True:
        try:
            value = yield trap
        except BaseException as error:
            advance = partial(steps.throw, error)
        else:
            advance = partial(steps.send, value)
        try:
            trap = advance()
        except StopIteration as result:
            return result.value  # type: ignore[no-any-return]


class RequestScope:
    """A cancel scope for the steps of one request, which a reset of its stream cancels.

    A child task of the request may fail while it is cancelled. Nobody waits for the response then, and the other
    requests of the connection go on.
    """

    __slots__ = ("_scope",)

    def __enter__(self) -> trio.CancelScope:
        self._scope = trio.CancelScope()
        return self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return self._scope.__exit__(kind, error, traceback)
        except ExceptionGroup as group:
            if not self._scope.cancel_called:
                raise
            log.debug("a request failed after its client had reset it", exc_info=group)
            return True
