"""Waits for somebody outside of this server: a webhook, another server, a version that others have yet to write.

The gateway names the request that a task serves (`serve`); whoever makes that task wait for somebody outside awaits it
with `outside`. So the request has no seats of flow control meanwhile, wherever in this package the wait is. Internal
waits, as for a commit or a thread, are none of these: they end by themselves.

Rejected: to pass the request down to each of these places, through commands that are plain data and reads that
know of none.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

import trio

T = TypeVar("T")


class Served(Protocol):
    """A request that is being served."""

    @property
    def task(self) -> trio.lowlevel.Task:
        """That serves it. Tasks that this one starts do not: they have the same variables of context."""

    def leave(self) -> None:
        """It begins to wait for somebody outside. RequestError if it must not: too many do."""

    async def come_back(self) -> None:
        """It goes on."""

    def end_outside(self) -> None:
        """It is cancelled where it waits."""


_SERVED: Final[ContextVar[Served | None]] = ContextVar("served", default=None)


def serve(request: Served | None) -> None:
    """The running task serves this request from now on."""
    _SERVED.set(request)


async def outside(answer: Coroutine[Any, Any, T]) -> T:
    """What somebody outside answers. RequestError if too many requests wait for such answers."""
    request = _SERVED.get()
    if request is None or request.task is not trio.lowlevel.current_task():
        return await answer
    try:
        request.leave()
    except BaseException:
        answer.close()
        raise
    try:
        result = await answer
    except Exception:
        await request.come_back()
        raise
    except BaseException:
        request.end_outside()
        raise
    await request.come_back()
    return result
