"""Limits the cost of one evaluation of a Stage's template or query, because it runs in the event loop.

The author of a Stage determines the number of its steps and the size of intermediate values. Each step is charged its
estimated time in nanoseconds before it runs: by the size of its values and the weight of the operation. Measuring the
time instead would let the same Stage pass on one machine and fail on another.

The size counts a value as often as it is reached: a list that contains another one twice has twice its size, because
reading or writing it takes that long. Lists and maps created by an evaluation know their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

MOST_VALUE: Final = 1 << 20  # of one value
_SCALAR: Final = 24  # characters of a number
_MEMBER: Final = 8  # of a list or map
_VISIT: Final = 150  # nanoseconds
_PAUSE: Final = 200_000  # nanoseconds between two checks of the clock


class OverBudget(ValueError):
    """The evaluation would cost too much; the text says what."""


class Budget:
    """`at_once` nanoseconds up to the next `pause`, and `total` nanoseconds altogether."""

    def __init__(self, total: int, at_once: int) -> None:
        self._total, self._at_once = total, at_once
        self._spent = 0
        self._limit = at_once
        self._pause = _PAUSE

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

    def pause(self) -> bool:
        """Call between two steps; returns whether it is time to let other tasks run."""
        self._limit = min(self._total, self._spent + self._at_once)
        if self._spent < self._pause:
            return False
        self._pause = self._spent + _PAUSE
        return True

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
        return made

    def sized_map(self, values: dict[str, Any]) -> SizedMap:
        made, size = SizedMap(values), 0
        for key, one in made.items():
            size += len(key) + _MEMBER + self.size(one)
        made.size = fitting(size)
        return made


class SizedList(list[Any]):
    size: int


class SizedMap(dict[str, Any]):
    size: int


def fitting(size: int) -> int:
    """Raise OverBudget if a value of this size is too large."""
    if size > MOST_VALUE:
        raise OverBudget(f"a value in it would have more than {MOST_VALUE} characters")
    return size
