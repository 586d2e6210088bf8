"""Counts the Python calls of a piece of work: a measure of its cost that other processes do not affect.

Every call of a function counts, in Python or in C. Comparisons inside lists, dicts and sorts are not calls, so the
strings and integers of an object are replaced by some whose comparisons are: `x in values` costs as many operations as
`values` has elements before x.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class CountedText(str):
    """A string whose comparisons are calls of Python functions."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    def __lt__(self, other: str) -> bool:
        return str.__lt__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


class CountedInteger(int):
    """An integer whose comparisons for equality are calls of Python functions."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other) is True

    def __hash__(self) -> int:
        return int.__hash__(self)


def counted(value: Any) -> Any:
    """The same value with strings and integers whose comparisons count."""
    if isinstance(value, dict):
        return {key: counted(member) for key, member in value.items()}
    if isinstance(value, list):
        return [counted(item) for item in value]
    if isinstance(value, str):
        return CountedText(value)
    return CountedInteger(value) if type(value) is int else value


def operations(work: Callable[[], object]) -> int:
    """How many calls `work` makes."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def excess(one: int, two: int, four: int, count: int) -> float:
    """The cost of work beyond its constant and linear parts, from the costs of n, 2n and 4n elements, in units of n².

    Linear parts cancel out exactly. Comparing every element with every other gives 6, with those before it 3.
    """
    return (four - 3 * two + 2 * one) / count**2


def excess_of(cost: Callable[[int], int], count: int) -> float:
    return excess(*(cost(factor * count) for factor in (1, 2, 4)), count)
