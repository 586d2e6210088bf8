"""The estimated cost of an expression, before it sees any object: cel-go's estimate with Kubernetes' library costs.

Estimates are a minimum and a maximum, in unsigned 64-bit integers that saturate. `Sizes`, which the schema provides,
has the sizes of values that the expression does not make itself. What else is known differs between versions: v1.25
drops the sizes of what its library functions return, and iterating over such a result counts as iterating over 2**64
items; later versions know those sizes, then also those of the lists that macros return, and since v1.33 those of
macros' variables and of what list and map literals hold.

A rule below a list or map runs once for each item. If maxItems and maxProperties bound all lists and maps above it,
their product is how often; if not, as often as the smallest value of the schema fits into a request. `Path` says
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

from rewound.actors.cel import kubernetes
from rewound.actors.cel.checker import Checked
from rewound.actors.cel.costs import CHECK_COST, LIST_COST, MESSAGE_COST
from rewound.actors.cel.extensions import COMPARED
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
from rewound.actors.cel.types import DYN, Type, is_optional, kind_of
from rewound.actors.versions.features import (
    CEL_COST_OF_HAS,
    CEL_ENTRY_SIZES,
    CEL_HAS_COSTS,
    CEL_LOOP_SIZES,
    CEL_QUANTITY_COSTS,
    CEL_RESULT_SIZES,
    CEL_URL_SIZES,
    TYPES_IN_WORDS,
)

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
_LIST: Final = Range(10, 10)


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
    derived: Range | None = None  # the size, if the expression determines it


class Sizing(Protocol):
    features: frozenset[str]
    url_type: str

    def size(self, of: Sized) -> Range: ...

    def known_size(self, of: Sized) -> Range | None: ...


Price = tuple[Range, Range | None]  # the cost, and the size of the result if it is known
_OfLibrary = Callable[[Sizing, Sized | None, Sequence[Sized]], Price | None]


def price(
    sizing: Sizing,
    function: str,
    overload: str,
    target: Sized | None,
    arguments: Sequence[Sized],
    costs: list[Range],
) -> Price:
    library = _LISTS.get(overload) or _LIBRARY_OVERLOADS.get(overload) or _LIBRARY.get(function)
    found = library(sizing, target, arguments) if library is not None else None
    if found is not None:
        cost, size = found
        return cost.plus(_sum(costs)), size if CEL_RESULT_SIZES in sizing.features else None
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


def _traversal(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    """One comparison per item, and for strings and bytes the cost of reading all of them."""
    assert target is not None
    items = _items(target)
    if items is None:
        return _size(sizing, target).scaled(STRING_TRAVERSAL), None
    each = ONE
    if items.type.name in ("string", "bytes"):
        each = each.plus(_size(sizing, items).scaled(STRING_TRAVERSAL))
    return _size(sizing, target).times(each), None


def _url(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    if len(arguments) != 1:
        return None
    size = _size(sizing, arguments[0])
    return size.scaled(STRING_TRAVERSAL), size if CEL_URL_SIZES in sizing.features else None


def _same(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    """Compare URLs by the size of the second one, formats by the length of names, and other values at once."""
    first, second = arguments
    if CEL_URL_SIZES not in sizing.features or first.type != second.type:
        return None
    if first.type.name == sizing.url_type:
        return Range(1, (second.derived or ONE).most).scaled(STRING_TRAVERSAL), None
    if first.type.name == kubernetes.TYPES["format"]:
        return Range(1, _LONGEST_FORMAT).scaled(STRING_TRAVERSAL), None
    return (ONE, None) if first.type.name in _KUBERNETES_TYPES else None


def _check(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    return Range(CHECK_COST, CHECK_COST), None


def _selector(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    """Reading the text, and making a list and a value for every second character."""
    text = _size(sizing, arguments[0])
    made = text.scaled(0.5).scaled(LIST_COST + MESSAGE_COST)
    return _LIST.plus(text.scaled(STRING_TRAVERSAL)).plus(made), None


def _parsed(factor: float) -> _OfLibrary:
    """Reading a text that becomes a quantity, an address or a version."""

    def read(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
        if CEL_QUANTITY_COSTS not in sizing.features:
            return None
        return _size(sizing, arguments[0]).scaled(factor), None

    return read


def _contained(network: bool, text: bool) -> _OfLibrary:
    """Comparing the bytes of two addresses, those of networks once more, after reading a text."""

    def compare(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
        cost = _ADDRESS.plus(_ADDRESS).scaled(STRING_TRAVERSAL)
        if network:
            cost = cost.plus(_ADDRESS.scaled(STRING_TRAVERSAL)).plus(ONE)
        if text:
            cost = cost.plus(_size(sizing, arguments[0]).scaled(STRING_TRAVERSAL))
        return cost, None

    return compare


def _validated(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    return _size(sizing, arguments[0]).scaled(STRING_TRAVERSAL).scaled(_LONGEST_PATTERN * REGEX_LENGTH), None


def _sets(factor: int) -> _OfLibrary:
    def compare(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
        first, second = (_size(sizing, argument) for argument in arguments)
        return first.times(second).scaled(factor).plus(ONE), None

    return compare


_LONGEST_FORMAT: Final = 64
_LONGEST_PATTERN: Final = 128
_ADDRESS: Final = Range(4, 16)
_KUBERNETES_TYPES: Final = frozenset(kubernetes.TYPES.values())


def _once(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    assert target is not None
    size = _size(sizing, target)
    return size.scaled(STRING_TRAVERSAL), size


def _replace(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    """Reading the text and making the result, which is longest if the shortest texts are replaced by the longest."""
    assert target is not None
    text, old, new = (_size(sizing, of) for of in (target, arguments[0], arguments[1]))
    if old.least == 0:  # before every character, and at the end
        most = _times(min(text.most + 1, MOST), new.most) + text.most
    elif new.most <= old.least:
        most = text.most
    else:
        most = _times(math.ceil(float(text.most) / float(old.least)), new.most)
    if old.most == 0:
        least = _times(min(text.least + 1, MOST), new.least) + text.least
    elif old.most <= new.least:
        least = text.least
    else:
        least = _times(math.ceil(float(text.least) / float(old.most)), new.least)
    return text.scaled(2 * STRING_TRAVERSAL), Range(min(least, MOST), min(most, MOST))


def _times(count: int, size: int) -> int:
    return min(min(count, MOST) * size, MOST)


def _split(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    """Reading the text and making the result, which has at most one item for each character, or a constant limit."""
    assert target is not None
    text = _size(sizing, target)
    most = text.most
    limit = arguments[1].node if len(arguments) > 1 else None
    if isinstance(limit, Constant) and limit.value.__class__ is int:
        most = limit.value % (MOST + 1)
    return text.scaled(2 * STRING_TRAVERSAL), Range(0, most)


def _join(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    assert target is not None
    count, size = _size(sizing, target), NOTHING
    items = _items(target)
    if items is not None:
        size = count.times(_size(sizing, items))
    if arguments:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(_size(sizing, arguments[0]).times(separators))
    return size.scaled(STRING_TRAVERSAL), size


def _find(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    assert target is not None
    size = _size(sizing, target)
    text = size.plus(ONE).scaled(STRING_TRAVERSAL)
    return text.times(_size(sizing, arguments[0]).scaled(REGEX_LENGTH)), Range(0, size.most)


def _read_argument(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    size = sizing.size(arguments[0])
    result: Range | None = None
    if CEL_RESULT_SIZES in sizing.features and overload in _CONVERTED:
        result = _CONVERTED[overload](size)
    return size.scaled(STRING_TRAVERSAL).plus(_sum(costs)), result


def _read_target(
    sizing: Sizing, overload: str, target: Sized | None, arguments: Sequence[Sized], costs: list[Range]
) -> Price:
    assert target is not None
    return sizing.size(target).scaled(STRING_TRAVERSAL).plus(_sum(costs)), None


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


_LIBRARY: Final[dict[str, _OfLibrary]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _once),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    "jsonpatch.escapeKey": _url,
    "_==_": _same,
}
_LIBRARY_OVERLOADS: Final[dict[str, _OfLibrary]] = {
    **dict.fromkeys(("pathcheck_check", "resourcecheck_check"), _check),
    **dict.fromkeys(("authorizer_fieldselector", "authorizer_labelselector"), _selector),
    **dict.fromkeys(
        (
            *(
                "string_to_quantity",
                "is_quantity_string",
                "string_to_ip",
                "is_ip",
                "string_to_cidr",
                "is_cidr",
            ),
            *("string_to_semver", "string_bool_to_semver", "is_semver_string", "is_semver_string_bool"),
        ),
        _parsed(STRING_TRAVERSAL),
    ),
    "ip_is_canonical": _parsed(2 * STRING_TRAVERSAL),
    "cidr_contains_ip_ip": _contained(network=False, text=False),
    "cidr_contains_ip_string": _contained(network=False, text=True),
    "cidr_contains_cidr": _contained(network=True, text=False),
    "cidr_contains_cidr_string": _contained(network=True, text=True),
    "format-validate": _validated,
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _sets(1)),
    "list_sets_equivalent_list": _sets(2),
}


def _new_list(size: Range, factor: float) -> Price:
    """The call, the list that it makes, and what it does with each item."""
    return size.scaled(factor).plus(ONE).plus(_LIST), size


def _slice(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    assert target is not None
    start = _constant_size(arguments[0], 0)
    end = _constant_size(arguments[1], _size(sizing, target).most)
    size = (end - start) % (MOST + 1)
    return _new_list(Range(size, size), 1)


def _constant_size(argument: Sized, otherwise: int) -> int:
    if isinstance(argument.node, Constant) and argument.node.value.__class__ is int:
        return max(argument.node.value, 0)
    return otherwise


def _range(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    size = _constant_size(arguments[0], MOST)
    return _new_list(Range(size, size), 1)


def _flatten(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    assert target is not None
    depth = _constant_size(arguments[0], MOST) if arguments else 1
    return _new_list(_size(sizing, target), float(depth))


def _reverse(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
    assert target is not None
    return _new_list(_size(sizing, target), 1)


def _compared(of_keys: bool, factor: float) -> _OfLibrary:
    """Compare every item, or every key of an item, with every other one."""

    def of_library(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Price | None:
        compared = arguments[0] if of_keys else target
        assert compared is not None
        size = _size(sizing, compared)
        return _new_list(size.times(size), factor)

    return of_library


# By overload.
_LISTS: Final[dict[str, _OfLibrary]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _compared(False, 2.0),
} | {
    f"list_{kind}_{name}": _compared(name != "sort", 2.1 if kind in ("string", "bytes") else 2.0)
    for kind in COMPARED
    for name in ("sort", "sortByAssociatedKeys")
}

_COMPARED: Final = tuple(
    f"{relation}_{kind}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)

# The sizes of results, which cel-go lets overflow: a text of any size has a quoted form of at most 0 characters.
_CONVERTED: Final[dict[str, Callable[[Range], Range]]] = {
    "string_to_bytes": lambda size: Range(size.least, size.most * 4 % (MOST + 1)),
    "bytes_to_string": lambda size: Range(size.least // 4, size.most),
    "strings_quote": lambda size: Range((size.least + 2) % (MOST + 1), (size.most * 2 + 2) % (MOST + 1)),
}

_STANDARD: Final[dict[str, Callable[[Sizing, str, Sized | None, Sequence[Sized], list[Range]], Price]]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", *_CONVERTED), _read_argument),
    "string_format": _read_target,
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


@dataclass(frozen=True, slots=True)
class Entries:
    """The sizes of the keys and of the values of a list or map."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: Entries) -> Entries:
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Variable:
    path: Path | None
    size: Range | None = None
    entries: Entries | None = None


class _Estimate:
    def __init__(self, checked: Checked, sizes: Sizes) -> None:
        self.features = checked.language.features
        self.url_type = checked.language.url_type
        self._types = checked.types
        self._references = checked.references
        self._sizes = sizes
        self._paths: dict[int, Path] = {}
        self._derived: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}
        self._variables: dict[str, list[_Variable]] = {}  # of macros, the innermost last
        self._ranges: dict[str, list[int]] = {}  # macro variable -> ids of the ranges that it iterates over
        self._knows_entries = CEL_ENTRY_SIZES in self.features

    def cost(self, node: Node) -> Range:
        return _COSTS[node.__class__](self, node)

    def _constant(self, node: Constant) -> Range:
        return NOTHING

    def _identifier(self, node: Identifier) -> Range:
        return self._name(node, node.name)

    def _name(self, node: Node, written: str) -> Range:
        reference = self._references.get(node.id)
        name = reference.name if reference is not None else written
        variable = self._variable(name)
        if variable is not None:
            if variable.path is not None:
                self._paths[node.id] = variable.path
            return ONE
        ranges = self._ranges.get(name)
        if not ranges:
            self._paths[node.id] = Path.of(name)
            return ONE
        part = {"list": "@items", "map": "@keys"}.get(self._types[ranges[-1]].name)
        if part is not None:
            self._paths[node.id] = self._paths.get(ranges[-1], no_path()).plus(part)
        return ONE

    def _variable(self, name: str) -> _Variable | None:
        found = self._variables.get(name)
        return found[-1] if found else None

    def _select(self, node: Select) -> Range:
        if node.id in self._references:
            return self._name(node, node.field)
        if node.test_only:
            if CEL_COST_OF_HAS not in self.features:
                return NOTHING
            return self.cost(node.operand).plus(ONE if CEL_HAS_COSTS in self.features else NOTHING)
        cost = self.cost(node.operand)
        if kind_of(self._types[node.operand.id]) in ("map", "object", "parameter"):
            cost = cost.plus(ONE)
        self._paths[node.id] = (self._path(node.operand) or no_path()).plus(node.field)
        return cost

    def _call(self, node: Call) -> Range:
        if node.function == "dyn" and self._knows_entries:
            cost = self.cost(node.arguments[0]).plus(ONE)
            self._copy_sizes(node, node.arguments[0])
            return cost
        costs, arguments = [], []
        for argument in node.arguments:
            costs.append(self.cost(argument))
            arguments.append(self._sized(argument))
        target, of_target = None, NOTHING
        if node.target is not None and not self._references[node.id].name:
            of_target = self.cost(node.target)
            target = self._sized(node.target)
        function = self._references[node.id].name or node.function
        total = Range(MOST, 0)
        result: Range | None = None
        for overload in self._references[node.id].overloads:
            cost, size = price(self, function, overload, target, arguments, costs)
            total = total.union(cost)
            if size is not None:
                result = size if result is None else result.union(size)
            self._pass_entries(node, overload)
            if overload in _INDEXES:
                if self._knows_entries:
                    entries = self._entries_of(node.arguments[0])
                    result = None if entries is None else entries.value
                path = self._path(node.arguments[0]) or no_path()
                self._paths[node.id] = path.plus(_INDEXES[overload])
            if result is None and self._knows_entries:
                result = self._known(node)
        if result is not None:
            self._derived[node.id] = result
        return of_target.plus(total)

    def _pass_entries(self, node: Call, overload: str) -> None:
        """The result of a condition or a sum holds what both operands hold."""
        if not self._knows_entries or overload not in _OPERANDS:
            return
        first, second = (self._entries_of(node.arguments[index]) for index in _OPERANDS[overload])
        if first is not None and second is not None:
            self._entries[node.id] = first.union(second)

    def _list(self, node: ListLiteral) -> Range:
        cost, sizes = NOTHING, []
        for item in node.items:
            cost = cost.plus(self.cost(item))
            sizes.append(self._size_or_anything(item))
        if self._knows_entries:
            self._entries[node.id] = Entries(True, ONE, _span(sizes))
        return cost.plus(_LIST)

    def _map(self, node: MapLiteral) -> Range:
        cost, keys, values = NOTHING, [], []
        for key, value in node.entries:
            cost = cost.plus(self.cost(key)).plus(self.cost(value))
            keys.append(self._size_or_anything(key))
            values.append(self._size_or_anything(value))
        if self._knows_entries:
            self._entries[node.id] = Entries(False, _span(keys), _span(values))
        return cost.plus(_MAP)

    def _message(self, node: MessageLiteral) -> Range:
        cost = NOTHING
        for _, value in node.fields:
            cost = cost.plus(self.cost(value))
        return cost.plus(_MESSAGE)

    def _comprehension(self, node: Comprehension) -> Range:
        if self._knows_entries:
            return self._bound(node) if _is_bound(node) else self._loop(node)
        cost = self.cost(node.range).plus(self.cost(node.initial))
        ranges = self._ranges.setdefault(node.variable, [])
        ranges.append(node.range.id)
        condition = self.cost(node.condition)
        step = self.cost(node.step)
        ranges.pop()
        cost = cost.plus(self.cost(node.result))
        rounds = self.size(self._sized(node.range))
        if CEL_LOOP_SIZES in self.features:
            self._derived[node.id] = rounds
        return cost.plus(rounds.times(step.plus(condition)))

    def _bound(self, node: Comprehension) -> Range:
        """A variable with a value, and no loop."""
        cost = self.cost(node.range).plus(self.cost(node.initial))
        self._push(node.accumulator, self._local(node.initial))
        cost = cost.plus(self.cost(node.result))
        self._variables[node.accumulator].pop()
        self._copy_sizes(node, node.result)
        return cost

    def _loop(self, node: Comprehension) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.initial))
        self._push(node.accumulator, self._local(node.initial))
        entries = self._entries_of(node.range)
        is_list = entries.is_list if entries is not None else self._types[node.range.id].name == "list"
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        path = self._path(node.range) or no_path()
        if not node.second:
            size, part = (value, "@items") if is_list else (key, "@keys")
            self._push(node.variable, _Variable(path.plus(part), size))
        else:
            self._push(node.variable, _Variable(path.plus("@indices" if is_list else "@keys"), key))
            self._push(node.second, _Variable(path.plus("@items" if is_list else "@values"), value))
        condition = self.cost(node.condition)
        step = self.cost(node.step)
        self._variables[node.variable].pop()
        if node.second:
            self._variables[node.second].pop()
        cost = cost.plus(self.cost(node.result))
        self._variables[node.accumulator].pop()
        rounds = self._size_or_anything(node.range)
        match node.initial:
            case Constant():
                self._set_size(node, self._known(node.initial))
            case ListLiteral() | MapLiteral():
                self._derived[node.id] = rounds
                made = self._entries_of(node.step)
                if made is not None:
                    self._entries[node.id] = made
        return cost.plus(rounds.times(step.plus(condition)))

    def _push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _local(self, node: Node) -> _Variable:
        return _Variable(self._path(node), self._known(node), self._entries_of(node))

    def _path(self, node: Node) -> Path | None:
        if isinstance(node, Identifier):
            variable = self._variable(node.name)
            if variable is not None:
                return variable.path
        return self._paths.get(node.id)

    def _entries_of(self, node: Node) -> Entries | None:
        found = self._entries.get(node.id)
        if found is None and isinstance(node, Identifier):
            variable = self._variable(node.name)
            return variable.entries if variable is not None else None
        return found

    def _copy_sizes(self, to: Node, of: Node) -> None:
        self._set_size(to, self._known(of))
        entries = self._entries_of(of)
        if entries is not None:
            self._entries[to.id] = entries

    def _set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._derived[node.id] = size

    def _size_or_anything(self, node: Node) -> Range:
        return (self._known(node) if self._knows_entries else None) or ANYTHING

    def _known(self, node: Node) -> Range | None:
        """Return the size of a node as versions since 1.33 know it."""
        size = self._derived.get(node.id) or self._written(node)
        if size is not None:
            return size
        type_ = self._types.get(node.id, DYN)
        size = self._declared(self._path(node))
        if size is not None:
            self._derived[node.id] = size
            return size
        if _is_scalar(type_.parameters[0] if is_optional(type_) else type_):
            return ONE
        variable = self._variable(node.name) if isinstance(node, Identifier) else None
        return variable.size if variable is not None else None

    def _sized(self, node: Node) -> Sized:
        path = self._path(node)
        if path is not None and path.parts()[:1] == [ACCUMULATOR]:
            path = None
        derived = self._known(node) if self._knows_entries else self._derived.get(node.id)
        return Sized(node, self._types.get(node.id, DYN), path, derived)

    def size(self, of: Sized) -> Range:
        """Return the size of an argument of the language's own functions."""
        if self._knows_entries:
            return of.derived or ANYTHING
        known = self.known_size(of)
        if known is not None:
            return known
        return ONE if _is_scalar(of.type) else ANYTHING

    def known_size(self, of: Sized) -> Range | None:
        """Return the size of an argument if the expression itself or the schema determines it."""
        return of.derived or self._written(of.node) or self._declared(of.path)

    def _written(self, node: Node | None) -> Range | None:
        if isinstance(node, MessageLiteral) and not self._knows_entries:
            return NOTHING
        written = _written_size(node, TYPES_IN_WORDS in self.features)
        return None if written is None else Range(written, written)

    def _declared(self, path: Path | None) -> Range | None:
        parts = path.parts() if path is not None else []
        most = self._sizes.most(parts) if parts else None
        return None if most is None else Range(0, most)


def _span(sizes: list[Range]) -> Range:
    if not sizes:
        return NOTHING
    return Range(min(size.least for size in sizes), max(size.most for size in sizes))


def _is_bound(node: Comprehension) -> bool:
    return (
        isinstance(node.range, ListLiteral)
        and not node.range.items
        and isinstance(node.condition, Constant)
        and node.condition.value is False
        and node.accumulator != ACCUMULATOR
    )


def _written_size(node: Node | None, in_characters: bool) -> int | None:
    if isinstance(node, Constant):
        value = node.value
        if isinstance(value, str):
            return len(value) if in_characters else len(value.encode("utf-8", "surrogatepass"))
        return len(value) if isinstance(value, bytes) else 1
    if isinstance(node, ListLiteral):
        return len(node.items)
    if isinstance(node, MapLiteral):
        return len(node.entries)
    return None


def _is_scalar(of: Type) -> bool:
    return of.name in ("bool", "int", "uint", "double", "duration", "timestamp")


_INDEXES: Final = {"index_list": "@items", "index_map": "@values"}
_OPERANDS: Final = {"conditional": (1, 2), **dict.fromkeys(("add_string", "add_bytes", "add_list"), (0, 1))}

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
