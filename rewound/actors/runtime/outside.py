"""Waits for something outside this server: a webhook, another server, a version that another node has yet to write.

The gateway declares which request a task serves (`serve`). Code that makes this task wait for something outside the
server awaits it with `outside`, so that the request holds no flow-control seats meanwhile. Internal waits, as for a
commit or a thread, do not count: they always end.

Rejected: passing the request down to all these places, through commands that are plain data and reads that know of no
request.
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
    def task(self) -> trio.lowlevel.Task | None:
        """The task that serves the request. Its child tasks, which inherit its context variables, do not."""

    def leave(self) -> None:
        """The request starts to wait outside. Raises RequestError if too many requests already do."""

    async def resume(self) -> None:
        """The wait is over: take the request's seats again."""

    def end_outside(self) -> None:
        """The request was cancelled while it waited outside."""


_SERVED: Final[ContextVar[Served | None]] = ContextVar("served", default=None)


def serve(request: Served | None) -> None:
    """Declare that the running task serves this request from now on."""
    _SERVED.set(request)


async def outside(answer: Coroutine[Any, Any, T]) -> T:
    """Await an answer from outside this server. Raises RequestError if too many requests wait for such answers."""
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
        await request.resume()
        raise
    except BaseException:
        request.end_outside()
        raise
    await request.resume()
    return result
