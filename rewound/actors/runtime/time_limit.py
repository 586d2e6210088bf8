"""Limits the CPU time of one piece of work in a worker thread.

Python cannot stop a thread, so long loops call `check_time`: over the operations of a patch, the structs of a body, the
nodes of a YAML document. Outside such a thread it does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import thread_time
from typing import Any, Final, TypeVar

from rewound.actors.errors import TooLarge

# Ten times as long as the largest ordinary objects take.
MAX_SECONDS: Final = 5.0

T = TypeVar("T")
_local = threading.local()


class NeedsThread(Exception):
    """The command takes too long for the event loop and must be decided in a worker thread."""


class TookTooLong(TooLarge):
    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"Request entity too large: it takes the server more than {seconds:g} seconds of processor time to "
            "decode, patch and validate this object, please make it smaller or divide it into several"
        )


def run_limited(work: Callable[..., T], *arguments: Any, seconds: float = MAX_SECONDS) -> T:
    """Call `work` with a time limit: after it, `check_time` raises TookTooLong."""
    _local.end, _local.seconds = thread_time() + seconds, seconds
    try:
        return work(*arguments)
    finally:
        _local.end = None


def check_time() -> None:
    end = getattr(_local, "end", None)
    if end is not None and thread_time() > end:
        raise TookTooLong(_local.seconds)


def is_in_thread() -> bool:
    """Whether this is the work of such a thread, which must pause often; in the event loop it is known to be short."""
    return getattr(_local, "end", None) is not None


def need_thread() -> None:
    """Raise NeedsThread outside such a thread. For work whose single pieces take part of a millisecond."""
    if getattr(_local, "end", None) is None:
        raise NeedsThread
    check_time()
