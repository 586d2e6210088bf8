"""A volley: the same bytes to many connections of one kind, now, in as little as one system call each.

The sweep of a watch group fires them. Every kind of connection brings its own loop (`volley`), because at a thousand
watchers an event a call per watcher into a method that looks and then sends is a fifth of the cost. Told is only
who missed: what it took of the bytes, as `transmit` would say, or why it could not be sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Missed = list[tuple[Any, int | Exception]]
Volley = Callable[[Sequence[Any], bytes], Missed]


class _Transmits(Protocol):
    def transmit(self, data: bytes | memoryview) -> int: ...


def one_by_one(pipes: Sequence[_Transmits], data: bytes) -> Missed:
    """For connections that have nothing better, and for bytes that must be cut."""
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
