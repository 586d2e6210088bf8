"""Broadcast: sends the same bytes to many connections of one class without waiting, in one system call each if
possible.

The sweep of a watch group calls it. Every class of connections has its own loop (`broadcast`), because with a
thousand watchers per event, a method call per watcher that checks and then sends is a fifth of the cost. The result
lists only the connections that did not send everything, each with the result of `transmit` or the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Missed = list[tuple[Any, int | Exception]]
Broadcast = Callable[[Sequence[Any], bytes], Missed]


class _Transmits(Protocol):
    def transmit(self, data: bytes | memoryview) -> int: ...


def one_by_one(pipes: Sequence[_Transmits], data: bytes) -> Missed:
    """Call `transmit` for each: for classes without a faster loop, and for bytes that must be split."""
    missed: Missed = []
    size = len(data)
    for pipe in pipes:
        try:
            taken = pipe.transmit(data)
        except Exception as error:
            missed.append((pipe, error))
        else:
            if taken != size:
                missed.append((pipe, taken))
    return missed
