"""Makes closures of a checked tree.

What cel-go's optimizer does when a program is made is done here too, because clients see it: lists, maps and
conversions of constants are constants (they cost nothing, and an invalid one is refused with the definition), and so
are regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from actors.cel.library.expressions import InvalidExpression, compile_expression
from actors.cel.library.functions import FUNCTIONS, bind
from actors.cel.planning import calls
from actors.cel.planning.attributes import Attribute, Choice, Computed, Fixed, Qualifier, Step, branch
from actors.cel.planning.costs import FIRST_VARIABLE, LIST_COST, MAP_COST, MESSAGE_COST, Cells, charge_of
from actors.cel.planning.folds import fold, quantifier
from actors.cel.planning.membership import contains, in_constants, is_primitive
from actors.cel.planning.messages import make_message
from actors.cel.runtime import arithmetic, equality
from actors.cel.runtime.containers import ListValue, MapLike, MapValue, list_items
from actors.cel.runtime.conversions import CONVERSIONS
from actors.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    MessageLiteral,
    Node,
    Select,
)
from actors.cel.types import BOOL, Type
from actors.cel.values import (
    CannotCompile,
    EvaluationError,
    TypeValue,
    Uint,
    go_type_name,
    no_such_overload,
)

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


class Reference(Protocol):
    """What the checker found for a node: the name of a variable or type, or the overloads of a call."""

    @property
    def name(self) -> str: ...

    @property
    def overloads(self) -> tuple[str, ...]: ...


class Checked(Protocol):
    @property
    def references(self) -> Mapping[int, Reference]: ...

    @property
    def types(self) -> Mapping[int, Type]: ...


class Planner:
    def __init__(self, checked: Checked, variables: tuple[str, ...]) -> None:
        self._references, self._types = checked.references, checked.types
        self._slots = {name: FIRST_VARIABLE + index for index, name in enumerate(variables)}
        self.cells = FIRST_VARIABLE + len(variables)

    def plan(self, node: Node) -> Step:
        return _PLANS[node.__class__](self, node)

    def _constant(self, node: Constant) -> Step:
        return Fixed(node.value)

    def _identifier(self, node: Identifier) -> Step:
        return self._name(node, node.name)

    def _name(self, node: Node, written: str) -> Step:
        reference = self._references.get(node.id)
        name = (reference.name if reference is not None else "") or written.lstrip(".")
        kind = self._types.get(node.id)
        if kind is not None and kind.name == "type" and name not in self._slots:
            return Fixed(TypeValue(name))
        if name not in self._slots:
            return Attribute(None, _unknown(f"no such attribute: id: {node.id}, names: [{name}]"))
        return Attribute(self._slots[name], None)

    def _select(self, node: Select) -> Step:
        if node.id in self._references:
            return self._name(node, node.field)
        operand = self.plan(node.operand)
        if node.test_only:
            return Computed(_has(operand.run, node.field))
        return (
            branch(operand).select(Qualifier(node.field))
            if isinstance(operand, Attribute)
            else Attribute(None, operand.run, (Qualifier(node.field),))
        )

    def _call(self, node: Call) -> Step:
        if node.function in ("_&&_", "_||_"):
            operands = _operands(node, node.function)
            if all(self._types.get(operand.id) == BOOL for operand in operands):
                parts = [self.plan(operand).run for operand in operands]
                return Computed(calls.chain(parts, node.function == "_||_"))
        nodes = node.arguments if node.target is None else (node.target, *node.arguments)
        steps = [self.plan(argument) for argument in nodes]
        reference = self._references.get(node.id)
        overloads = reference.overloads if reference is not None else ()
        overload = overloads[0] if len(overloads) == 1 else ""
        return self._operator(node.function, overload, steps)

    def _operator(self, name: str, overload: str, steps: list[Step]) -> Step:
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
        if name in FUNCTIONS:
            return _library(name, overload, steps)
        return _standard(name, overload, steps)

    def _list(self, node: ListLiteral) -> Step:
        steps = [self.plan(item) for item in node.items]
        fixed = [step.value for step in steps if isinstance(step, Fixed)]
        if len(fixed) == len(steps):
            return Fixed(fixed)
        return Computed(calls.construct([step.run for step in steps], LIST_COST, _as_it_is))

    def _map(self, node: MapLiteral) -> Step:
        steps = [self.plan(part) for entry in node.entries for part in entry]
        fixed = [step.value for step in steps if isinstance(step, Fixed)]
        if len(fixed) == len(steps):
            return Fixed(_make_map(fixed))
        return Computed(calls.construct([step.run for step in steps], MAP_COST, _make_map))

    def _message(self, node: MessageLiteral) -> Step:
        steps = [self.plan(value).run for _, value in node.fields]
        make = make_message(node.name.lstrip("."), [name for name, _ in node.fields])
        return Computed(calls.construct(steps, MESSAGE_COST, make))

    def _comprehension(self, node: Comprehension) -> Step:
        values = self.plan(node.range).run
        initial = self.plan(node.initial).run
        before = dict(self._slots)
        variable, accumulator = self.cells, self.cells + 1
        self.cells += 2
        self._slots[node.accumulator] = accumulator
        result = self.plan(node.result).run
        self._slots[node.variable] = variable
        try:
            found = self._quantifier(node, values, variable)
            if found is not None:
                return found
            condition, step = self.plan(node.condition).run, self.plan(node.step).run
        finally:
            self._slots = before
        return Computed(fold(values, initial, condition, step, result, variable, accumulator))

    def _quantifier(self, node: Comprehension, values: Any, variable: int) -> Step | None:
        """The comprehension as one of all or exists; None if it is another one."""
        step, initial = node.step, node.initial
        if (
            not isinstance(step, Call)
            or not isinstance(initial, Constant)
            or initial.value.__class__ is not bool
        ):
            return None
        ends = step.function == "_||_"
        if step.function != ("_&&_" if initial.value else "_||_") or node.variable == node.accumulator:
            return None
        if not _is(step.arguments[0], node.accumulator) or not _is(node.result, node.accumulator):
            return None
        if not _goes_on(node.condition, node.accumulator, ends) or _mentions(
            step.arguments[1], node.accumulator
        ):
            return None
        return Computed(quantifier(values, self.plan(step.arguments[1]).run, variable, ends))


def _operands(node: Node, function: str) -> list[Node]:
    """The operands of a tree of && or of ||, from left to right."""
    if not isinstance(node, Call) or node.function != function:
        return [node]
    return [operand for argument in node.arguments for operand in _operands(argument, function)]


def _is(node: Node, name: str) -> bool:
    return isinstance(node, Identifier) and node.name == name


def _goes_on(node: Node, accumulator: str, negated: bool) -> bool:
    """Whether the condition is @not_strictly_false(accumulator), or of its negation."""
    if not isinstance(node, Call) or node.function != "@not_strictly_false":
        return False
    inner = node.arguments[0]
    if negated:
        return isinstance(inner, Call) and inner.function == "!_" and _is(inner.arguments[0], accumulator)
    return _is(inner, accumulator)


def _mentions(node: Node, name: str) -> bool:
    """Whether the accumulator's name is used where a nested macro does not give it another meaning."""
    if isinstance(node, Identifier):
        return node.name.lstrip(".") == name
    if isinstance(node, Select):
        return _mentions(node.operand, name)
    if isinstance(node, Call):
        parts = node.arguments if node.target is None else (node.target, *node.arguments)
        return any(_mentions(part, name) for part in parts)
    if isinstance(node, ListLiteral):
        return any(_mentions(part, name) for part in node.items)
    if isinstance(node, MapLiteral):
        return any(_mentions(part, name) for entry in node.entries for part in entry)
    if isinstance(node, MessageLiteral):
        return any(_mentions(part, name) for _, part in node.fields)
    if isinstance(node, Comprehension):
        return _mentions(node.range, name) or (node.accumulator != name and _mentions(node.step, name))
    return False


def _unknown(message: str) -> Callable[[Cells], Any]:
    """`duration` and `timestamp`, which the checker knows, but which have no value."""

    def run(_: Cells) -> Any:
        raise EvaluationError(message)

    return run


def _as_it_is(values: list[Any]) -> list[Any]:
    return values


def _make_map(parts: list[Any]) -> MapValue:
    return MapValue(list(zip(parts[::2], parts[1::2], strict=True)))


def _has(operand: Callable[[Cells], Any], field: str) -> Callable[[Cells], Any]:
    """has() costs what its operand costs."""

    def run(cells: Cells) -> bool:
        value = operand(cells)
        if isinstance(value, MapLike):
            return value.contains(field)
        if isinstance(value, list | ListValue):
            return equality.list_contains(value, field)
        raise EvaluationError("invalid type for field selection.")

    return run


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
    if name in ("find", "findAll") and isinstance(steps[1], Fixed) and steps[1].value.__class__ is str:
        operation, sequential = _constant_search(name, steps[1].value), True
    if len(steps) == 1 and name != "join":
        return Computed(calls.unary(steps[0].run, operation, charge_of(name, overload)))
    return Computed(calls.function(name, overload, [step.run for step in steps], operation, sequential))


def _compiled(source: str) -> Any:
    try:
        return compile_expression(source)
    except InvalidExpression as problem:
        raise CannotCompile(str(problem)) from None


def _constant_search(name: str, source: str) -> Callable[..., Any]:
    expression = _compiled(source)

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
        return Computed(calls.binary(steps[0], source, _match, charge_of("matches", overload)))
    expression = _compiled(source.value)

    def match(text: Any, _: str) -> bool:
        if text.__class__ is not str:
            raise no_such_overload()
        return bool(expression.matches(text))

    return Computed(calls.function("matches", overload, [step.run for step in steps], match, True))


def _match(text: Any, source: Any) -> bool:
    if text.__class__ is not str:
        raise arithmetic.unsupported("matches", text)
    if source.__class__ is not str:
        raise no_such_overload()
    try:
        return compile_expression(source).matches(text)
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
_PLANS: Final[dict[type[Node], Callable[[Planner, Any], Step]]] = {
    Constant: Planner._constant,
    Identifier: Planner._identifier,
    Select: Planner._select,
    Call: Planner._call,
    ListLiteral: Planner._list,
    MapLiteral: Planner._map,
    MessageLiteral: Planner._message,
    Comprehension: Planner._comprehension,
}
