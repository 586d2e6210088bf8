"""Comprehensions: what the macros all, exists, exists_one, map and filter expand to.

An error inside a loop does not end it: the accumulator holds the error, and a later item may decide the result, as
with && and ||. All of it costs what cel-go counts, so that a loop ends at the same item when the limit is reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.cel.planning.attributes import Run
from actors.cel.planning.costs import COST, NEXT, Cells, pause
from actors.cel.runtime.containers import Building, ListValue, MapLike, list_items
from actors.cel.values import EvaluationError, go_type_name, no_such_overload


def _iterate(values: Any) -> Iterator[Any]:
    if isinstance(values, list | ListValue):
        return list_items(values)
    if isinstance(values, MapLike):
        return values.keys()
    raise EvaluationError(f"got '{go_type_name(values)}', expected iterable type")


def fold(
    values: Run, initial: Run, condition: Run, step: Run, result: Run, variable: int, accumulator: int
) -> Run:
    """Any comprehension; `variable` and `accumulator` are cells."""

    def run(cells: Cells) -> Any:
        items = _iterate(values(cells))
        start = initial(cells)
        building = start.__class__ is list and not start
        cells[accumulator] = Building() if building else start
        for item in items:
            cells[variable] = item
            try:
                if condition(cells) is False:
                    break
            except EvaluationError:
                pass
            try:
                cells[accumulator] = step(cells)
            except EvaluationError as error:
                cells[accumulator] = error.with_traceback(None)
            if cells[COST] >= cells[NEXT]:
                pause(cells)
        found = result(cells)
        return list(found) if found.__class__ is Building else found

    return run


def quantifier(values: Run, predicate: Run, variable: int, ends: bool) -> Run:
    """all (which ends at false) and exists (which ends at true), which are most loops.

    all is __result__ && predicate while @not_strictly_false(__result__); exists is the same with || and one ! more.
    """
    condition_cost = 3 if ends else 2

    def run(cells: Cells) -> Any:
        result: Any = not ends
        for item in _iterate(values(cells)):
            cells[COST] += condition_cost
            if result is ends:
                break
            cells[COST] += 1
            cells[variable] = item
            try:
                found = predicate(cells)
            except EvaluationError as error:
                found = error.with_traceback(None)
            if found is ends:
                result = ends
            elif result is not ends and found is not (not ends) and not isinstance(result, EvaluationError):
                result = found if isinstance(found, EvaluationError) else no_such_overload()
            if cells[COST] >= cells[NEXT]:
                pause(cells)
        cells[COST] += 1
        if isinstance(result, EvaluationError):
            raise result
        return result

    return run
