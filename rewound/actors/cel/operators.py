"""Plans calls of operators, conversions, and functions of the language and of the libraries, as closures.

cel-go evaluates both operands of an operator even if the first one fails, and charges for the call. A function with
more arguments stops at the first error and then charges nothing, unless the last argument failed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from rewound.actors.cel import kubernetes, operations
from rewound.actors.cel.addresses import CIDR, IP
from rewound.actors.cel.attributes import Attribute, Choice, Fixed, Operation, Qualifier, Run, Step, branch
from rewound.actors.cel.costs import (
    BUDGET,
    COST,
    RESULT_CHARGES,
    Cells,
    Charge,
    charge,
    charge_compiled,
    charge_large,
    charge_nothing,
    charge_of,
    size_of,
    tenth,
)
from rewound.actors.cel.extensions import distinct
from rewound.actors.cel.go_regexp import InvalidExpression
from rewound.actors.cel.language import Language
from rewound.actors.cel.library import (
    FUNCTIONS,
    Expression,
    bind,
    bind_url,
    compile_expression,
    expression_of_object,
)
from rewound.actors.cel.macros import SORT_BY_KEYS
from rewound.actors.cel.operations import CONVERSIONS, Walk, equal, list_contains
from rewound.actors.cel.values import (
    MAX_INT,
    NONE,
    CannotCompile,
    Duration,
    EvaluationError,
    EvaluationStopped,
    ListValue,
    MapLike,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    go_type_name,
    is_list,
    key_of,
    list_items,
    no_such_overload,
)
from rewound.actors.runtime.budget import Budget
from rewound.actors.versions.features import (
    CEL_CHECKED_CONVERSIONS,
    CEL_EQUALITY_COSTS,
    CEL_FAILING_MEMBERS,
    CEL_NAMED_GROUPS,
)

_PRIMITIVE: Final = frozenset({bool, bytes, float, int, str, Uint})


def contains(value: Any, container: Any, budget: Budget) -> bool:
    if is_list(container):
        return list_contains(container, value, budget)
    if isinstance(container, MapLike):
        return container.contains(value)
    raise no_such_overload()


def is_primitive(values: list[Any]) -> bool:
    return all(value.__class__ in _PRIMITIVE for value in values)


def in_constants(value_of: Run, values: list[Any], *, keeps_errors: bool) -> Run:
    """`in` a list of constants, which costs nothing. In earlier versions an error on the left is in no list."""
    members = frozenset(key for value in values for key in _keys(value))

    def run(cells: Cells) -> bool:
        try:
            value = value_of(cells)
        except EvaluationError:
            if keeps_errors:
                raise
            return False
        if value.__class__ is bytes:
            raise EvaluationStopped("internal error: runtime error: hash of unhashable type types.Bytes")
        return key_of(value) in members

    return run


def _keys(value: Any) -> list[Any]:
    """Return the key of a value, and those of the same number in other types that can express it."""
    keys = [key_of(value)]
    if value.__class__ is float and value.is_integer():
        keys += [(int, int(value)), (Uint, int(value))]
    elif value.__class__ is int:
        keys += [(float, float(value))] + ([(Uint, value)] if value >= 0 else [])
    elif value.__class__ is Uint:
        keys += [(float, float(value))] + ([(int, int(value))] if value <= MAX_INT else [])
    return keys


_SCALARS: Final = frozenset({int, bool, float, type(None)})
Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]


def _charge(cells: Cells, price: Charge | None, first: Any, second: Any) -> None:
    if price is None:
        cells[COST] += 1
    else:
        price(cells, first, second)


def unary(argument: Run, operation: Unary, price: Charge | None) -> Run:
    def run(cells: Cells) -> Any:
        try:
            value = argument(cells)
        except EvaluationError as error:
            _charge(cells, price, error, None)
            raise
        if price is None:
            cells[COST] += 1
        else:
            price(cells, value, None)
        return operation(value)

    return run


def unary_walk(argument: Run, operation: Callable[[Budget, Any], Any], price: Charge | None) -> Run:
    """A call of a library function with one argument, which may visit many values."""
    charged = unary(argument, operations.to_dyn, price)

    def run(cells: Cells) -> Any:
        return operation(cells[BUDGET], charged(cells))

    return run


def _failed_first(cells: Cells, error: EvaluationError, second: Run, price: Charge | None) -> EvaluationError:
    """Raise the error of the first operand, after the second one was evaluated and the call charged."""
    try:
        other = second(cells)
    except EvaluationError as following:
        other = following
    _charge(cells, price, error, other)
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
            _charge(cells, price, left, error)
            raise
        if price is None:
            cells[COST] += 1
        else:
            price(cells, left, right)
        return operation(left, right)

    return run


def walk(first: Step, second: Step, operation: Walk, price: Charge | None) -> Run:
    """An operation that may visit many values, which it counts."""
    operands = binary(first, second, _pair, price)

    def run(cells: Cells) -> Any:
        left, right = operands(cells)
        return operation(left, right, cells[BUDGET])

    return run


def _pair(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


def _cheap_with_constant(left_of: Run, right: Any, operation: Binary) -> Run:
    def run(cells: Cells) -> Any:
        try:
            left = left_of(cells)
        finally:
            cells[COST] += 1
        return operation(left, right)

    return run


def equality(first: Step, second: Step, wanted: bool, language: Language) -> Run:
    """== and !=, which cost a tenth of the shorter text, list or map. != is true for values that cannot be compared."""
    if isinstance(second, Fixed) and second.value.__class__ is str:
        return _text_equality(first.run, second.value, wanted)
    if not wanted:
        return walk(first, second, _differs, _charge_equality)
    costs_one = CEL_EQUALITY_COSTS in language.features and language.library_costs
    return walk(first, second, equal, _charge_equal if costs_one else _charge_equality)


def _charge_equality(cells: Cells, left: Any, right: Any) -> None:
    if left.__class__ in _SCALARS or right.__class__ in _SCALARS:
        cells[COST] += 1 if size_of(left) and size_of(right) else 0
    else:
        charge(cells, tenth(min(size_of(left), size_of(right))))


def _charge_equal(cells: Cells, left: Any, right: Any) -> None:
    if left.__class__ is IP or left.__class__ is CIDR:
        cells[COST] += 1
    else:
        _charge_equality(cells, left, right)


def _differs(left: Any, right: Any, budget: Budget) -> bool:
    try:
        return not equal(left, right, budget)
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
        return (equal if wanted else _differs)(left, right, cells[BUDGET])

    return run


def function(
    name: str, price: Charge | None, arguments: list[Run], operation: Callable[..., Any], sequential: bool
) -> Run:
    """A call of a library function, which gets the budget first. `sequential` ones stop at the first argument that
    fails.
    """
    pays_result = name in RESULT_CHARGES
    charge_result = RESULT_CHARGES.get(name, charge_nothing)

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
                if pays_result:
                    charge_result(cells, failed)
                else:
                    _charge(cells, price, values[0], values[1] if len(values) > 1 else None)
            raise failed
        if not pays_result:
            _charge(cells, price, values[0], values[1] if len(values) > 1 else None)
            return operation(cells[BUDGET], *values)
        try:
            result = operation(cells[BUDGET], *values)
        except EvaluationError as error:
            charge_result(cells, error)
            raise
        charge_result(cells, result)
        return result

    return run


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
    """The same for many operands, all of which have type bool."""

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


def construct(parts: list[Run], cost: int, make: Callable[[list[Any], Budget], Any]) -> Run:
    """A list, map or message of the expression. An error in it ends it, but it is charged."""

    def run(cells: Cells) -> Any:
        try:
            values = [part(cells) for part in parts]
        finally:
            charge(cells, cost)
        return make(values, cells[BUDGET])

    return run


_WALKS: Final[dict[str, Walk]] = {"_+_": operations.add, "@in": contains}
_BINARY: Final[dict[str, Binary]] = {
    "_-_": operations.subtract,
    "_*_": operations.multiply,
    "_/_": operations.divide,
    "_%_": operations.modulo,
    "_<_": operations.less,
    "_<=_": operations.less_equals,
    "_>_": operations.greater,
    "_>=_": operations.greater_equals,
}
_KEYS: Final = (str, int, Uint, bool, float)


def plan_call(name: str, overload: str, steps: list[Step], language: Language) -> Step:
    """Plan a call. `overload` is empty if only an evaluation knows it; a receiver is the first of `steps`."""
    if name in ("_&&_", "_||_"):
        return Operation(logical(steps[0].run, steps[1].run, name == "_||_"))
    if name == "_?_:_":
        return Choice(steps[0].run, branch(steps[1]), branch(steps[2]))
    if name in ("_==_", "_!=_"):
        return Operation(equality(steps[0], steps[1], name == "_==_", language))
    if name in ("_[_]", "_[?_]", "_?._"):
        return _index(steps[0], steps[1], is_optional=name != "_[_]")
    if not steps and (value := kubernetes.constant(name, language.features)) is not None:
        return Operation(_constant(value))
    if name == "optional.none":
        return Operation(_none)
    if name in ("or", "orValue"):
        return Operation(_alternative(steps[0].run, steps[1].run, unwraps=name == "orValue"))
    if name in _WALKS:
        return _walk(name, overload, steps, language)
    if name in _BINARY:
        return Operation(binary(steps[0], steps[1], _BINARY[name], charge_of(name, overload, language)))
    if name in CONVERSIONS:
        return _conversion(name, overload, steps[0], language)
    if name == "url":
        return Operation(
            unary(steps[0].run, bind_url(language.url_type), charge_of(name, overload, language))
        )
    if name == SORT_BY_KEYS:
        steps = [steps[0], Operation(_no_error(steps[1].run))]
    if name == "distinct":
        return Operation(_distinct(steps[0].run, charge_of(name, overload, language)))
    if name in FUNCTIONS:
        return _library(name, overload, steps, language)
    return _standard(name, overload, steps, language)


def _index(operand: Step, key: Step, *, is_optional: bool) -> Step:
    attribute = operand if isinstance(operand, Attribute) else Attribute(None, operand.run)
    if isinstance(key, Fixed):
        if key.value.__class__ not in _KEYS:
            raise CannotCompile(f"invalid qualifier type: {go_type_name(key.value)}")
        return attribute.select(Qualifier(key.value, is_optional=is_optional))
    dynamic = key.resolve() if isinstance(key, Attribute) else key.run
    return attribute.select(Qualifier(None, dynamic, is_optional=is_optional))


def _constant(value: Any) -> Run:
    """Plan a function without arguments."""

    def run(cells: Cells) -> Any:
        cells[COST] += 1
        return value

    return run


def _no_error(keys_of: Run) -> Run:
    """Plan the keys of sortBy. Where computing one fails, cel-go fails, and not with a CEL error."""

    def run(cells: Cells) -> Any:
        try:
            return keys_of(cells)
        except EvaluationError:
            text = "interface conversion: *types.Err is not traits.Lister: missing method Add"
            raise EvaluationStopped(f"internal error: {text}") from None

    return run


def _distinct(values_of: Run, price: Charge | None) -> Run:
    def run(cells: Cells) -> Any:
        try:
            values = values_of(cells)
        except EvaluationError as error:
            _charge(cells, price, error, None)
            raise
        _charge(cells, price, values, None)
        return distinct(values, cells[BUDGET])

    return run


def _none(cells: Cells) -> Optional:
    cells[COST] += 1
    return NONE


def _alternative(first: Run, second: Run, *, unwraps: bool) -> Run:
    """Plan `or` and `orValue`, which evaluate the second operand only if the first has no value."""

    def run(cells: Cells) -> Any:
        found = first(cells)
        if found.__class__ is not Optional:
            return found
        if found.has_value:
            return found.value if unwraps else found
        return second(cells)

    return run


def _walk(name: str, overload: str, steps: list[Step], language: Language) -> Step:
    values = steps[1]
    if name == "@in" and overload == "in_list" and isinstance(values, Fixed):
        constants = list(list_items(values.value))
        if not constants:
            return Fixed(False)
        if is_primitive(constants):
            keeps_errors = CEL_FAILING_MEMBERS in language.features
            return Operation(in_constants(steps[0].run, constants, keeps_errors=keeps_errors))
    return Operation(walk(steps[0], values, _WALKS[name], charge_of(name, overload, language)))


def _conversion(name: str, overload: str, argument: Step, language: Language) -> Step:
    convert = CONVERSIONS[name]
    if CEL_CHECKED_CONVERSIONS in language.features and name in _CONVERTIBLE:
        convert = _checked_conversion(name, convert)
    if not isinstance(argument, Fixed):
        return Operation(unary(argument.run, convert, charge_of(name, overload, language)))
    try:
        return Fixed(convert(argument.value))
    except EvaluationError as error:
        raise CannotCompile(error.message) from None


_CONVERTIBLE: Final[dict[str, tuple[type, ...]]] = {
    "int": (int, Uint, float, str, Timestamp, Duration),
    "uint": (Uint, int, float, str),
    "double": (float, int, Uint, str),
    "bool": (bool, str),
    "string": (str, bool, int, Uint, float, bytes, Timestamp, Duration),
    "bytes": (bytes, str),
    "timestamp": (Timestamp, str, int),
    "duration": (Duration, str, int),
}
_BUILT_IN: Final = (bool, int, Uint, float, str, bytes, type(None), Timestamp, Duration, TypeValue, Optional)


def _checked_conversion(name: str, convert: Unary) -> Unary:
    """Return a conversion of values of the declared types, as in later versions."""
    accepted = _CONVERTIBLE[name]

    def run(value: Any) -> Any:
        kind = value.__class__
        if kind not in accepted and (kind in _BUILT_IN or isinstance(value, list | ListValue | MapLike)):
            raise no_such_overload(name, value)
        return convert(value)

    return run


def _library(name: str, overload: str, steps: list[Step], language: Language) -> Step:
    operation, dynamic = bind(name, overload, language.features)
    sequential = dynamic or len(steps) > 2
    price = charge_of(name, overload, language)
    if name in ("find", "findAll"):
        source = steps[1]
        if isinstance(source, Fixed) and source.value.__class__ is str:
            expression = _compiled(source.value, language)
            operation, sequential = _constant_search(name, expression), True
            price = charge_large if expression.is_large else price
        else:
            price = charge_compiled
    if len(steps) == 1 and name != "join":
        return Operation(unary_walk(steps[0].run, operation, price))
    return Operation(function(name, price, [step.run for step in steps], operation, sequential))


def _compiled(source: str, language: Language) -> Expression:
    try:
        return compile_expression(source, named=CEL_NAMED_GROUPS in language.features)
    except InvalidExpression as problem:
        raise CannotCompile(str(problem)) from None


def _constant_search(name: str, expression: Expression) -> Callable[..., Any]:
    def find(_budget: Budget, text: Any, _: str, limit: Any = -1) -> Any:
        if text.__class__ is not str or limit.__class__ is not int:
            raise no_such_overload()
        return expression.find(text) if name == "find" else expression.find_all(text, limit)

    return find


def _standard(name: str, overload: str, steps: list[Step], language: Language) -> Step:
    """Plan the functions of the language itself that are neither operators nor conversions."""
    price = charge_of(name, overload, language)
    if name == "matches":
        return _matches(overload, steps, language)
    if len(steps) == 2 and name in _TEXT:
        call = _TEXT[name]
        if CEL_CHECKED_CONVERSIONS in language.features:
            call = _without_name(call)
        return Operation(binary(steps[0], steps[1], call, price))
    if name == "!_" and CEL_CHECKED_CONVERSIONS in language.features:
        return Operation(unary(steps[0].run, _without_name(operations.logical_not), price))
    return Operation(unary(steps[0].run, _UNARY[name], price))


def _matches(overload: str, steps: list[Step], language: Language) -> Step:
    source = steps[1]
    if not isinstance(source, Fixed) or source.value.__class__ is not str:
        compiled = charge_compiled if overload == "matches_string" else None
        match_any = partial(_match, named=CEL_NAMED_GROUPS in language.features)
        return Operation(binary(steps[0], source, match_any, compiled))
    expression = _compiled(source.value, language)
    price = charge_large if expression.is_large else charge_of("matches", overload, language)

    def match(_budget: Budget, text: Any, _: str) -> bool:
        if text.__class__ is not str:
            raise no_such_overload()
        return bool(expression.matches(text))

    return Operation(function("matches", price, [step.run for step in steps], match, True))


def _match(text: Any, source: Any, *, named: bool) -> bool:
    if text.__class__ is not str:
        raise operations.unsupported("matches", text)
    if source.__class__ is not str:
        raise no_such_overload()
    try:
        return expression_of_object(source, named=named).matches(text)
    except InvalidExpression as problem:
        raise EvaluationError(str(problem)) from None


def _size(value: Any) -> int:
    if isinstance(value, MapLike):
        return value.size()
    if isinstance(value, str | bytes | list):
        return len(value)
    if isinstance(value, ListValue):
        return value.size()
    raise operations.unsupported("size", value)


def _not_strictly_false(value: Any) -> bool:
    return value is not False


def _text_function(name: str, apply: Callable[[str, str], bool]) -> Binary:
    def call(text: Any, part: Any) -> bool:
        if text.__class__ is not str:
            raise operations.unsupported(name, text)
        if part.__class__ is not str:
            raise no_such_overload()
        return apply(text, part)

    return call


def _without_name(call: Callable[..., Any]) -> Callable[..., Any]:
    """Later versions do not name the function whose arguments have a wrong type."""

    def run(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except EvaluationError as error:
            raise no_such_overload() if error.message.startswith("no such overload") else error from None

    return run


_TEXT: Final = {
    "contains": _text_function("contains", str.__contains__),
    "startsWith": _text_function("startsWith", str.startswith),
    "endsWith": _text_function("endsWith", str.endswith),
}
_UNARY: Final[dict[str, Unary]] = {
    "!_": operations.logical_not,
    "-_": operations.negate,
    "size": _size,
    "@not_strictly_false": _not_strictly_false,
    "__not_strictly_false__": _not_strictly_false,
}
