"""The cost of an evaluation equals that of cel-go's cost tracker in v1.25, to the unit."""

from __future__ import annotations

from rewound.actors.cel.costs import LIMIT
from rewound.actors.cel.values import CostExceeded
from tests.actors.cel.evaluating import evaluate
from tests.cases import cases

LONG = "x" * 95

COSTS = {
    "true": 0,
    "self.i == 7": 3,  # self, .i, ==
    "self.i + 1 == 8": 4,
    "self.i == 7 && self.b": 5,
    "self.i == 0 && self.b": 3,
    "has(self.i)": 1,
    "self.map.one == 1": 4,
    "self.list[0] == 3": 4,
    "self.list[self.i - 7] == 3": 7,  # self .list [] self .i - ==
    "self.list[self.any == 'x' ? 0 : 1] == 1": 7,
    "self.b ? true : false": 2,
    "(self.b ? self.i : 0) == 7": 4,  # self .b, then .i without self, ==
    "self.s == ''": 2,
    "self.s == 'abc'": 3,
    f"self.s == '{LONG}'": 4,  # a tenth of the shorter text
    "self.i in [1, 2]": 2,
    "self.i in [self.i]": 15,  # self .i twice, the list 10, its size
    "[1, 2] == [1, 2]": 1,
    "[self.i] == [7]": 13,
    "{'a': self.i} == {'a': 7}": 33,
    "self.s.contains('l')": 4,
    "self.s.startsWith('l') == false": 5,
    "self.s.matches('^[a-z]+$') == false": 7,
    "self.s.lowerAscii() == 'a'": 5,
    "self.s.split(' ').size() == 2": 7,
    "self.list.all(x, x > 0)": 18,
    "self.list.all(x, x > 1)": 15,
    "self.list.exists(x, x == 3)": 12,
    "self.list.map(x, x) == [3, 1, 2]": 43,
    "self.list.filter(x, x > 1).size() == 2": 37,
    "self.list.exists_one(x, x == 1)": 12,
    "self.list.sum() == 6": 6,
    "self.texts.isSorted()": 2,
    "duration('1s') == self.wait": 3,
    "string(self.i) == '7'": 4,
    "self.date.getFullYear() == 2021": 4,
    "self.j == 1": 3,
    "self.j + 1 == self.i": 6,
    "self.j == 1 || self.i == 7": 6,
    "self.s.substring(self.j, 2) == ''": 4,  # an error before the last argument: the call costs nothing
    "type(self.i) == int": 4,
}


@cases(("rule", "cost"), COSTS.items())
def test_cost(rule: str, cost: int) -> None:
    assert evaluate(rule).cost == cost


def test_evaluation_ends_one_unit_after_the_limit() -> None:
    new = {"list": [1] * 450, "map": {}}
    rule = "self.list.all(x, self.list.all(y, x == y))"
    found = evaluate(rule, new)
    assert isinstance(found.result, CostExceeded)
    assert found.result.message == "operation cancelled: actual cost limit exceeded"
    assert found.cost == LIMIT + 1


def test_dear_call_counts_whole_when_it_exceeds_the_limit() -> None:
    found = evaluate(f"self.s.contains('{'z' * 100}')", {"s": "y" * 1_200_000})
    assert isinstance(found.result, CostExceeded)
    assert found.cost == 2 + 120_000 * 10
