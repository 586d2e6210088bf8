"""The estimated cost of an expression, before it sees any object: cel-go's estimate with the library costs of v1.25.

Sizes of what the expression does not make itself come from `Sizes`, which the schema provides. v1.25 drops the sizes
of what its library functions return; iterating over a result of theirs counts as iterating over 2**64 items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from actors.cel.checker import Checked
from actors.cel.cost import calls
from actors.cel.cost.paths import Path, no_path
from actors.cel.cost.ranges import ANYTHING, MOST, NOTHING, ONE, Range
from actors.cel.cost.sized import Sized
from actors.cel.macros import ACCUMULATOR
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
from actors.cel.types import DYN, Type
from actors.cel.unification import kind_of

_LIST: Final = Range(10, 10)
_MAP: Final = Range(30, 30)
_MESSAGE: Final = Range(40, 40)


class Sizes(Protocol):
    def most(self, path: list[str]) -> int | None:
        """The largest size (items, entries, bytes) of what is at `path`, or None if the schema does not have it.

        The first part is a variable, which makes no difference; the others are field names, @items, @keys, @values.
        """


def estimate(checked: Checked, sizes: Sizes) -> Range:
    return _Estimate(checked, sizes).cost(checked.expression.root)


class _Estimate:
    def __init__(self, checked: Checked, sizes: Sizes) -> None:
        self._types = checked.types
        self._references = checked.references
        self._sizes = sizes
        self._paths: dict[int, Path] = {}
        self._derived: dict[int, Range] = {}
        self._ranges: dict[str, list[int]] = {}  # a macro's variable -> the ids of what it ranges over

    def cost(self, node: Node) -> Range:
        return _COSTS[node.__class__](self, node)

    def _constant(self, node: Constant) -> Range:
        return NOTHING

    def _identifier(self, node: Identifier) -> Range:
        return self._name(node, node.name)

    def _name(self, node: Node, written: str) -> Range:
        reference = self._references.get(node.id)
        name = reference.name if reference is not None else written
        ranges = self._ranges.get(name)
        if not ranges:
            self._paths[node.id] = Path.of(name)
            return ONE
        part = {"list": "@items", "map": "@keys"}.get(self._types[ranges[-1]].name)
        if part is not None:
            self._paths[node.id] = self._paths.get(ranges[-1], no_path()).plus(part)
        return ONE

    def _select(self, node: Select) -> Range:
        if node.id in self._references:
            return self._name(node, node.field)
        if node.test_only:
            return NOTHING
        cost = self.cost(node.operand)
        if kind_of(self._types[node.operand.id]) in ("map", "object", "parameter"):
            cost = cost.plus(ONE)
        self._paths[node.id] = self._paths.get(node.operand.id, no_path()).plus(node.field)
        return cost

    def _call(self, node: Call) -> Range:
        costs = [self.cost(argument) for argument in node.arguments]
        arguments = [self._sized(argument) for argument in node.arguments]
        target, of_target = None, NOTHING
        if node.target is not None:
            of_target = self.cost(node.target)
            target = self._sized(node.target)
        total = Range(MOST, 0)
        for overload in self._references[node.id].overloads:
            cost, size = calls.price(self, node.function, overload, target, arguments, costs)
            total = total.union(cost)
            if size is not None:
                self._derived[node.id] = size.union(self._derived.get(node.id, size))
            if overload in _INDEXES:
                path = self._paths.get(node.arguments[0].id, no_path())
                self._paths[node.id] = path.plus(_INDEXES[overload])
        return of_target.plus(total)

    def _list(self, node: ListLiteral) -> Range:
        return self._sum(node.items).plus(_LIST)

    def _map(self, node: MapLiteral) -> Range:
        return self._sum([part for entry in node.entries for part in entry]).plus(_MAP)

    def _message(self, node: MessageLiteral) -> Range:
        return self._sum([value for _, value in node.fields]).plus(_MESSAGE)

    def _sum(self, nodes: list[Node] | tuple[Node, ...]) -> Range:
        total = NOTHING
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _comprehension(self, node: Comprehension) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.initial))
        ranges = self._ranges.setdefault(node.variable, [])
        ranges.append(node.range.id)
        condition = self.cost(node.condition)
        step = self.cost(node.step)
        ranges.pop()
        cost = cost.plus(self.cost(node.result))
        rounds = self.size(self._sized(node.range))
        return cost.plus(rounds.times(step.plus(condition)))

    def _sized(self, node: Node) -> Sized:
        path = self._paths.get(node.id)
        if path is not None and path.parts()[:1] == [ACCUMULATOR]:
            path = None
        return Sized(node, self._types.get(node.id, DYN), path, self._derived.get(node.id))

    def size(self, of: Sized) -> Range:
        """How large an argument of the language's own functions is."""
        known = self.known_size(of)
        if known is not None:
            return known
        return ONE if _is_scalar(of.type) else ANYTHING

    def known_size(self, of: Sized) -> Range | None:
        """How large an argument is by the expression itself, or by the schema."""
        if of.derived is not None:
            return of.derived
        written = _written_size(of.node)
        if written is not None:
            return Range(written, written)
        parts = of.path.parts() if of.path is not None else []
        most = self._sizes.most(parts) if parts else None
        return None if most is None else Range(0, most)


def _written_size(node: Node | None) -> int | None:
    if isinstance(node, Constant):
        value = node.value
        if isinstance(value, str):
            return len(value.encode("utf-8", "surrogatepass"))
        return len(value) if isinstance(value, bytes) else 1
    if isinstance(node, ListLiteral):
        return len(node.items)
    if isinstance(node, MapLiteral):
        return len(node.entries)
    return 0 if isinstance(node, MessageLiteral) else None


def _is_scalar(of: Type) -> bool:
    return of.name in ("bool", "int", "uint", "double", "duration", "timestamp")


_INDEXES: Final = {"index_list": "@items", "index_map": "@values"}

_COSTS: Final[dict[type[Node], Callable[[_Estimate, Any], Range]]] = {
    Constant: _Estimate._constant,
    Identifier: _Estimate._identifier,
    Select: _Estimate._select,
    Call: _Estimate._call,
    ListLiteral: _Estimate._list,
    MapLiteral: _Estimate._map,
    MessageLiteral: _Estimate._message,
    Comprehension: _Estimate._comprehension,
}
