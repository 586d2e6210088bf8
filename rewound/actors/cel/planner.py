"""Turns a checked tree into closures.

cel-go's optimizer runs here too, because clients can see its effects: lists, maps and conversions of constants are
constants (they cost nothing, and an invalid one makes the definition invalid), and so are regular expressions.

The macros all, exists, exists_one, map and filter expand to comprehensions. An error inside a loop does not end it:
the accumulator holds the error, and a later item may decide the result, as with && and ||. Everything costs what
cel-go counts, so that a loop ends at the same item when the limit is reached. An expression may construct protobuf's
well-known messages: google.protobuf.Int64Value{value: 1} is 1. Struct, Value and ListValue are JSON data: every
number in them is a double.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol

from rewound.actors.cel import mutations, operations, operators, times
from rewound.actors.cel.attributes import Attribute, Fixed, Operation, Qualifier, Run, Step, branch
from rewound.actors.cel.costs import (
    BUDGET,
    COST,
    FIRST_VARIABLE,
    LIST_COST,
    MAP_COST,
    MESSAGE_COST,
    NEXT,
    Cells,
    pause,
)
from rewound.actors.cel.extensions import MapBuilder
from rewound.actors.cel.language import Language
from rewound.actors.cel.macros import UNUSED
from rewound.actors.cel.operations import as_json
from rewound.actors.cel.operators import plan_call
from rewound.actors.cel.syntax import (
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
from rewound.actors.cel.types import BOOL, Type
from rewound.actors.cel.values import (
    CannotCompile,
    EvaluationError,
    ListBuilder,
    ListValue,
    MapLike,
    MapValue,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    go_type_name,
    list_index,
    list_items,
    no_such_overload,
    optional_value,
    printed,
)
from rewound.actors.runtime.budget import Budget
from rewound.actors.versions.features import CEL_LENIENT_HAS


def _iterate(values: Any) -> Iterator[Any]:
    if isinstance(values, list | ListValue):
        return list_items(values)
    if isinstance(values, MapLike):
        return values.keys()
    raise EvaluationError(f"got '{go_type_name(values)}', expected iterable type")


def fold(
    values: Run, initial: Run, condition: Run, step: Run, result: Run, variable: int, accumulator: int
) -> Run:
    """Plan any comprehension; `variable` and `accumulator` are cells."""

    def run(cells: Cells) -> Any:
        items = _iterate(values(cells))
        start = initial(cells)
        building = start.__class__ is list and not start
        cells[accumulator] = ListBuilder() if building else start
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
        return list(found) if found.__class__ is ListBuilder else found

    return run


def _pairs(values: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(values, list | ListValue):
        yield from enumerate(list_items(values))
        return
    for key in _iterate(values):
        try:
            yield key, values.get(key)
        except EvaluationError as error:
            yield key, error.with_traceback(None)


def fold_pairs(
    values: Run, initial: Run, condition: Run, step: Run, result: Run, slots: tuple[int, int, int]
) -> Run:
    """Plan a comprehension with two variables; `slots` are the cells of both and of the accumulator."""
    first, second, accumulator = slots

    def run(cells: Cells) -> Any:
        pairs = _pairs(values(cells))
        start = initial(cells)
        if start.__class__ is list and not start:
            start = ListBuilder()
        elif start.__class__ is MapValue and not start.size():
            start = MapBuilder([])
        cells[accumulator] = start
        for key, value in pairs:
            cells[first], cells[second] = key, value
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
        if found.__class__ is MapBuilder:
            return found.finished()
        return list(found) if found.__class__ is ListBuilder else found

    return run


def quantifier(values: Run, predicate: Run, variable: int, ends: bool) -> Run:
    """Plan all (which ends at false) and exists (which ends at true), the most frequent loops.

    all is __result__ && predicate while @not_strictly_false(__result__); exists is the same with || and one more !.
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


_PREFIX: Final = "google.protobuf."
_WRAPPED: Final[dict[str, Any]] = {
    "BoolValue": False,
    "BytesValue": b"",
    "DoubleValue": 0.0,
    "FloatValue": 0.0,
    "Int32Value": 0,
    "Int64Value": 0,
    "StringValue": "",
    "UInt32Value": Uint(0),
    "UInt64Value": Uint(0),
}
_BOUNDS: Final = {
    "Int32Value": (-(2**31), 2**31 - 1, "integer overflow"),
    "UInt32Value": (0, 2**32 - 1, "unsigned integer overflow"),
}


class Empty:
    type_name: Final = "google.protobuf.Empty"
    go_name: Final = "*types.protoObj"

    def equals(self, other: Any, _: Budget) -> bool:
        if not isinstance(other, Empty):
            raise no_such_overload()
        return True


def make_message(name: str, fields: list[str]) -> Callable[[list[Any], Budget], Any]:
    """Return the function that makes a message from the values of its fields."""
    short = name.removeprefix(_PREFIX)
    make = _MAKERS.get(short)
    if short in _WRAPPED:
        return lambda values, _: _wrapped(short, values)
    if mutations.is_type(name):
        made = mutations.maker(name, fields)
        return lambda values, _: made(values)
    if make is None:
        raise CannotCompile(f"unknown type: {name}")
    return lambda values, budget: make(dict(zip(fields, values, strict=True)), budget)


def _wrapped(name: str, values: list[Any]) -> Any:
    value = values[-1] if values else _WRAPPED[name]
    if name == "FloatValue" and value.__class__ is float:
        return _single(value)
    if name in _BOUNDS and isinstance(value, int):
        least, most, text = _BOUNDS[name]
        if not least <= value <= most:
            raise EvaluationError(f"field type conversion error for {_PREFIX}{name}.value value type: {text}")
    return value


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _duration(fields: dict[str, int], _: Budget) -> Any:
    return times.checked_duration(fields.get("seconds", 0) * times.SECOND + fields.get("nanos", 0))


def _timestamp(fields: dict[str, int], _: Budget) -> Any:
    return times.add_duration(Timestamp(fields.get("seconds", 0)), fields.get("nanos", 0))


def _value(fields: dict[str, Any], budget: Budget) -> Any:
    for name, value in fields.items():
        return None if name == "null_value" else as_json(value, budget)
    return None


def _any(_: dict[str, Any], __: Budget) -> Any:
    raise EvaluationError("unsupported conversion to ref.Val: (*anypb.Any)")


_MAKERS: Final[dict[str, Callable[[dict[str, Any], Budget], Any]]] = {
    "Duration": _duration,
    "Timestamp": _timestamp,
    "Struct": lambda fields, budget: as_json(fields.get("fields", MapValue([])), budget),
    "ListValue": lambda fields, budget: as_json(fields.get("values", []), budget),
    "Value": _value,
    "Any": _any,
    "Empty": lambda _, __: Empty(),
}


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

    @property
    def language(self) -> Language: ...


class Planner:
    def __init__(self, checked: Checked, variables: tuple[str, ...]) -> None:
        self._references, self._types = checked.references, checked.types
        self._language = checked.language
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
            if mutations.is_type(name):
                raise CannotCompile(f"reference to undefined type: {name}")
            return Fixed(TypeValue(name))
        if name not in self._slots:
            return Attribute(None, _unknown(f"no such attribute: id: {node.id}, names: [{name}]"))
        return Attribute(self._slots[name], None)

    def _select(self, node: Select) -> Step:
        if node.id in self._references:
            return self._name(node, node.field)
        operand = self.plan(node.operand)
        if node.test_only:
            return Operation(_has(operand.run, node.field, CEL_LENIENT_HAS in self._language.features))
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
                return Operation(operators.chain(parts, node.function == "_||_"))
        reference = self._references.get(node.id)
        overloads = reference.overloads if reference is not None else ()
        overload = overloads[0] if len(overloads) == 1 else ""
        if reference is not None and reference.name:
            steps = [self.plan(argument) for argument in node.arguments]
            return plan_call(reference.name, overload, steps, self._language)
        nodes = node.arguments if node.target is None else (node.target, *node.arguments)
        steps = [self.plan(argument) for argument in nodes]
        return plan_call(node.function, overload, steps, self._language)

    def _list(self, node: ListLiteral) -> Step:
        steps = [self.plan(item) for item in node.items]
        fixed = [step.value for step in steps if isinstance(step, Fixed)]
        if len(fixed) == len(steps) and not node.optional:
            return Fixed(fixed)
        make = partial(_with_optional_items, node.optional) if node.optional else _unchanged
        return Operation(operators.construct([step.run for step in steps], LIST_COST, make))

    def _map(self, node: MapLiteral) -> Step:
        steps = [self.plan(part) for entry in node.entries for part in entry]
        fixed = [step.value for step in steps if isinstance(step, Fixed)]
        if len(fixed) == len(steps) and not node.optional:
            return Fixed(_map_of(fixed))
        make = partial(_with_optional_entries, node.optional) if node.optional else _make_map
        return Operation(operators.construct([step.run for step in steps], MAP_COST, make))

    def _message(self, node: MessageLiteral) -> Step:
        steps = [self.plan(value).run for _, value in node.fields]
        names = [name for name, _ in node.fields]
        make = make_message(node.name.lstrip("."), names)
        if node.optional:
            make = partial(_with_optional_fields, node.optional, node.name.lstrip("."), names)
        return Operation(operators.construct(steps, MESSAGE_COST, make))

    def _comprehension(self, node: Comprehension) -> Step:
        if node.variable == UNUSED:
            return self._with_value(node)
        values = self.plan(node.range).run
        initial = self.plan(node.initial).run
        before = dict(self._slots)
        variable, accumulator, second = self.cells, self.cells + 1, self.cells + 2
        self.cells += 3
        self._slots[node.accumulator] = accumulator
        result = self.plan(node.result).run
        self._slots[node.variable] = variable
        if node.second:
            self._slots[node.second] = second
        try:
            found = None if node.second else self._quantifier(node, values, variable)
            if found is not None:
                return found
            condition, step = self.plan(node.condition).run, self.plan(node.step).run
        finally:
            self._slots = before
        if node.second:
            return Operation(
                fold_pairs(values, initial, condition, step, result, (variable, second, accumulator))
            )
        return Operation(fold(values, initial, condition, step, result, variable, accumulator))

    def _with_value(self, node: Comprehension) -> Step:
        """Plan the result in which the accumulator is the name of the initial value, as optMap does."""
        initial, before, slot = self.plan(node.initial).run, dict(self._slots), self.cells
        self.cells += 1
        self._slots[node.accumulator] = slot
        try:
            result = self.plan(node.result).run
        finally:
            self._slots = before

        def run(cells: Cells) -> Any:
            try:
                cells[slot] = initial(cells)
            except EvaluationError as error:
                cells[slot] = error.with_traceback(None)
            return result(cells)

        return Operation(run)

    def _quantifier(self, node: Comprehension, values: Any, variable: int) -> Step | None:
        """Return the comprehension as all or exists, or None if it is another one."""
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
        if not _is_identifier(step.arguments[0], node.accumulator) or not _is_identifier(
            node.result, node.accumulator
        ):
            return None
        if not _checks_accumulator(node.condition, node.accumulator, ends) or _mentions(
            step.arguments[1], node.accumulator
        ):
            return None
        return Operation(quantifier(values, self.plan(step.arguments[1]).run, variable, ends))


def _operands(node: Node, function: str) -> list[Node]:
    """Return the operands of a tree of && or of ||, from left to right."""
    if not isinstance(node, Call) or node.function != function:
        return [node]
    return [operand for argument in node.arguments for operand in _operands(argument, function)]


def _is_identifier(node: Node, name: str) -> bool:
    return isinstance(node, Identifier) and node.name == name


def _checks_accumulator(node: Node, accumulator: str, negated: bool) -> bool:
    """Whether the condition is @not_strictly_false(accumulator), or of its negation."""
    if not isinstance(node, Call) or node.function != "@not_strictly_false":
        return False
    inner = node.arguments[0]
    if negated:
        return (
            isinstance(inner, Call)
            and inner.function == "!_"
            and _is_identifier(inner.arguments[0], accumulator)
        )
    return _is_identifier(inner, accumulator)


def _mentions(node: Node, name: str) -> bool:
    """Whether the accumulator's name is used where a nested macro does not shadow it."""
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
    """Plan `duration` and `timestamp`, which the checker knows, but which have no value."""

    def run(_: Cells) -> Any:
        raise EvaluationError(message)

    return run


def _unchanged(values: list[Any], _: Budget) -> list[Any]:
    return values


def _make_map(parts: list[Any], _: Budget) -> MapValue:
    return _map_of(parts)


def _map_of(parts: list[Any]) -> MapValue:
    return MapValue(list(zip(parts[::2], parts[1::2], strict=True)))


def _with_optional_items(optional: frozenset[int], values: list[Any], _: Budget) -> list[Any]:
    items: list[Any] = []
    for index, value in enumerate(values):
        if index not in optional:
            items.append(value)
        elif (found := optional_value(value, str(index))).has_value:
            items.append(found.value)
    return items


def _with_optional_entries(optional: frozenset[int], parts: list[Any], _: Budget) -> MapValue:
    entries: list[tuple[Any, Any]] = []
    for index, (key, value) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        if index not in optional:
            entries.append((key, value))
        elif (found := optional_value(value, printed(key))).has_value:
            entries.append((key, found.value))
    return MapValue(entries)


def _with_optional_fields(
    optional: frozenset[int], name: str, names: list[str], values: list[Any], budget: Budget
) -> Any:
    fields: dict[str, Any] = {}
    for index, (field, value) in enumerate(zip(names, values, strict=True)):
        if index not in optional:
            fields[field] = value
        elif (found := optional_value(value, field)).has_value:
            fields[field] = found.value
    return make_message(name, list(fields))(list(fields.values()), budget)


def _has(operand: Callable[[Cells], Any], field: str, lenient: bool) -> Callable[[Cells], Any]:
    """Plan has(), which costs what its operand costs. If it is lenient, nothing has no fields."""

    def run(cells: Cells) -> bool:
        value = operand(cells)
        if value.__class__ is Optional:
            if not value.has_value:
                return False
            value = value.value
        if isinstance(value, MapLike):
            return value.contains(field)
        if isinstance(value, mutations.Constructed):
            return value.contains(field)
        if isinstance(value, list | ListValue):
            return (
                bool(list_index(field)) if lenient else operations.list_contains(value, field, cells[BUDGET])
            )
        if lenient:
            return False
        raise EvaluationError("invalid type for field selection.")

    return run


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
