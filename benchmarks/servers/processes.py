"""A server's processes: the given ones and all their descendants, as /proc lists them now."""

from __future__ import annotations

from collections.abc import Iterable


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
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listing:
            return [int(child) for child in listing.read().split()]
    except OSError:
        return []
