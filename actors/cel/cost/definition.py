"""What all rules of one definition are estimated to cost, and the texts that refuse what costs too much.

A rule below a list or map runs as often as it has items. If maxItems and maxProperties bound all lists and maps above
it, their product is how often; if not, as often as the smallest value of the schema fits into a request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from actors.cel.cost.ranges import MOST

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
    """How many values fit into a request, of which each takes at least `smallest` bytes of JSON."""
    return LARGEST_REQUEST // (smallest + 1)


def rule_cost(once: int, cardinality: int | None, smallest: int) -> int:
    """A rule that costs `once`, on values of which there are at most `cardinality` (None: nothing bounds them)."""
    return times(once, most_values(smallest) if cardinality is None else cardinality)


def cardinality_below(cardinality: int | None, type_: str, most: int | None, is_map: bool) -> int | None:
    """How many values a schema's children can have. `most` is its maxItems, or its maxProperties if it is a map."""
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
    """The costs of all rules of one definition, and where the dearest ones are."""

    total: int = 0
    dearest: list[tuple[int, Any]] = field(default_factory=list)  # (cost, place)

    def add(self, place: Any, cost: int) -> None:
        self.total = min(self.total + cost, MOST)
        if cost < MOST_OF_A_DEFINITION // 100:
            return
        self.dearest.append((cost, place))
        self.dearest.sort(key=lambda entry: -entry[0])
        del self.dearest[_NAMED_RULES:]
