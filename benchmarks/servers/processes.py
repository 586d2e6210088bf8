"""A server's processes: the given ones and all their descendants, as /proc lists them now."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def with_children(pids: Iterable[int]) -> list[int]:
    found: list[int] = []
    pending = list(pids)
    while pending:
        pid = pending.pop()
        if pid not in found:
            found.append(pid)
            pending += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """The children of every thread: a child that a worker thread started belongs to that thread."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # the thread has ended
            found += map(int, (thread / "children").read_text().split())
    return found
