"""The Budget of one evaluation of a Stage's template or query: counted cost, and processor time, in the event loop.

The author of a Stage determines the number of its steps and the size of intermediate values. Each step is charged its
estimated time in nanoseconds before it runs: by the size of its values and the weight of the operation. That ends
expensive Stages at the same place on every machine. The processor time, somewhat more, ends what an estimate does not
foresee, so that it cannot hold the event loop either.

The size counts a value as often as it is reached: a list that contains another one twice has twice its size, because
reading or writing it takes that long. Lists and maps created by an evaluation know their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import thread_time
from typing import Any, Final

from rewound.actors.runtime.budget import Budget, OverBudget

MOST_VALUE: Final = 1 << 20  # of one value
_SCALAR: Final = 24  # characters of a number
_MEMBER: Final = 8  # of a list or map
_VISIT: Final = 150  # nanoseconds
_PAUSE: Final = 200_000  # nanoseconds between two looks at the clock
# Seconds of processor time for each nanosecond of counted cost: what one machine accepts, a slower one accepts too.
_SECONDS: Final = 5 / 1_000_000_000


class StageBudget(Budget):
    """`at_once` nanoseconds up to the next `rest`, and `total` nanoseconds altogether."""

    __slots__ = ("_at_once", "_began", "_left", "_limit", "_look", "_spent", "_total")

    def __init__(self, total: int, at_once: int) -> None:
        super().__init__()
        self._total, self._at_once = total, at_once
        self._spent = 0
        self._limit = at_once
        self._look = _PAUSE
        self._left = total * _SECONDS
        self._began = thread_time()

    def spend(self, nanoseconds: int) -> None:
        """Charge this much. Raises OverBudget if it exceeds the budget."""
        self._spent += nanoseconds
        if self._spent > self._limit:
            if self._spent > self._total:
                raise OverBudget(
                    f"it has too many steps, or too large values: more than about {self._total // 1_000_000} ms"
                )
            raise OverBudget(
                "one expression in it has too many steps, or too large values: "
                f"more than about {self._at_once // 1_000_000} ms"
            )
        if self._spent > self._look:
            self.pause()

    def pause(self) -> None:
        self._look = self._spent + _PAUSE
        if thread_time() - self._began > min(self._at_once * _SECONDS, self._left):
            raise OverBudget("it takes too much processor time")

    def rest(self) -> bool:
        """Call between two steps; returns whether it is time to let other tasks run, and then to `resume`."""
        self._limit = min(self._total, self._spent + self._at_once)
        used = thread_time() - self._began
        if used * 1_000_000_000 < _PAUSE:
            return False
        self._left -= used
        if self._left < 0:
            raise OverBudget("it takes too much processor time")
        return True

    def resume(self) -> None:
        self._began = thread_time()

    def size(self, value: Any) -> int:
        """The size of a value. Raises OverBudget, also if computing it takes too long."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, (SizedList, SizedMap)):
            return value.size
        if isinstance(value, dict):
            self.spend(_VISIT * (len(value) + 1))
            return sum(len(key) + _MEMBER + self.size(one) for key, one in value.items())
        if isinstance(value, list):
            self.spend(_VISIT * (len(value) + 1))
            return sum(_MEMBER + self.size(one) for one in value)
        return _SCALAR

    def sized_list(self, values: Iterable[Any]) -> SizedList:
        made, size = SizedList(values), 0
        for one in made:
            size += _MEMBER + self.size(one)
        made.size = fitting(size)
        self.take(_MEMBER * len(made))
        return made

    def sized_map(self, values: dict[str, Any]) -> SizedMap:
        made, size = SizedMap(values), 0
        for key, one in made.items():
            size += len(key) + _MEMBER + self.size(one)
        made.size = fitting(size)
        self.take(_MEMBER * len(made))
        return made

    def text(self, value: str) -> str:
        """A text that the evaluation has made."""
        self.take(fitting(len(value)))
        return value


class SizedList(list[Any]):
    size: int


class SizedMap(dict[str, Any]):
    size: int


def fitting(size: int) -> int:
    """Raise OverBudget if a value of this size is too large."""
    if size > MOST_VALUE:
        raise OverBudget(f"a value in it would have more than {MOST_VALUE} characters")
    return size
