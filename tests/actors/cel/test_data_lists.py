"""Sets and keyed lists of an object compare and add as in v1.25, including its oddities."""

from __future__ import annotations

from tests.actors.cel.budgets import CountingBudget
from tests.actors.cel.evaluating import outcome, program, variables
from tests.cases import cases

TRUE = [
    "self.set == ['y', 'x']",
    "!(['y', 'x'] == self.set)",
    "['x', 'y'] == self.set",
    "(self.set + ['y', 'z', 'z']).size() == 3",
    "(['x'] + self.set).size() == 3",
    "'x' in self.set && !('z' in self.set)",
    "self.keyed == [self.keyed[1], self.keyed[0]]",
    "!([self.keyed[1], self.keyed[0]] == self.keyed)",
    "self.keyed == [self.keyed[0], self.keyed[0]]",
    "(self.keyed + self.keyed).size() == 2",
    "(self.keyed + [self.keyed[0]])[0].v == 1",
    "self.list != [1, 2, 3] && self.list + [4] == [3, 1, 2, 4]",
]


@cases("rule", TRUE)
def test_expression_is_true(rule: str) -> None:
    assert outcome(rule) is True


def test_set_remembers_what_a_rule_added_for_the_rules_after_it() -> None:
    """All rules of a node share one value for `self`, and its set if `self` is a set."""
    itself = variables()[0].get("set")
    of_the_set = [
        program(rule)
        for rule in ("(self.set + ['z']).size() == 3", "self.set == ['x', 'z']", "self.set.size() == 2")
    ]
    assert [one.evaluate(variables(), CountingBudget()).result for one in of_the_set] == [True, False, True]
    added = itself.add(["z"], CountingBudget())
    assert added.size() == 3
    assert itself.equals(["x", "z"], CountingBudget())
    assert itself.size() == 2
    assert itself.add(["z"], CountingBudget()).size() == 2
