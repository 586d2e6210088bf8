"""Long work as generators that yield where it may pause. They are pure, so kinds can use them without an event loop.

`in_turns` (`actors/runtime/turns.py`) runs such work on the event loop; a thread or a command exhausts the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from operator import itemgetter
from time import perf_counter
from typing import Any, Final, TypeVar

_PART: Final = 64  # items, at a few microseconds of work each
_SORTED_PART: Final = 1024
_LONG: Final = 0.0005  # seconds

T = TypeVar("T")
# Work that yields where it may pause, at least once a millisecond, and returns its result.
Steps = Generator[None, None, T]


def exhausted(steps: Steps[T]) -> T:
    """The result of all steps at once, for work that need not pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def parts_of(items: Iterable[T], size: int = _PART) -> Iterator[tuple[T, ...]]:
    """Split the current items into parts. Work that takes a few microseconds per item yields after each part."""
    taken = tuple(items)  # a copy, so that later changes do not affect the parts
    for start in range(0, len(taken), size):
        yield taken[start : start + size]


def chosen(items: Iterable[T], wanted: Callable[[T], bool]) -> Steps[list[T]]:
    """The current items that `wanted` accepts. A call of `wanted` may take long, as with a long selector."""
    found: list[T] = []
    since = perf_counter()
    for one in tuple(items):
        if wanted(one):
            found.append(one)
        if perf_counter() - since > _LONG:
            yield
            since = perf_counter()
    return found


def in_order(items: Iterable[T], key: Callable[[T], Any]) -> Steps[list[T]]:
    """The items sorted by a key, of which each call may take long. Long lists are sorted in parts and merged."""
    ranked: list[tuple[Any, T]] = []
    since = perf_counter()
    for item in tuple(items):
        ranked.append((key(item), item))
        if perf_counter() - since > _LONG:
            yield
            since = perf_counter()
    if len(ranked) <= _SORTED_PART:
        ranked.sort(key=_rank)
        return [item for _, item in ranked]
    parts: list[list[tuple[Any, T]]] = []
    for part in parts_of(ranked, _SORTED_PART):
        parts.append(sorted(part, key=_rank))
        yield
    merged: list[T] = []
    for number, (_, item) in enumerate(merge(*parts, key=_rank)):
        merged.append(item)
        if number % _PART == 0:
            yield
    return merged


_rank: Final = itemgetter(0)
