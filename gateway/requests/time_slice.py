"""Time slices: how long one step may hold the event loop before it lets other tasks run.

Counting rows, bytes or members is not enough, because a client chooses how much work each of them is.
"""

from __future__ import annotations

from time import perf_counter

SECONDS = 0.002


def slice_end(slices: float = 1) -> float:
    """Return the value of `perf_counter()` at which a step that begins now should end."""
    return perf_counter() + SECONDS * slices
