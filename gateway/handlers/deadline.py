"""timeoutSeconds of lists and of deletes of collections."""

from __future__ import annotations

from typing import Any

import trio

from actors.errors import TimedOut
from gateway.requests.call import Call


class Deadline:
    """`with` a time limit of the client's: what is not done by then is a 504."""

    __slots__ = ("_scope",)

    def __init__(self, call: Call) -> None:
        seconds = call.seconds("timeoutSeconds")
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
