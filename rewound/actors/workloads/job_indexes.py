"""The completion indexes of an Indexed Job: which have succeeded (`status.completedIndexes`), and those of pods.

The status has intervals, of which two neighbours are written separately: "1,3-5,7,8" are 1, 3, 4, 5, 7 and 8.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, in_order, parts_of
from rewound.actors.workloads.pods import deletion_order

LONGEST_PREFIX: Final = 58  # of a generated name, before its five random characters

_is_count = re.compile(r"\+?[0-9]{1,18}").fullmatch
_is_interval = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?").fullmatch
_COMPARED: Final = 512  # intervals in one step


class Indexes:
    """A set of indexes, as ordered intervals, of which the status of a Job may have 50,000."""

    def __init__(self, intervals: Sequence[tuple[int, int]] = (), count: int = 0) -> None:
        self._intervals, self._count = intervals, count

    @classmethod
    def read(cls, text: str, completions: int) -> Steps[Indexes]:
        """Parse the indexes of a status that are below `completions`; invalid intervals are ignored."""
        found: list[tuple[int, int]] = []
        for written in parts_of(text.split(",")):
            for interval in map(_is_interval, written):
                if interval is not None and int(interval[1]) < completions:
                    first = int(interval[1])
                    found.append((first, min(int(interval[2] or first), completions - 1)))
            yield
        return (yield from _merged(found))

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._intervals, index, key=lambda one: one[0])
        return at > 0 and index <= self._intervals[at - 1][1]

    def __len__(self) -> int:
        return self._count

    def text(self) -> Steps[str]:
        """As in a status."""
        written: list[str] = []
        for part in parts_of(self._intervals):
            written += [_written(first, last) for first, last in part]
            yield
        return ",".join(written)

    def with_more(self, indexes: Iterable[int]) -> Steps[Indexes]:
        return (yield from self._with([(index, index) for index in indexes]))

    def with_all(self, other: Indexes) -> Steps[Indexes]:
        return (yield from self._with(other._intervals))

    def _with(self, intervals: Sequence[tuple[int, int]]) -> Steps[Indexes]:
        if not intervals:
            return self
        ordered = yield from in_order((*self._intervals, *intervals), tuple)
        return (yield from _merged(ordered))

    def shared_with(self, other: Indexes) -> Steps[int]:
        """How many indexes are in both."""
        ours, theirs = iter(self._intervals), iter(other._intervals)
        mine, its = next(ours, None), next(theirs, None)
        shared = compared = 0
        while mine is not None and its is not None:
            compared += 1
            if compared % _COMPARED == 0:
                yield
            shared += max(0, min(mine[1], its[1]) - max(mine[0], its[0]) + 1)
            if mine[1] < its[1]:
                mine = next(ours, None)
            else:
                its = next(theirs, None)
        return shared

    def missing(self, completions: int, count: int) -> list[int]:
        """The first `count` indexes below `completions` that are not in it."""
        return list(islice(self._gaps(completions), count))

    def _gaps(self, completions: int) -> Iterator[int]:
        start = 0
        for first, last in self._intervals:
            yield from range(start, min(first, completions))
            start = last + 1
        yield from range(start, completions)


def _merged(intervals: Iterable[tuple[int, int]]) -> Steps[Indexes]:
    """The indexes of intervals that are in order."""
    merged: list[tuple[int, int]] = []
    for part in parts_of(intervals):
        for first, last in part:
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        yield
    count = 0
    for part in parts_of(merged):
        count += sum(last - first + 1 for first, last in part)
        yield
    return Indexes(merged, count)


def _written(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def index_of(pod: Object, annotation: str) -> int | None:
    """The completion index of a pod; None if it has no valid one."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if _is_count(text) else None


def count_of(pod: Object, annotation: str) -> int:
    """A count of failures that a pod has as an annotation; 0 if it has none, or one that is too large."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    count = int(text) if _is_count(text) else 0
    return count if count < 2**31 else 0


def not_needed(
    pods: Iterable[Object], annotation: str, completions: int
) -> Steps[tuple[list[Object], list[Object]]]:
    """The pods without a valid index, and all but one of those that share one; and the pods that remain."""
    removed: list[Object] = []
    by_index: dict[int, list[Object]] = {}
    for part in parts_of(pods):
        for pod in part:
            index = index_of(pod, annotation)
            if index is None or index >= completions:
                removed.append(pod)
            else:
                by_index.setdefault(index, []).append(pod)
        yield
    remaining = []
    for some in parts_of(by_index.values()):
        for same in some:
            *others, kept = sorted(same, key=deletion_order)
            removed += others
            remaining.append(kept)
        yield
    return removed, remaining


def name_prefix(job: str, index: int) -> str:
    """The prefix of the pod name of an index."""
    ending = f"-{index}-"
    return f"{job[: LONGEST_PREFIX - len(ending)]}{ending}"
