"""Makes the nodes of an expression, and expands macros into them as cel-go does.

The parser and `recovery`, which explains syntax errors, make nodes with the same `Builder`, so that both find the
same problems with the arguments of macros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.cel.syntax import Call, Comprehension, Constant, Identifier, ListLiteral, Node, Select

ACCUMULATOR: Final = "__result__"


@dataclass(frozen=True, slots=True)
class MacroError(Exception):
    """A macro cannot be expanded with these arguments."""

    offset: int
    message: str


class Builder:
    """Gives nodes their ids, and records their offsets."""

    __slots__ = ("positions",)

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}

    def id_at(self, offset: int) -> int:
        number = len(self.positions) + 1
        self.positions[number] = offset
        return number

    def constant(self, offset: int, value: Any) -> Constant:
        return Constant(self.id_at(offset), value)

    def call(self, offset: int, function: str, *arguments: Node) -> Call:
        return Call(self.id_at(offset), function, arguments)

    def global_call(self, offset: int, function: str, arguments: tuple[Node, ...]) -> Node:
        if function == "has" and len(arguments) == 1:
            return self._has(offset, arguments[0])
        return Call(self.id_at(offset), function, arguments)

    def receiver_call(self, offset: int, function: str, target: Node, arguments: tuple[Node, ...]) -> Node:
        macro = _RECEIVER_MACROS.get((function, len(arguments)))
        if macro is not None:
            return macro(self, offset, target, arguments)
        return Call(self.id_at(offset), function, arguments, target)

    def balanced(self, function: str, terms: list[Node], offsets: list[int]) -> Node:
        """Join terms by && or || as a balanced tree: a chain of any length stays shallow."""
        if len(terms) == 1:
            return terms[0]
        return self._balanced(function, terms, offsets, 0, len(offsets) - 1)

    def _balanced(self, function: str, terms: list[Node], offsets: list[int], low: int, high: int) -> Node:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self._balanced(function, terms, offsets, low, middle - 1)
        right = (
            terms[middle + 1]
            if middle == high
            else self._balanced(function, terms, offsets, middle + 1, high)
        )
        return self.call(offsets[middle], function, left, right)

    def accumulator(self, offset: int) -> Identifier:
        return Identifier(self.id_at(offset), ACCUMULATOR)

    def _has(self, offset: int, argument: Node) -> Node:
        if not isinstance(argument, Select):
            raise MacroError(offset, "invalid argument to has() macro")
        return Select(self.id_at(offset), argument.operand, argument.field, True)


def _all(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _simple_name(build, arguments[0])
    condition = build.call(offset, "@not_strictly_false", build.accumulator(offset))
    step = build.call(offset, "_&&_", build.accumulator(offset), arguments[1])
    result = build.accumulator(offset)
    return _fold(build, offset, variable, target, build.constant(offset, True), condition, step, result)


def _exists(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _simple_name(build, arguments[0])
    not_yet = build.call(offset, "!_", build.accumulator(offset))
    condition = build.call(offset, "@not_strictly_false", not_yet)
    step = build.call(offset, "_||_", build.accumulator(offset), arguments[1])
    result = build.accumulator(offset)
    return _fold(build, offset, variable, target, build.constant(offset, False), condition, step, result)


def _exists_one(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _simple_name(build, arguments[0])
    zero, one = build.constant(offset, 0), build.constant(offset, 1)
    more = build.call(offset, "_+_", build.accumulator(offset), one)
    step = build.call(offset, "_?_:_", arguments[1], more, build.accumulator(offset))
    result = build.call(offset, "_==_", build.accumulator(offset), one)
    return _fold(build, offset, variable, target, zero, build.constant(offset, True), step, result)


def _map(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _identifier(offset, arguments[0])
    chosen = arguments[1] if len(arguments) == 3 else None
    return _collect(build, offset, variable, target, chosen, arguments[-1])


def _filter(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _identifier(offset, arguments[0])
    return _collect(build, offset, variable, target, arguments[1], arguments[0])


def _collect(
    build: Builder, offset: int, variable: str, target: Node, chosen: Node | None, item: Node
) -> Node:
    """Build the list of `item` for every element for which `chosen` holds."""
    result = build.accumulator(offset)
    initial = ListLiteral(build.id_at(offset), ())
    step = build.call(offset, "_+_", result, ListLiteral(build.id_at(offset), (item,)))
    if chosen is not None:
        step = build.call(offset, "_?_:_", chosen, step, result)
    return _fold(build, offset, variable, target, initial, build.constant(offset, True), step, result)


def _fold(
    build: Builder,
    offset: int,
    variable: str,
    target: Node,
    initial: Node,
    condition: Node,
    step: Node,
    result: Node,
) -> Node:
    return Comprehension(build.id_at(offset), variable, target, ACCUMULATOR, initial, condition, step, result)


def _simple_name(build: Builder, argument: Node) -> str:
    if not isinstance(argument, Identifier):
        raise MacroError(build.positions.get(argument.id, 0), "argument must be a simple name")
    return argument.name


def _identifier(offset: int, argument: Node) -> str:
    if not isinstance(argument, Identifier):
        raise MacroError(offset, "argument is not an identifier")
    return argument.name


_RECEIVER_MACROS: Final[dict[tuple[str, int], Callable[[Builder, int, Node, tuple[Node, ...]], Node]]] = {
    ("all", 2): _all,
    ("exists", 2): _exists,
    ("exists_one", 2): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
}
