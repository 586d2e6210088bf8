"""A server's processes: the named ones and everything they started, as /proc shows them now."""

from __future__ import annotations

from collections.abc import Iterable


def with_children(pids: Iterable[int]) -> list[int]:
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.append(pid)
            waiting += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listing:
            return [int(child) for child in listing.read().split()]
    except OSError:
        return []
