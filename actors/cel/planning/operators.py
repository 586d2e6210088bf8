"""Plans calls: operators, conversions, functions of the language and of the libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.cel.library.expressions import Expression, compile_expression, expression_of_object
from actors.cel.library.functions import FUNCTIONS, bind, bind_url
from actors.cel.library.go_regexp import InvalidExpression
from actors.cel.planning import calls
from actors.cel.planning.attributes import Attribute, Choice, Computed, Fixed, Qualifier, Step, branch
from actors.cel.planning.costs import charge_compiled, charge_large, charge_of
from actors.cel.planning.membership import contains, in_constants, is_primitive
from actors.cel.runtime import arithmetic, equality
from actors.cel.runtime.containers import ListValue, MapLike, list_items
from actors.cel.runtime.conversions import CONVERSIONS
from actors.cel.values import CannotCompile, EvaluationError, Uint, go_type_name, no_such_overload

_BINARY: Final[dict[str, calls.Binary]] = {
    "_+_": arithmetic.add,
    "_-_": arithmetic.subtract,
    "_*_": arithmetic.multiply,
    "_/_": arithmetic.divide,
    "_%_": arithmetic.modulo,
    "_<_": equality.less,
    "_<=_": equality.less_equals,
    "_>_": equality.greater,
    "_>=_": equality.greater_equals,
    "@in": contains,
}
_KEYS: Final = (str, int, Uint, bool, float)


def plan_call(name: str, overload: str, steps: list[Step], url_type: str) -> Step:
    """`overload` is empty where only an evaluation knows which one it is; a receiver is the first of `steps`.

    `url_type` is the name of the type of URLs.
    """
    if name in ("_&&_", "_||_"):
        return Computed(calls.logical(steps[0].run, steps[1].run, name == "_||_"))
    if name == "_?_:_":
        return Choice(steps[0].run, branch(steps[1]), branch(steps[2]))
    if name in ("_==_", "_!=_"):
        return Computed(calls.equality(steps[0], steps[1], name == "_==_"))
    if name == "_[_]":
        return _index(steps[0], steps[1])
    if name in _BINARY:
        return _binary(name, overload, steps)
    if name in CONVERSIONS:
        return _conversion(name, overload, steps[0])
    if name == "url":
        return Computed(calls.unary(steps[0].run, bind_url(url_type), charge_of(name, overload)))
    if name in FUNCTIONS:
        return _library(name, overload, steps)
    return _standard(name, overload, steps)


def _index(operand: Step, key: Step) -> Step:
    attribute = operand if isinstance(operand, Attribute) else Attribute(None, operand.run)
    if isinstance(key, Fixed):
        if key.value.__class__ not in _KEYS:
            raise CannotCompile(f"invalid qualifier type: {go_type_name(key.value)}")
        return attribute.select(Qualifier(key.value))
    return attribute.select(Qualifier(None, key.resolve() if isinstance(key, Attribute) else key.run))


def _binary(name: str, overload: str, steps: list[Step]) -> Step:
    values = steps[1]
    if name == "@in" and overload == "in_list" and isinstance(values, Fixed):
        constants = list(list_items(values.value))
        if not constants:
            return Fixed(False)
        if is_primitive(constants):
            return Computed(in_constants(steps[0].run, constants))
    return Computed(calls.binary(steps[0], values, _BINARY[name], charge_of(name, overload)))


def _conversion(name: str, overload: str, argument: Step) -> Step:
    convert = CONVERSIONS[name]
    if not isinstance(argument, Fixed):
        return Computed(calls.unary(argument.run, convert, charge_of(name, overload)))
    try:
        return Fixed(convert(argument.value))
    except EvaluationError as error:
        raise CannotCompile(error.message) from None


def _library(name: str, overload: str, steps: list[Step]) -> Step:
    operation, dynamic = bind(name, overload)
    sequential = dynamic or len(steps) > 2
    price = charge_of(name, overload)
    if name in ("find", "findAll"):
        source = steps[1]
        if isinstance(source, Fixed) and source.value.__class__ is str:
            expression = _compiled(source.value)
            operation, sequential = _constant_search(name, expression), True
            price = charge_large if expression.is_large else price
        else:
            price = charge_compiled
    if len(steps) == 1 and name != "join":
        return Computed(calls.unary(steps[0].run, operation, price))
    return Computed(calls.function(name, price, [step.run for step in steps], operation, sequential))


def _compiled(source: str) -> Expression:
    try:
        return compile_expression(source)
    except InvalidExpression as problem:
        raise CannotCompile(str(problem)) from None


def _constant_search(name: str, expression: Expression) -> Callable[..., Any]:
    def find(text: Any, _: str, limit: Any = -1) -> Any:
        if text.__class__ is not str or limit.__class__ is not int:
            raise no_such_overload()
        return expression.find(text) if name == "find" else expression.find_all(text, limit)

    return find


def _standard(name: str, overload: str, steps: list[Step]) -> Step:
    """The functions of the language itself that are neither operators nor conversions."""
    price = charge_of(name, overload)
    if name == "matches":
        return _matches(overload, steps)
    if len(steps) == 2 and name in _TEXT:
        return Computed(calls.binary(steps[0], steps[1], _TEXT[name], price))
    return Computed(calls.unary(steps[0].run, _UNARY[name], price))


def _matches(overload: str, steps: list[Step]) -> Step:
    source = steps[1]
    if not isinstance(source, Fixed) or source.value.__class__ is not str:
        compiled = charge_compiled if overload == "matches_string" else None
        return Computed(calls.binary(steps[0], source, _match, compiled))
    expression = _compiled(source.value)
    price = charge_large if expression.is_large else charge_of("matches", overload)

    def match(text: Any, _: str) -> bool:
        if text.__class__ is not str:
            raise no_such_overload()
        return bool(expression.matches(text))

    return Computed(calls.function("matches", price, [step.run for step in steps], match, True))


def _match(text: Any, source: Any) -> bool:
    if text.__class__ is not str:
        raise arithmetic.unsupported("matches", text)
    if source.__class__ is not str:
        raise no_such_overload()
    try:
        return expression_of_object(source).matches(text)
    except InvalidExpression as problem:
        raise EvaluationError(str(problem)) from None


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list):
        return len(value)
    if isinstance(value, ListValue | MapLike):
        return value.size()
    raise arithmetic.unsupported("size", value)


def _not_strictly_false(value: Any) -> bool:
    return value is not False


def _text_function(name: str, apply: Callable[[str, str], bool]) -> calls.Binary:
    def call(text: Any, part: Any) -> bool:
        if text.__class__ is not str:
            raise arithmetic.unsupported(name, text)
        if part.__class__ is not str:
            raise no_such_overload()
        return apply(text, part)

    return call


_TEXT: Final = {
    "contains": _text_function("contains", str.__contains__),
    "startsWith": _text_function("startsWith", str.startswith),
    "endsWith": _text_function("endsWith", str.endswith),
}
_UNARY: Final[dict[str, calls.Unary]] = {
    "!_": arithmetic.logical_not,
    "-_": arithmetic.negate,
    "size": _size,
    "@not_strictly_false": _not_strictly_false,
    "__not_strictly_false__": _not_strictly_false,
}
