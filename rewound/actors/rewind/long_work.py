"""Long work as a generator of small pieces: the server does other things in between, a command runs it at once.

    def pages() -> LongWork[int]:
        found = yield Piece(partial(compare, one, other), size)     the result of the piece comes back
        return found

`run` does all of it at once. The gateway takes turns on the event loop, and does large pieces, and those that wait,
in a thread (`rewound/rewind/turns.py`). A generator holds no read transaction while it yields.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Piece(NamedTuple):
    run: Callable[[], Any]
    size: int = 0  # bytes of the objects that it parses
    waits: bool = False  # it waits for a disk, without the interpreter lock


LongWork = Generator[Piece, Any, T]


def run(steps: LongWork[T]) -> T:
    """Do all of it, without a pause."""
    result: Any = None
    while True:
        try:
            work = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        result = work.run()
