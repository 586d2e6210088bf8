"""What an evaluation costs, in the units of cel-go: the limit of a rule, and the price of each call.

An evaluation has one list of cells, which every closure of a program gets: the cost so far, the cost at which a loop
calls `pause` next, the budget, and then the variables. Identifiers, selections and most calls cost 1 and only add to
the first cell; `charge` adds other amounts. Only loops and `charge`
compare with the limit, so that a program without a loop pays for no comparison; one that exceeds the limit in steps
of 1 ends with a cost of the limit plus one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.cel.addresses import CIDR, IP
from rewound.actors.cel.formats import Format
from rewound.actors.cel.go_regexp import may_take_long
from rewound.actors.cel.language import Language
from rewound.actors.cel.values import (
    CostExceeded,
    EvaluationError,
    ListValue,
    MapLike,
    list_items,
    walked,
)
from rewound.actors.runtime.budget import Budget
from rewound.actors.versions.features import CEL_QUANTITY_COSTS

Cells = list[Any]


@dataclass(slots=True)
class Costs:
    """What the evaluations of an expression took, in the units of CEL."""

    evaluations: int = 0
    total: int = 0
    most: int = 0

    def add(self, cost: int) -> None:
        self.evaluations += 1
        self.total += cost
        self.most = max(self.most, cost)


COST: Final = 0
NEXT: Final = 1
BUDGET: Final = 2
FIRST_VARIABLE: Final = 3

LIMIT: Final = 1_000_000  # of one evaluation of one rule
STRIDE: Final = 2_000  # cost between two calls of the caller's function: some tenths of a millisecond
LIST_COST: Final = 10
MAP_COST: Final = 30
MESSAGE_COST: Final = 40
CHECK_COST: Final = 350_000  # of asking an authorizer: two in an expression
TENTHS: Final = tuple(math.ceil(size * 0.1) for size in range(1024))

Charge = Callable[[Cells, Any, Any], None]  # cells, first and second argument


def pause(cells: Cells) -> None:
    """Loops call this when the cost has reached the second cell."""
    if cells[COST] > LIMIT:
        raise exceeded(cells)
    cells[BUDGET].pause()
    cells[NEXT] = min(cells[COST] + STRIDE, LIMIT + 1)


def exceeded(cells: Cells) -> CostExceeded:
    """End an evaluation that exceeded the limit in steps of 1."""
    cells[COST] = LIMIT + 1
    return CostExceeded("operation cancelled: actual cost limit exceeded")


def charge(cells: Cells, amount: int) -> None:
    if cells[COST] > LIMIT:
        raise exceeded(cells)
    cells[COST] += amount
    if cells[COST] > LIMIT:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")


def tenth(size: int) -> int:
    return TENTHS[size] if size < 1024 else math.ceil(size * 0.1)


def size_of(value: Any) -> int:
    """Return the length of a text, list or map; 1 for everything else."""
    if isinstance(value, str | bytes | list):
        return len(value)
    return int(value.size()) if isinstance(value, ListValue | MapLike | IP | CIDR) else 1


def traversal(value: Any, budget: Budget) -> int:
    """Return the cost of reading all of a value: bytes of texts divided by ten, and 1 for each other scalar."""
    if value.__class__ is str:
        return int(len(value if value.isascii() else value.encode(errors="surrogatepass")) * 0.1)
    if value.__class__ is bytes:
        return int(len(value) * 0.1)
    if isinstance(value, list | ListValue):
        return sum(traversal(item, budget) for item in walked(value, budget))
    if isinstance(value, MapLike):
        return _map_traversal(value, budget)
    return 1


def _map_traversal(value: MapLike, budget: Budget) -> int:
    budget.visit(value.size())
    known = list(value.keys())
    cost = 2 * (value.size() - len(known))  # fields that the schema does not declare
    for key in known:
        try:
            cost += traversal(value.get(key), budget)
        except EvaluationError:
            cost += 1
        cost += traversal(key, budget)
    return cost


def _one(cells: Cells, _: Any, __: Any) -> None:
    cells[COST] += 1


def _tenth_of_first(cells: Cells, first: Any, _: Any) -> None:
    charge(cells, tenth(size_of(first)))


def _fifth_of_first(cells: Cells, first: Any, _: Any) -> None:
    charge(cells, math.ceil(size_of(first) * 2 * 0.1))


def _tenth_of_smaller(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(min(size_of(first), size_of(second))))


def _tenth_of_sum(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(size_of(first) + size_of(second)))


def _size_of_second(cells: Cells, _: Any, second: Any) -> None:
    charge(cells, size_of(second))


def _expression(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(1 + size_of(first)) * math.ceil(size_of(second) * 0.25))


def charge_compiled(cells: Cells, first: Any, second: Any) -> None:
    """Charge for a regular expression that must be compiled first, which may take milliseconds: the loop
    pauses next.
    """
    _expression(cells, first, second)
    if second.__class__ is str and may_take_long(second):
        pause(cells)
    cells[NEXT] = 0


def charge_large(cells: Cells, first: Any, second: Any) -> None:
    """Charge for a large regular expression, which takes microseconds for each character of a text."""
    _expression(cells, first, second)
    pause(cells)


def _contains(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(size_of(first)) * tenth(size_of(second)))


def _traversal_of_first(cells: Cells, first: Any, _: Any) -> None:
    charge(cells, traversal(first, cells[BUDGET]))


def _nothing(cells: Cells, first: Any, second: Any) -> None:
    """The function itself charges, by its result."""


def _new_list(cells: Cells, amount: int) -> None:
    """Charge for the call and for the list that it makes. A negative amount is one that overflowed."""
    amount += 1 + LIST_COST
    if amount >= 0:
        charge(cells, amount)
    elif cells[COST] + amount < 0:
        cells[COST] = LIMIT + 1
        raise exceeded(cells)
    else:
        cells[COST] += amount


def _of_size(cells: Cells, first: Any, _: Any) -> None:
    _new_list(cells, size_of(first))


def _of_count(cells: Cells, first: Any, _: Any) -> None:
    _new_list(cells, max(first, 0) if first.__class__ is int else 1)


def _of_depth(cells: Cells, first: Any, second: Any) -> None:
    _new_list(cells, size_of(first) * (second if second.__class__ is int else 1))


def _compared(cells: Cells, values: Any) -> None:
    """Charge for comparing every item with every other one."""
    size = size_of(values)
    if not size or not isinstance(values, list | ListValue):
        return _new_list(cells, 2 * size * size)
    first = next(iter(list_items(values)))
    return _new_list(cells, int(size * size * (2.1 if isinstance(first, str | bytes) else 2.0)))


def _compared_first(cells: Cells, first: Any, _: Any) -> None:
    _compared(cells, first)


def _compared_second(cells: Cells, _: Any, second: Any) -> None:
    _compared(cells, second)


def _check(cells: Cells, _: Any, __: Any) -> None:
    charge(cells, CHECK_COST)


def _selector(cells: Cells, _: Any, second: Any) -> None:
    size = size_of(second)
    charge(cells, LIST_COST + tenth(size) + (LIST_COST + MESSAGE_COST) * ((size + 1) // 2))


def _contains_address(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(2 * size_of(first)))


def _contains_address_text(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(2 * size_of(first)) + tenth(size_of(second)))


def _contains_network(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(2 * size_of(first)) + tenth(size_of(first)) + 1)


def _contains_network_text(cells: Cells, first: Any, second: Any) -> None:
    charge(cells, tenth(2 * size_of(first)) + tenth(size_of(first)) + 1 + tenth(size_of(second)))


def _validate(cells: Cells, first: Any, second: Any) -> None:
    pattern = first.pattern_size if first.__class__ is Format else 0
    charge(cells, tenth(1 + size_of(second)) * math.ceil(pattern * 0.25) if pattern else 1)


def _sets(factor: int) -> Charge:
    def price(cells: Cells, first: Any, second: Any) -> None:
        amount = 1 + factor * size_of(first) * size_of(second)
        charge(cells, amount)
        if amount > STRIDE:
            pause(cells)

    return price


# The functions that Kubernetes charges for, unless a server of an earlier version evaluates a policy.
_BY_FUNCTION: Final[dict[str, Charge]] = {
    "check": _check,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal_of_first),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _tenth_of_first),
    **dict.fromkeys(("replace", "split"), _fifth_of_first),
    **dict.fromkeys(("find", "findAll"), _expression),
    "join": _nothing,
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "semver", "isSemver", "jsonpatch.escapeKey"), _tenth_of_first),
    "ip.isCanonical": _fifth_of_first,
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
    "validate": _validate,
}
_QUANTITIES: Final = frozenset(("quantity", "isQuantity"))
# As `_BY_FUNCTION`, where the overload matters.
_BY_LIBRARY_OVERLOAD: Final[dict[str, Charge]] = {
    "string_to_ip": _tenth_of_first,
    "cidr_contains_ip_string": _contains_address_text,
    "cidr_contains_cidr_string": _contains_network_text,
}
_KINDS: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_BY_OVERLOAD: Final[dict[str, Charge]] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _tenth_of_first
    ),
    **{f"{order}_{kind}": _tenth_of_smaller for order in _ORDERS for kind in ("string", "bytes")},
    "in_list": _size_of_second,
    "add_string": _tenth_of_sum,
    "add_bytes": _tenth_of_sum,
    "matches_string": _expression,
    "contains_string": _contains,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    **dict.fromkeys(("strings_quote", "string_format"), _tenth_of_first),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _of_depth),
    "lists_range": _of_count,
    "list_reverse": _of_size,
    "list_distinct": _compared_first,
    **{f"list_{kind}_sort": _compared_first for kind in _KINDS},
    **{f"list_{kind}_sortByAssociatedKeys": _compared_second for kind in _KINDS},
}


def charge_of(function: str, overload: str, language: Language) -> Charge | None:
    """Return how a call is charged, or None if it costs 1. `overload` is empty if only the evaluation knows it."""
    if language.library_costs:
        if function in _QUANTITIES and CEL_QUANTITY_COSTS in language.features:
            return _tenth_of_first
        found = _BY_LIBRARY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
        if found is not None:
            return found
    return _BY_OVERLOAD.get(overload)


def charge_nothing(cells: Cells, result: Any) -> None:
    pass


def _joined(cells: Cells, result: Any) -> None:
    charge(cells, math.ceil(size_of(result) * 2 * 0.1))


def _sliced(cells: Cells, result: Any) -> None:
    _new_list(cells, size_of(result))


# Functions that are charged by their result, a value or an error.
RESULT_CHARGES: Final[dict[str, Callable[[Cells, Any], None]]] = {"join": _joined, "slice": _sliced}
