"""Values that contain themselves twice, thirty times over: they cost nothing to make, and end whoever walks over them.

Each evaluation here would take hours without a budget.
"""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.json_data import from_json
from rewound.actors.cel.language import language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Evaluation, compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import DYN, Environment
from rewound.actors.cel.values import BudgetExceeded
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.budget import Budget, StepBudget
from rewound.actors.versions.features import CEL_BINDINGS, choose_release
from tests.actors.cel.budgets import CountingBudget, Enough
from tests.cases import cases

DOUBLINGS = 30
LANGUAGE = language_of(KUBERNETES, choose_release("1.36").features, stored=True, also=(CEL_BINDINGS,))
OBJECT = {"list": ["a", "b"], "map": {"a": 1}}


def bound(name: str, first: str, step: str, body: str) -> str:
    """Bind name0 to a value, name1 to a step with name0 in place of @, and so on; @ in the body is the last one."""
    text, last = f"cel.bind({name}0, {first}, ", f"{name}0"
    for number in range(1, DOUBLINGS):
        text += f"cel.bind({name}{number}, {step.replace('@', last)}, "
        last = f"{name}{number}"
    return text + body.replace("@", last) + ")" * DOUBLINGS


def doubled(body: str, *, first: str = "[1, 2]") -> str:
    """A list of a thousand million items."""
    return bound("v", first, "@ + @", body)


def nested(body: str, *, first: str = "[1, 2]", step: str = "[@, @]") -> str:
    """Two lists of two lists of two lists ...; body has # for the other one."""
    return bound(
        "v", first, step, bound("w", first, step, body.replace("@", f"v{DOUBLINGS - 1}").replace("#", "@"))
    )


def evaluate(text: str, budget: Budget) -> Evaluation:
    parsed = parse(text, LANGUAGE)
    assert isinstance(parsed, Expression), str(parsed)
    checked = check(parsed, Environment({"object": DYN}, {}, LANGUAGE))
    assert isinstance(checked, Checked), str(checked)
    return compile_program(checked.expression, checked, ("object",)).evaluate((from_json(OBJECT),), budget)


@cases(
    "text, value",
    [
        (doubled("@.size()"), 2**DOUBLINGS),
        (doubled("@[536870912] + @[1]"), 3),
        (doubled("@.slice(1, 3) == [2, 1]"), True),
        (nested("@.size() == #.size()"), True),
    ],
)
def test_values_share_their_parts_and_know_their_sizes(text: str, value: Any) -> None:
    assert evaluate(text, CountingBudget(most=0)).result == value


@cases(
    "text, value",
    [
        (nested("@ == #"), True),
        (nested("@ != #"), False),
        (nested("@ == [@, #]", first="dyn([1, 2])", step="dyn([@, @])"), False),
        (nested("@ in [#]"), True),
        (nested("@ == #", first="object.list"), True),
        (nested("@ == #", first="{'a': 1}", step="{'a': @, 'b': @}"), True),
        (nested("@ == #", step="[@] + [@]"), True),
        (nested("@ == #", step="[@ + @]"), True),
        (nested("sets.contains([@], [#])"), True),
        (nested("[@, #].distinct().size() == 1"), True),
        (nested("[1, 2].all(each, @ == #)"), True),
    ],
)
def test_parts_that_values_share_are_compared_once(text: str, value: bool) -> None:
    assert evaluate(text, CountingBudget(most=2)).result is value


WALKS = [
    nested("[#].indexOf(@) == 0"),
    doubled("@.sum() > 0"),
    doubled("@.isSorted()"),
    doubled("@.max() > 0"),
    doubled("@.indexOf(3) > 0"),
    doubled("@.lastIndexOf(3) > 0"),
    doubled("@.join() == ''", first="['a']"),
    doubled("'%s'.format([@]) == ''"),
    doubled("@ == @ + []", first="object.list"),
    doubled("'c' in @", first="object.list"),
    nested("'%s'.format([@]) == ''"),
    nested("@.flatten(40).size() > 0", first="[dyn(1)]", step="[dyn(@), dyn(@)]"),
    nested("google.protobuf.Value{list_value: google.protobuf.ListValue{values: @}} == null"),
]


@cases("text", WALKS)
def test_walks_over_values_pause(text: str) -> None:
    try:
        result = evaluate(text, CountingBudget(most=20)).result
    except Enough:
        return
    assert "cost limit" in str(result), f"{result} without a pause"


@cases("text", WALKS)
def test_walks_over_values_end_with_the_budget(text: str) -> None:
    result = evaluate(text, StepBudget(5)).result
    assert isinstance(result, BudgetExceeded) or "cost limit" in str(result), result


@pytest.mark.parametrize("copies", ["@.reverse().size() > 0", "@.slice(0, 500000000).size() > 0"])
def test_copies_of_lists_are_counted_before_they_are_made(copies: str) -> None:
    result = evaluate(doubled(copies), CountingBudget(most=10)).result
    assert "memory" in str(result) or "cost limit" in str(result), result


@cases(
    "text",
    [
        bound("v", "dyn([1])", "dyn([@, @])", "[?@].size() > 0"),
        bound("v", "dyn([1])", "dyn([@, @])", "[@].join() == ''"),
        bound("v", "dyn([1])", "dyn([@, @])", "{'a': 1}[@] == 1"),
    ],
)
def test_messages_show_the_beginning_of_a_value(text: str) -> None:
    assert len(str(evaluate(text, CountingBudget(most=10)).result)) < 2000
