"""The steps of a request: a coroutine that one task runs up to its first wait, and that goes on from there.

A coroutine that does not wait needs no task. One that does has registered the task that ran it with whatever it waits
for, so that this task must yield its trap to trio and take the remaining steps.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

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
