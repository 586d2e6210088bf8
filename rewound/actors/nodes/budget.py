"""What one evaluation of a template or query of a Stage may cost, because it runs in the event loop.

Whoever writes a Stage chooses the number of its steps and the size of the values in between. Each step is charged
what it is estimated to take, in nanoseconds, before it is done: by the size of its values and the weight of what is
done with them. Measuring the time instead would let the same Stage pass on one machine and fail on another.

A size counts a value as often as it is reached: a list that has another one twice has twice its size, because whatever
reads or writes it takes that long. Lists and maps that an evaluation makes know their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

MOST_VALUE: Final = 1 << 20  # of one value
_SCALAR: Final = 24  # characters of a number
_MEMBER: Final = 8  # of a list or map
_VISIT: Final = 150  # nanoseconds
_PAUSE: Final = 200_000  # nanoseconds between two looks at the clock


class OverBudget(ValueError):
    """The evaluation would cost too much; the text says what."""


class Budget:
    """`at_once` nanoseconds up to the next `pause`, and `total` nanoseconds at all."""

    def __init__(self, total: int, at_once: int) -> None:
        self._total, self._at_once = total, at_once
        self._spent = 0
        self._limit = at_once
        self._pause = _PAUSE

    def spend(self, nanoseconds: int) -> None:
        """OverBudget."""
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
        """Between two steps of their own; whether it is time to let others go on."""
        self._limit = min(self._total, self._spent + self._at_once)
        if self._spent < self._pause:
            return False
        self._pause = self._spent + _PAUSE
        return True

    def size(self, value: Any) -> int:
        """OverBudget, also if it takes too long to find out."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, (MadeList, MadeMap)):
            return value.size
        if isinstance(value, dict):
            self.spend(_VISIT * (len(value) + 1))
            return sum(len(key) + _MEMBER + self.size(one) for key, one in value.items())
        if isinstance(value, list):
            self.spend(_VISIT * (len(value) + 1))
            return sum(_MEMBER + self.size(one) for one in value)
        return _SCALAR

    def made_list(self, values: Iterable[Any]) -> MadeList:
        made, size = MadeList(values), 0
        for one in made:
            size += _MEMBER + self.size(one)
        made.size = fitting(size)
        return made

    def made_map(self, values: dict[str, Any]) -> MadeMap:
        made, size = MadeMap(values), 0
        for key, one in made.items():
            size += len(key) + _MEMBER + self.size(one)
        made.size = fitting(size)
        return made


class MadeList(list[Any]):
    size: int


class MadeMap(dict[str, Any]):
    size: int


def fitting(size: int) -> int:
    """OverBudget for the size of a value that is too large."""
    if size > MOST_VALUE:
        raise OverBudget(f"a value in it would have more than {MOST_VALUE} characters")
    return size
