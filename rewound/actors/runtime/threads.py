"""Work in worker threads whose errors hold nothing.

`trio.to_thread.run_sync` keeps the outcome of the thread in its frame, and an error has its frames: a cycle, which
holds the arguments of the work, and everything in the frames that the error passes, until the next full collection.
Megabytes of bytes are one object for the collector: hundreds of refused bodies could be held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class _Failed:
    """Holds an error until it is raised; the frames of the thread refer to this, also later."""

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
    """As `trio.to_thread.run_sync`: what the work returns or raises. Cancelling does not stop it."""
    result = await trio.to_thread.run_sync(_caught, work, arguments, limiter=limiter)
    if not isinstance(result, _Failed):
        return result
    error, result.error = result.error, None
    assert error is not None
    try:
        raise error
    finally:
        del error  # else this frame would refer to its own error
