"""The estimated cost of an expression, before it sees any object: cel-go's estimate with the library costs of v1.25.

Estimates are a minimum and a maximum, in unsigned 64-bit integers that saturate. `Sizes`, which the schema provides,
has the sizes of values that the expression does not make itself. v1.25 drops the sizes of what its library functions
return; iterating over such a result counts as iterating over 2**64 items.

A rule below a list or map runs once for each item. If maxItems and maxProperties bound all lists and maps above it,
their product is how often; if not, as often as the smallest value of the schema fits into a request. `SizePath` says
where a value comes from: a variable, then field names, @items, @keys and @values.

cel-go keeps these paths in Go slices that share their memory: appending to one path can overwrite the last part of
another that was made from the same one before, and the estimate then uses the size of the other field. That happens
where a macro's variable stands for items of a list that is nested five or six parts deep: `self.a.b.c.d.all(x, x.e ==
x.f)` takes x.e for x.f. Whether a definition is accepted depends on that, so a path here is such a slice: parts with
a capacity that doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from rewound.actors.cel.checker import Checked
from rewound.actors.cel.macros import ACCUMULATOR
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
from rewound.actors.cel.types import DYN, Type, kind_of

MOST: Final = 2**64 - 1

# The factors by which cel-go multiplies sizes.
STRING_TRAVERSAL: Final = 0.1
REGEX_LENGTH: Final = 0.25


@dataclass(frozen=True, slots=True)
class Range:
    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Range:
        """Multiply by a factor, rounding up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(number: int, factor: float) -> int:
    return min(math.ceil(float(number) * factor), MOST)


NOTHING: Final = Range(0, 0)
ONE: Final = Range(1, 1)
ANYTHING: Final = Range(0, MOST)


class Path:
    __slots__ = ("_capacity", "_length", "_parts")

    def __init__(self, parts: list[str], length: int, capacity: int) -> None:
        self._parts = parts
        self._length = length
        self._capacity = capacity

    @staticmethod
    def of(variable: str) -> Path:
        return Path([variable], 1, 1)

    def plus(self, part: str) -> Path:
        length = self._length + 1
        if length > self._capacity:
            return Path([*self.parts(), part], length, max(2 * self._capacity, 1))
        if self._length < len(self._parts):
            self._parts[self._length] = part
        else:
            self._parts.append(part)
        return Path(self._parts, length, self._capacity)

    def copy_plus(self, part: str) -> Path:
        """Return a longer path that shares no memory with this one."""
        return Path([*self.parts(), part], self._length + 1, self._length + 1)

    def parts(self) -> list[str]:
        return self._parts[: self._length]


def no_path() -> Path:
    return Path([], 0, 0)


@dataclass(frozen=True, slots=True)
class Sized:
    node: Node | None
    type: Type
    path: Path | None
    derived: Range | None = None  # the estimated cost of the argument itself


class Sizing(Protocol):
    def size(self, of: Sized) -> Range: ...

    def known_size(self, of: Sized) -> Range | None: ...


Price = tuple[Range, Range | None]  # the cost, and the size of the result if it is known


def price(
    sizing: Sizing,
    function: str,
    overload: str,
    target: Sized | None,
    arguments: Sequence[Sized],
    costs: list[Range],
) -> Price:
    library = _LIBRARY.get(function)
    if library is not None:
        cost = library(sizing, target, arguments)
        if cost is not None:
            return cost.plus(_sum(costs)), None
    standard = _STANDARD.get(overload)
    if standard is not None:
        return standard(sizing, overload, target, arguments, costs)
    return ONE.plus(_sum(costs)), None


def _sum(costs: list[Range]) -> Range:
    total = NOTHING
    for cost in costs:
        total = total.plus(cost)
    return total


def _size(sizing: Sizing, of: Sized) -> Range:
    """Return the size of an argument of a library function; even numbers have any size, unless the schema bounds
    them.
    """
    return sizing.known_size(of) or ANYTHING


def _items(target: Sized) -> Sized | None:
    """Return the items of a list, as an argument with its own size."""
    if target.type.name != "list":
        return None
    path = target.path.copy_plus("@items") if target.path is not None else None
    return Sized(None, target.type.parameters[0], path)


def _traversal(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    """One comparison per item, and for strings and bytes the cost of reading all of them."""
    assert target is not None
    items = _items(target)
    if items is None:
        return _size(sizing, target).scaled(STRING_TRAVERSAL)
    each = ONE
    if items.type.name in ("string", "bytes"):
        each = each.plus(_size(sizing, items).scaled(STRING_TRAVERSAL))
    return _size(sizing, target).times(each)


def _url(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    return _size(sizing, arguments[0]).scaled(STRING_TRAVERSAL) if len(arguments) == 1 else None


def _once(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    assert target is not None
    return _size(sizing, target).scaled(STRING_TRAVERSAL)


def _twice(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    """Reading the string and making the result."""
    assert target is not None
    return _size(sizing, target).scaled(2 * STRING_TRAVERSAL)


def _join(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    assert target is not None
    count, size = _size(sizing, target), NOTHING
    items = _items(target)
    if items is not None:
        size = count.times(_size(sizing, items))
    if arguments:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(_size(sizing, arguments[0]).times(separators))
    return size.scaled(STRING_TRAVERSAL)


def _find(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    assert target is not None
    text = _size(sizing, target).plus(ONE).scaled(STRING_TRAVERSAL)
    return text.times(_size(sizing, arguments[0]).scaled(REGEX_LENGTH))


def _read_argument(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    return sizing.size(arguments[0]).scaled(STRING_TRAVERSAL).plus(_sum(costs)), None


def _in_list(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    return sizing.size(arguments[1]).scaled(1).plus(_sum(costs)), None


def _matches(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    assert target is not None
    text = sizing.size(target).plus(ONE).scaled(STRING_TRAVERSAL)
    return text.times(sizing.size(arguments[0]).scaled(REGEX_LENGTH)).plus(_sum(costs)), None


def _contains(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    assert target is not None
    text = sizing.size(target).scaled(STRING_TRAVERSAL)
    return text.times(sizing.size(arguments[0]).scaled(STRING_TRAVERSAL)).plus(_sum(costs)), None


def _logical(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    left, right = costs
    return Range(left.least, left.plus(right).most), None


def _conditional(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    size = sizing.size(arguments[1]).union(sizing.size(arguments[2]))
    return costs[0].plus(costs[1].union(costs[2])), size


def _add(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    size = sizing.size(arguments[0]).plus(sizing.size(arguments[1]))
    cost = ONE if overload == "add_list" else size.scaled(STRING_TRAVERSAL)
    return cost.plus(_sum(costs)), size


def _compare(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    most = min(sizing.size(arguments[0]).most, sizing.size(arguments[1]).most)
    return Range(1 if most else 0, most).scaled(STRING_TRAVERSAL).plus(_sum(costs)), None


_LIBRARY: Final[dict[str, Callable[[Sizing, Sized | None, Sequence[Sized]], Range | None]]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _once),
    **dict.fromkeys(("replace", "split"), _twice),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
}

_COMPARED: Final = tuple(
    f"{relation}_{kind}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)

_STANDARD: Final[dict[str, Callable[[Sizing, str, Sized | None, Sequence[Sized], list[Range]], Price]]] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _read_argument
    ),
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys(("logical_or", "logical_and"), _logical),
    "conditional": _conditional,
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _add),
    **dict.fromkeys((*_COMPARED, "equals", "not_equals"), _compare),
}


LARGEST_REQUEST: Final = 3 * 1024 * 1024
MOST_OF_A_RULE: Final = 10_000_000
MOST_OF_A_DEFINITION: Final = 100_000_000
_NAMED_RULES: Final = 4

_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
    "where arrays, maps, and strings are declared)"
)


def times(first: int, second: int) -> int:
    return min(first * second, MOST)


def most_values(smallest: int) -> int:
    """Return how many values fit into a request if each takes at least `smallest` bytes of JSON."""
    return LARGEST_REQUEST // (smallest + 1)


def rule_cost(once: int, cardinality: int | None, smallest: int) -> int:
    """Return the cost of a rule that costs `once`, on at most `cardinality` values (None: unbounded)."""
    return times(once, most_values(smallest) if cardinality is None else cardinality)


def cardinality_below(cardinality: int | None, type_: str, most: int | None, is_map: bool) -> int | None:
    """Return how many values a schema's children can have. `most` is its maxItems, or maxProperties for a map."""
    if type_ != "array" and not (type_ == "object" and is_map):
        return cardinality
    return None if cardinality is None or most is None else times(cardinality, max(most, 0))


def exceeds_budget(what: str, cost: int, limit: int) -> str:
    factor = float(cost) / float(limit)
    if factor > 100.0:
        text = "more than 100x"
    elif factor < 1.5:
        text = f"{factor:.6f}x"
    else:
        text = f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {text} {_ADVICE}"


@dataclass(slots=True)
class TotalCost:
    """The costs of all rules of one definition, and where the most expensive ones are."""

    total: int = 0
    dearest: list[tuple[int, Any]] = field(default_factory=list)  # (cost, place)

    def add(self, place: Any, cost: int) -> None:
        self.total = min(self.total + cost, MOST)
        if cost < MOST_OF_A_DEFINITION // 100:
            return
        self.dearest.append((cost, place))
        self.dearest.sort(key=lambda entry: -entry[0])
        del self.dearest[_NAMED_RULES:]


_LIST: Final = Range(10, 10)
_MAP: Final = Range(30, 30)
_MESSAGE: Final = Range(40, 40)


class Sizes(Protocol):
    def most(self, path: list[str]) -> int | None:
        """Return the largest size (items, entries, bytes) of what is at `path`, or None if the schema does not have
        it.

        The first part is a variable, which is ignored; the others are field names, @items, @keys, @values.
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
        self._ranges: dict[str, list[int]] = {}  # macro variable -> ids of the ranges that it iterates over

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
            cost, size = price(self, node.function, overload, target, arguments, costs)
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
        """Return the size of an argument of the language's own functions."""
        known = self.known_size(of)
        if known is not None:
            return known
        return ONE if _is_scalar(of.type) else ANYTHING

    def known_size(self, of: Sized) -> Range | None:
        """Return the size of an argument if the expression itself or the schema determines it."""
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
