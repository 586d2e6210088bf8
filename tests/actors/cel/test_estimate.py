"""Estimated costs equal those of cel-go with the library costs of v1.25; refusals have the same text."""

from __future__ import annotations

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.cost_estimate import (
    MOST,
    TotalCost,
    cardinality_below,
    estimate,
    exceeds_budget,
    rule_cost,
)
from rewound.actors.cel.parser import parse
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import INT, STRING, Environment, MessageType, Type, list_of, map_of
from tests.actors.cel.evaluating import LANGUAGE
from tests.cases import cases

SELF = Type("self")
ENVIRONMENT = Environment(
    {"self": SELF},
    {
        "self": MessageType(
            "self",
            {
                "n": INT,
                "s": STRING,
                "list": list_of(STRING),
                "map": map_of(STRING, INT),
                "a": Type("a"),
            },
        ),
        "a": MessageType("a", {"b": Type("b")}),
        "b": MessageType("b", {"c": Type("c")}),
        "c": MessageType("c", {"d": list_of(Type("d"))}),
        "d": MessageType("d", {"short": STRING, "long": STRING}),
    },
    LANGUAGE,
)


class Sizes:
    """Sizes by the path after the variable."""

    def most(self, path: list[str]) -> int | None:
        known = {
            "s": 1000,
            "list": 50,
            "list.@items": 200,
            "map": 30,
            "map.@keys": 0,
            "a.b.c.d": 10,
            "a.b.c.d.@items.short": 10,
            "a.b.c.d.@items.long": 1000,
            "n": 0,
        }
        return known.get(".".join(path[1:]))


def most(source: str) -> int:
    expression = parse(source, LANGUAGE)
    assert isinstance(expression, Expression)
    checked = check(expression, ENVIRONMENT)
    assert isinstance(checked, Checked), str(checked)
    return estimate(checked, Sizes()).most


@cases(
    ("source", "cost"),
    [
        ("true", 0),
        ("self.n == 1", 2),
        ("self.s == 'abc'", 3),
        ("self.s == self.s", 104),
        ("self.s.contains('abcdefghijk')", 202),
        ("self.s.matches('abcd')", 103),
        ("self.s + self.s == ''", 204),
        ("has(self.s) ? self.s == 'a' : true", 3),
        ("'a' in self.list", 52),
        ("self.list.all(x, x == 'a')", 2 + 1 + 50 * 5),
        ("self.map.all(k, self.map[k] == 1)", 2 + 1 + 30 * 8),
        ("[1, 2] == [3]", 21),
        ("{'a': 1} == {}", 60),
        ("self.list.isSorted()", 2 + 50 * 21),
        ("self.s.lowerAscii() == 'a'", 103),
        ("self.s.find('abcd') == ''", 103),
        ("url(self.s).getHost() == 'a'", 104),
        ("self.s.split(',').all(x, true)", MOST),
        ("size(self.s.split(',')) == 1", 204),
    ],
)
def test_most_that_a_rule_can_cost(source: str, cost: int) -> None:
    assert most(source) == cost


def test_paths_share_memory_as_slices_do() -> None:
    """Five levels deep, the second field of an item replaces the first, so only one order is expensive."""
    assert most("self.a.b.c.d.all(x, x.short == x.long)") > most("self.a.b.c.d.all(x, x.long == x.short)")


def test_rule_runs_as_often_as_bounds_above_it_allow() -> None:
    assert cardinality_below(1, "object", None, False) == 1
    assert cardinality_below(5, "array", 10, False) == 50
    assert cardinality_below(5, "object", 10, True) == 50
    assert cardinality_below(5, "array", None, False) is None
    assert cardinality_below(None, "array", 10, False) is None
    assert rule_cost(3, 50, 2) == 150
    assert rule_cost(3, None, 2) == 3 * (3 * 1024 * 1024 // 3)
    assert rule_cost(MOST, 2, 2) == MOST


@cases(("cost", "factor"), [(10_000_001, "1.000000x"), (23_450_000, "2.3x"), (MOST, "more than 100x")])
def test_factor_by_which_a_budget_is_exceeded(cost: int, factor: str) -> None:
    assert f"exceeds budget by factor of {factor} (try" in exceeds_budget(
        "estimated rule cost", cost, 10_000_000
    )


def test_total_names_the_four_dearest_rules() -> None:
    total = TotalCost()
    for place, cost in enumerate((2_000_000, 5_000_000, 999_999, 1_000_000, 5_000_000, 3_000_000)):
        total.add(place, cost)
    assert total.total == 16_999_999
    assert total.dearest == [(5_000_000, 1), (5_000_000, 4), (3_000_000, 5), (2_000_000, 0)]
