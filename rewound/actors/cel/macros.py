"""Makes the nodes of an expression, and expands macros into them as cel-go does.

The parser and `recovery`, which explains syntax errors, make nodes with the same `Builder`, so that both find the
same problems with the arguments of macros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

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
from rewound.actors.versions.features import (
    CEL_BINDINGS,
    CEL_CHECKED_CONVERSIONS,
    CEL_CHECKED_VARIABLES,
    CEL_LISTS,
    CEL_MIXED_LITERALS,
    CEL_OPTIONALS,
    CEL_TWO_VARIABLES,
)

ACCUMULATOR: Final = "__result__"
_HIDDEN_ACCUMULATOR: Final = "@result"  # of versions in which no expression may name it
MOST_COPIES: Final = 10_000  # of nodes of an expression; a chain of optMap doubles with each of them
SORT_INPUT: Final = "@__sortBy_input__"  # the variable of sortBy
SORT_BY_KEYS: Final = "@sortByAssociatedKeys"
MAP_INSERT: Final = "cel.@mapInsert"
UNUSED: Final = "#unused"  # the variable of a comprehension that only gives a name to its initial value


@dataclass(frozen=True, slots=True)
class MacroError(Exception):
    """A macro cannot be expanded with these arguments."""

    offset: int
    message: str


class Builder:
    """Gives nodes their ids, and records their offsets."""

    __slots__ = (
        "_checks_variables",
        "_copies",
        "_macros",
        "_points_at_arguments",
        "accumulator_name",
        "points_at_variables",
        "positions",
    )

    def __init__(self, features: frozenset[str]) -> None:
        self.positions: dict[int, int] = {}
        self._copies = 0
        self._points_at_arguments = CEL_CHECKED_CONVERSIONS in features  # of the same cel-go
        self.points_at_variables = CEL_MIXED_LITERALS in features
        self._checks_variables = CEL_CHECKED_VARIABLES in features
        self.accumulator_name = _HIDDEN_ACCUMULATOR if self._checks_variables else ACCUMULATOR
        self._macros = dict(_RECEIVER_MACROS)
        for feature, macros in _LATER_MACROS.items():
            if feature in features:
                self._macros |= macros

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
        macro = self._macros.get((function, len(arguments)))
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
        return Identifier(self.id_at(offset), self.accumulator_name)

    def copy(self, node: Node) -> Node:
        """Return a copy of a node and of what is in it, with ids of its own at the same offsets."""
        number = self.id_at(self.positions[node.id])
        self._copies += 1
        if self._copies > MOST_COPIES:
            raise MacroError(
                self.positions[node.id], "the expression is too large: optMap copies what is before it"
            )
        match node:
            case Select():
                return replace(node, id=number, operand=self.copy(node.operand))
            case Call():
                target = None if node.target is None else self.copy(node.target)
                return replace(
                    node, id=number, arguments=tuple(map(self.copy, node.arguments)), target=target
                )
            case ListLiteral():
                return replace(node, id=number, items=tuple(map(self.copy, node.items)))
            case MapLiteral():
                entries = tuple((self.copy(key), self.copy(value)) for key, value in node.entries)
                return replace(node, id=number, entries=entries)
            case MessageLiteral():
                fields = tuple((name, self.copy(value)) for name, value in node.fields)
                ids = tuple(self.id_at(self.positions[one]) for one in node.field_ids)
                return replace(node, id=number, fields=fields, field_ids=ids)
            case Comprehension():
                return replace(
                    node,
                    id=number,
                    range=self.copy(node.range),
                    initial=self.copy(node.initial),
                    condition=self.copy(node.condition),
                    step=self.copy(node.step),
                    result=self.copy(node.result),
                )
        return replace(node, id=number)

    def check_variable(self, name: str, argument: Node) -> None:
        if self._checks_variables and name == ACCUMULATOR:
            text = "iteration variable overwrites accumulator variable"
            raise MacroError(self.positions.get(argument.id, 0), text)

    def _has(self, offset: int, argument: Node) -> Node:
        if not isinstance(argument, Select):
            where = self.positions.get(argument.id, offset) if self._points_at_arguments else offset
            raise MacroError(where, "invalid argument to has() macro")
        return Select(self.id_at(offset), argument.operand, argument.field, True)


def _all(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _variables(build, arguments)
    condition = build.call(offset, "@not_strictly_false", build.accumulator(offset))
    step = build.call(offset, "_&&_", build.accumulator(offset), arguments[-1])
    result = build.accumulator(offset)
    return _fold(build, offset, variable, target, build.constant(offset, True), condition, step, result)


def _exists(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _variables(build, arguments)
    not_yet = build.call(offset, "!_", build.accumulator(offset))
    condition = build.call(offset, "@not_strictly_false", not_yet)
    step = build.call(offset, "_||_", build.accumulator(offset), arguments[-1])
    result = build.accumulator(offset)
    return _fold(build, offset, variable, target, build.constant(offset, False), condition, step, result)


def _exists_one(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _variables(build, arguments)
    zero, one = build.constant(offset, 0), build.constant(offset, 1)
    more = build.call(offset, "_+_", build.accumulator(offset), one)
    step = build.call(offset, "_?_:_", arguments[-1], more, build.accumulator(offset))
    result = build.call(offset, "_==_", build.accumulator(offset), one)
    return _fold(build, offset, variable, target, zero, build.constant(offset, True), step, result)


def _map(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _identifier(build, offset, arguments[0])
    chosen = arguments[1] if len(arguments) == 3 else None
    return _collect(build, offset, variable, target, chosen, arguments[-1])


def _filter(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variable = _identifier(build, offset, arguments[0])
    return _collect(build, offset, variable, target, arguments[1], arguments[0])


def _collect(
    build: Builder, offset: int, variables: tuple[str, str], target: Node, chosen: Node | None, item: Node
) -> Node:
    """Build the list of `item` for every element for which `chosen` holds."""
    result = build.accumulator(offset)
    initial = ListLiteral(build.id_at(offset), ())
    step = build.call(offset, "_+_", result, ListLiteral(build.id_at(offset), (item,)))
    if chosen is not None:
        step = build.call(offset, "_?_:_", chosen, step, result)
    return _fold(build, offset, variables, target, initial, build.constant(offset, True), step, result)


def _fold(
    build: Builder,
    offset: int,
    variables: tuple[str, str],
    target: Node,
    initial: Node,
    condition: Node,
    step: Node,
    result: Node,
) -> Node:
    number, (first, second) = build.id_at(offset), variables
    return Comprehension(
        number, first, target, build.accumulator_name, initial, condition, step, result, second
    )


def _variables(build: Builder, arguments: tuple[Node, ...]) -> tuple[str, str]:
    """Return the names of the variable of a macro, and of the second one if it has two."""
    names: list[str] = []
    for argument in arguments[: len(arguments) - 1 if len(arguments) < 4 else 2]:
        if not isinstance(argument, Identifier):
            raise MacroError(build.positions.get(argument.id, 0), "argument must be a simple name")
        names.append(argument.name)
    if len(names) == 2 and names[0] == names[1]:
        where = build.positions.get(arguments[1].id, 0)
        raise MacroError(where, f"duplicate variable name: {names[0]}")
    for name, argument in zip(names, arguments, strict=False):
        build.check_variable(name, argument)
    return names[0], names[1] if len(names) == 2 else ""


def _identifier(build: Builder, offset: int, argument: Node) -> tuple[str, str]:
    if not isinstance(argument, Identifier):
        where = build.positions.get(argument.id, 0) if build.points_at_variables else offset
        raise MacroError(where, "argument is not an identifier")
    build.check_variable(argument.name, argument)
    return argument.name, ""


def _transform_list(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variables = _variables(build, arguments)
    result = build.accumulator(offset)
    step = build.call(offset, "_+_", result, ListLiteral(build.id_at(offset), (arguments[-1],)))
    initial = ListLiteral(build.id_at(offset), ())
    return _collected(build, offset, variables, target, initial, arguments, step)


def _transform_map(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variables = _variables(build, arguments)
    key = Identifier(build.id_at(offset), variables[0])
    step = build.call(offset, MAP_INSERT, build.accumulator(offset), key, arguments[-1])
    initial = MapLiteral(build.id_at(offset), ())
    return _collected(build, offset, variables, target, initial, arguments, step)


def _transform_map_entry(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    variables = _variables(build, arguments)
    step = build.call(offset, MAP_INSERT, build.accumulator(offset), arguments[-1])
    initial = MapLiteral(build.id_at(offset), ())
    return _collected(build, offset, variables, target, initial, arguments, step)


def _collected(
    build: Builder,
    offset: int,
    variables: tuple[str, str],
    target: Node,
    initial: Node,
    arguments: tuple[Node, ...],
    step: Node,
) -> Node:
    if len(arguments) == 4:
        step = build.call(offset, "_?_:_", arguments[2], step, build.accumulator(offset))
    condition, result = build.constant(offset, True), build.accumulator(offset)
    return _fold(build, offset, variables, target, initial, condition, step, result)


def _sort_by(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    if isinstance(target, Constant | MapLiteral | MessageLiteral):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(build.positions.get(target.id, 0), text)
    keys = _map(build, offset, Identifier(build.id_at(offset), SORT_INPUT), arguments)
    values = Identifier(build.id_at(offset), SORT_INPUT)
    result = Call(build.id_at(offset), SORT_BY_KEYS, (keys,), values)
    return Comprehension(
        build.id_at(offset),
        UNUSED,
        ListLiteral(build.id_at(offset), ()),
        SORT_INPUT,
        target,
        build.constant(offset, False),
        Identifier(build.id_at(offset), SORT_INPUT),
        result,
    )


def _opt_map(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    """target.hasValue() ? optional.of(the second argument, in which the first is target.value()) : optional.none()"""
    return _with_value(
        build, offset, target, arguments, "optMap", lambda found: build.call(offset, "optional.of", found)
    )


def _opt_flat_map(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    return _with_value(build, offset, target, arguments, "optFlatMap", lambda found: found)


def _with_value(
    build: Builder,
    offset: int,
    target: Node,
    arguments: tuple[Node, ...],
    macro: str,
    wrap: Callable[[Node], Node],
) -> Node:
    if not isinstance(arguments[0], Identifier):
        where = build.positions.get(arguments[0].id, 0)
        raise MacroError(where, f"{macro}() variable name must be a simple identifier")
    name = arguments[0].name
    has_value = Call(build.id_at(offset), "hasValue", (), target)
    value = Call(build.id_at(offset), "value", (), build.copy(target))
    found = Comprehension(
        build.id_at(offset),
        UNUSED,
        ListLiteral(build.id_at(offset), ()),
        name,
        value,
        build.constant(offset, False),
        Identifier(build.id_at(offset), name),
        arguments[1],
    )
    none = build.call(offset, "optional.none")
    return build.call(offset, "_?_:_", has_value, wrap(found), none)


def _bind(build: Builder, offset: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    """cel.bind(name, value, expression): the expression, in which the name stands for the value."""
    if not isinstance(target, Identifier) or target.name != "cel":
        return Call(build.id_at(offset), "bind", arguments, target)
    name, value, result = arguments
    if not isinstance(name, Identifier):
        where = build.positions.get(name.id, 0)
        raise MacroError(where, "cel.bind() variable names must be simple identifiers")
    return Comprehension(
        build.id_at(offset),
        UNUSED,
        ListLiteral(build.id_at(offset), ()),
        name.name,
        value,
        build.constant(offset, False),
        Identifier(build.id_at(offset), name.name),
        result,
    )


_Macros = dict[tuple[str, int], Callable[[Builder, int, Node, tuple[Node, ...]], Node]]
_RECEIVER_MACROS: Final[_Macros] = {
    ("all", 2): _all,
    ("exists", 2): _exists,
    ("exists_one", 2): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
}
_LATER_MACROS: Final[dict[str, _Macros]] = {
    CEL_OPTIONALS: {("optMap", 2): _opt_map, ("optFlatMap", 2): _opt_flat_map},
    CEL_TWO_VARIABLES: {
        ("all", 3): _all,
        ("exists", 3): _exists,
        ("exists_one", 3): _exists_one,
        ("existsOne", 3): _exists_one,
        **{("transformList", count): _transform_list for count in (3, 4)},
        **{("transformMap", count): _transform_map for count in (3, 4)},
        **{("transformMapEntry", count): _transform_map_entry for count in (3, 4)},
    },
    CEL_LISTS: {("sortBy", 2): _sort_by},
    CEL_BINDINGS: {("bind", 3): _bind},
}
