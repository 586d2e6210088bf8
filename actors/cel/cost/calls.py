"""What calls are estimated to cost: the functions of v1.25's library by name, the language's own by overload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from actors.cel.cost.ranges import ANYTHING, NOTHING, ONE, REGEX_LENGTH, STRING_TRAVERSAL, Range
from actors.cel.cost.sized import Sized


class Sizing(Protocol):
    def size(self, of: Sized) -> Range: ...

    def known_size(self, of: Sized) -> Range | None: ...


Price = tuple[Range, Range | None]  # the cost, and the size of the result where it is known


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
    """For library functions even numbers have any size, unless the schema says otherwise."""
    return sizing.known_size(of) or ANYTHING


def _items(target: Sized) -> Sized | None:
    """The items of a list, as something with a size of its own."""
    if target.type.name != "list":
        return None
    path = target.path.copy_plus("@items") if target.path is not None else None
    return Sized(None, target.type.parameters[0], path)


def _traversal(sizing: Sizing, target: Sized | None, arguments: Sequence[Sized]) -> Range | None:
    """One comparison an item, and for strings and bytes as much as reading all of them."""
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
