"""What the evaluation of a text that a user wrote may take: processor time and memory.

Nothing evaluates an expression, a query, a template or a pattern without a Budget. It is a required parameter, so the
type checker finds an evaluation that has none. Users' texts also have counted costs, the same on every machine, which
decide whether they are valid; a Budget ends what they do not count: walks over values that share their parts, and
results that are much larger than what they are made of.

An evaluator calls `pause` about every 0.2 milliseconds, `visit` before it walks over values, and `take` before it makes
a value. Each of them raises to end the evaluation. One Budget is for evaluations whose values exist at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import thread_time
from typing import Any, Final

from rewound.actors.runtime.time_limit import need_thread

MOST_MEMORY: Final = 64 << 20  # bytes
# An evaluation at the limit of its counted cost takes up to two seconds on a busy machine. This is a little less than
# the limit of the whole work (`time_limit.MAX_SECONDS`), so that the error names the expression.
MOST_SECONDS: Final = 4.5
STRIDE: Final = 500  # visits between two pauses, at a tenth to two microseconds each
_LONGEST_STEP: Final = 0.002  # seconds


class OverBudget(Exception):
    """The evaluation takes too much; the text says of what."""


class Budget(ABC):
    __slots__ = ("_room", "_visits", "equal_parts")

    def __init__(self, memory: int = MOST_MEMORY) -> None:
        self._room, self._visits = memory, STRIDE
        # While two values are compared: the pairs of their parts that are known to be equal, by their ids.
        self.equal_parts: dict[tuple[int, int], tuple[Any, Any]] | None = None

    @abstractmethod
    def pause(self) -> None:
        """End the evaluation by an exception if it has taken too long, or must move to a worker thread."""

    def visit(self, count: int) -> None:
        """Count values before they are read, compared, copied or printed."""
        self._visits -= count
        if self._visits < 0:
            self._visits = STRIDE
            self.pause()

    def take(self, size: int) -> None:
        """Count the bytes of a value before it is made. Raises OverBudget."""
        self._room -= size
        if self._room < 0:
            raise OverBudget("the values that it makes take too much memory")


class ThreadBudget(Budget):
    """In the event loop the first pause raises NeedsThread. In a thread, pauses check `seconds` of processor time from
    the first one on, and the limit of the whole work (`run_limited`). It is for one thread.
    """

    __slots__ = ("_end", "_seconds")

    def __init__(self, seconds: float = MOST_SECONDS, memory: int = MOST_MEMORY) -> None:
        super().__init__(memory)
        self._seconds = seconds
        self._end = 0.0  # not known before the first pause

    def pause(self) -> None:
        need_thread()
        now = thread_time()
        if not self._end:
            self._end = now + self._seconds
        elif now > self._end:
            raise OverBudget(f"it takes more than {self._seconds:g} s of processor time")


class StepBudget(Budget):
    """For an evaluation that cannot move to a thread: a number of pauses, which is the same on every machine.

    Ten times the processor time that these should take ends it too: a single step took much longer than it counted.
    """

    __slots__ = ("_end", "_pauses")

    def __init__(self, pauses: int, memory: int = MOST_MEMORY) -> None:
        super().__init__(memory)
        self._pauses = pauses
        self._end = thread_time() + pauses * _LONGEST_STEP

    def pause(self) -> None:
        self._pauses -= 1
        if self._pauses < 0:
            raise OverBudget("it takes too many steps, or compares, copies or prints too many values")
        if thread_time() > self._end:
            raise OverBudget("it takes too much processor time")
