"""The interval after which a running thread gives the interpreter lock to one that waits for it.

A thread that computes keeps the lock for the whole interval each time the event loop has released it for a system call.
While such a thread runs, the interval is short: the event loop gets the lock back ten times as soon. At other times the
usual one saves switches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import trio

T = TypeVar("T")

SHORT: Final = 0.0005
USUAL: Final = 0.005

_users = 0


def shorten() -> None:
    """A thread that computes begins; every call needs a `restore`. Only for the thread of the event loop."""
    global _users
    _users += 1
    if _users == 1:
        sys.setswitchinterval(SHORT)


def restore() -> None:
    global _users
    _users -= 1
    if not _users:
        sys.setswitchinterval(USUAL)


async def run_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Run long work of the server itself in a worker thread. Work for a client's request goes to `LargeWork`."""
    shorten()
    try:
        return await trio.to_thread.run_sync(work, *arguments)
    finally:
        restore()
