"""Runs work in worker threads without reference cycles through its errors.

`trio.to_thread.run_sync` keeps the outcome of the thread in its frame, and the error refers to that frame. This cycle
keeps the arguments of the work, and everything in the frames that the error passed, alive until the next full garbage
collection. The collector counts megabytes of bytes as one object, so hundreds of rejected bodies could pile up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class _Failed:
    """Holds an error until it is raised. Frames of the thread may refer to this object longer than that."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error


def _caught(work: Callable[..., T], arguments: tuple[Any, ...]) -> T | _Failed:
    try:
        return work(*arguments)
    except Exception as error:
        return _Failed(error)


async def run_in_thread(
    work: Callable[..., T], *arguments: Any, limiter: trio.CapacityLimiter | None = None
) -> T:
    """Like `trio.to_thread.run_sync`: return or raise the outcome of the work. Cancelling does not interrupt it."""
    result = await trio.to_thread.run_sync(_caught, work, arguments, limiter=limiter)
    if not isinstance(result, _Failed):
        return result
    error, result.error = result.error, None
    assert error is not None
    try:
        raise error
    finally:
        del error  # otherwise this frame would refer to its own error
