"""Calls of functions and operators, as closures.

cel-go evaluates both operands of an operator even if the first one fails, and counts the call; a function with more
arguments stops at the first error and then counts nothing, unless it was the last argument that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.cel.library.sizes import RESULT_SIZES
from actors.cel.planning.attributes import Fixed, Run, Step
from actors.cel.planning.costs import (
    COST,
    Cells,
    Charge,
    charge,
    charge_result,
    size_of,
    take_room,
    tenth,
)
from actors.cel.runtime.equality import equal
from actors.cel.values import EvaluationError, no_such_overload

_SCALARS: Final = frozenset({int, bool, float, type(None)})
Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]


def _pay(cells: Cells, price: Charge | None, first: Any, second: Any) -> None:
    if price is None:
        cells[COST] += 1
    else:
        price(cells, first, second)


def unary(argument: Run, operation: Unary, price: Charge | None) -> Run:
    def run(cells: Cells) -> Any:
        try:
            value = argument(cells)
        except EvaluationError as error:
            _pay(cells, price, error, None)
            raise
        if price is None:
            cells[COST] += 1
        else:
            price(cells, value, None)
        return operation(value)

    return run


def _failed_first(cells: Cells, error: EvaluationError, second: Run, price: Charge | None) -> EvaluationError:
    """The error of the first operand, after the second one was evaluated and the call paid."""
    try:
        other = second(cells)
    except EvaluationError as following:
        other = following
    _pay(cells, price, error, other)
    return error


def binary(first: Step, second: Step, operation: Binary, price: Charge | None) -> Run:
    if price is None and isinstance(second, Fixed):
        return _cheap_with_constant(first.run, second.value, operation)
    left_of, right_of = first.run, second.run

    def run(cells: Cells) -> Any:
        try:
            left = left_of(cells)
        except EvaluationError as error:
            raise _failed_first(cells, error, right_of, price) from None
        try:
            right = right_of(cells)
        except EvaluationError as error:
            _pay(cells, price, left, error)
            raise
        if price is None:
            cells[COST] += 1
        else:
            price(cells, left, right)
        return operation(left, right)

    return run


def _cheap_with_constant(left_of: Run, right: Any, operation: Binary) -> Run:
    def run(cells: Cells) -> Any:
        try:
            left = left_of(cells)
        finally:
            cells[COST] += 1
        return operation(left, right)

    return run


def equality(first: Step, second: Step, wanted: bool) -> Run:
    """== and !=, which costs a tenth of the shorter text, list or map. != is true for what cannot be compared."""
    if isinstance(second, Fixed) and second.value.__class__ is str:
        return _text_equality(first.run, second.value, wanted)
    compare = equal if wanted else _differs
    return binary(first, second, compare, _pay_equality)


def _pay_equality(cells: Cells, left: Any, right: Any) -> None:
    if left.__class__ in _SCALARS or right.__class__ in _SCALARS:
        cells[COST] += 1 if size_of(left) and size_of(right) else 0
    else:
        charge(cells, tenth(min(size_of(left), size_of(right))))


def _differs(left: Any, right: Any) -> bool:
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def _text_equality(left_of: Run, right: str, wanted: bool) -> Run:
    """A comparison with a constant text, the most frequent one."""
    most = tenth(len(right))
    cheap = len(right) <= 10

    def run(cells: Cells) -> bool:
        try:
            left = left_of(cells)
        except EvaluationError:
            cells[COST] += min(most, 1)
            raise
        if left.__class__ is str:
            if cheap:
                cells[COST] += most if left else 0
            else:
                charge(cells, min(most, tenth(len(left))))
            return (left == right) is wanted
        charge(cells, tenth(min(size_of(left), len(right))))
        return (equal if wanted else _differs)(left, right)

    return run


def function(
    name: str, price: Charge | None, arguments: list[Run], operation: Callable[..., Any], sequential: bool
) -> Run:
    """A call of a function of a library. `sequential` ones stop at the first argument that fails."""
    pays_result = name == "join"
    measure = RESULT_SIZES.get(name)

    def run(cells: Cells) -> Any:
        values: list[Any] = []
        failed: EvaluationError | None = None
        for argument in arguments:
            try:
                values.append(argument(cells))
            except EvaluationError as error:
                failed = failed or error
                values.append(error)
                if sequential:
                    break
        if failed is not None:
            if len(values) == len(arguments):
                _pay_function(cells, price, pays_result, values, failed)
            raise failed
        if measure is not None:
            take_room(cells, measure(*values))
        if not pays_result:
            _pay(cells, price, values[0], values[1] if len(values) > 1 else None)
            return operation(*values)
        try:
            result = operation(*values)
        except EvaluationError as error:
            charge_result(cells, error)
            raise
        charge_result(cells, result)
        return result

    return run


def _pay_function(
    cells: Cells, price: Charge | None, pays_result: bool, values: list[Any], failed: EvaluationError
) -> None:
    if pays_result:
        charge_result(cells, failed)
    else:
        _pay(cells, price, values[0], values[1] if len(values) > 1 else None)


def logical(first: Run, second: Run, decides: bool) -> Run:
    """&& (decided by false) and || (decided by true), on either side, whatever error the other side has."""
    undecided = not decides

    def run(cells: Cells) -> Any:
        left: Any
        right: Any
        try:
            left = first(cells)
        except EvaluationError as error:
            left = error
        if left is decides:
            return decides
        try:
            right = second(cells)
        except EvaluationError as error:
            right = error
        if right is decides:
            return decides
        if left is undecided and right is undecided:
            return undecided
        if isinstance(left, EvaluationError):
            raise left
        raise right if isinstance(right, EvaluationError) else no_such_overload()

    return run


def chain(parts: list[Run], decides: bool) -> Run:
    """The same for many operands, all of which are of type bool."""

    def run(cells: Cells) -> Any:
        failed: EvaluationError | None = None
        for part in parts:
            try:
                if part(cells) is decides:
                    return decides
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not decides

    return run


def construct(parts: list[Run], cost: int, make: Callable[[list[Any]], Any]) -> Run:
    """A list, map or message of the expression. An error in it ends it, but it is paid."""

    def run(cells: Cells) -> Any:
        try:
            values = [part(cells) for part in parts]
        finally:
            charge(cells, cost)
        return make(values)

    return run
