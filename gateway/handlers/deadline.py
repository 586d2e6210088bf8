"""timeoutSeconds of list and deletecollection requests."""

from __future__ import annotations

from typing import Any

import trio

from actors.errors import TimedOut
from gateway.pipeline.context import RequestContext


class Deadline:
    """A context manager that ends its block with a 504 response when timeoutSeconds have passed."""

    __slots__ = ("_scope",)

    def __init__(self, context: RequestContext) -> None:
        seconds = context.seconds("timeoutSeconds")
        self._scope = trio.move_on_after(seconds) if seconds is not None else None

    def __enter__(self) -> None:
        if self._scope is not None:
            self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._scope is None:
            return
        self._scope.__exit__(*error)
        if self._scope.cancelled_caught:
            raise TimedOut("Timeout: the request did not finish within the time it allowed (timeoutSeconds)")
