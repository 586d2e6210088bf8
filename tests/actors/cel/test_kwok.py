"""CEL of kwok's objects: its own functions, fields that are missing, and expressions that take long."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rewound.actors.cel.kwok import MOST_PAUSES, QueryError, compile_expression, language_of_stages
from rewound.actors.cel.values import Duration
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.budget import StepBudget
from tests.cases import cases

NOW = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
SELF = {
    "metadata": {"creationTimestamp": "2023-11-14T22:13:00Z", "annotations": {"cpu": "1500m"}},
    "spec": {"nodes": list(range(2000))},
}


def evaluated(text: str) -> Any:
    evaluate = compile_expression(text, ("self",), language_of_stages(KUBERNETES))
    return evaluate({"self": SELF}, NOW, Random(1), StepBudget(MOST_PAUSES))


@cases(
    "text, value",
    [
        ("SinceSecond(self)", 20.0),
        ("self.SinceSecond() > 5.0", True),
        ("UnixSecond(Now())", 1_700_000_000.0),
        ("UnixSecond(self.metadata.creationTimestamp)", 1_699_999_980.0),
        ("Now() - timestamp(self.metadata.creationTimestamp) == duration('20s')", True),
        ("0.0 <= Rand() && Rand() < 1.0", True),
        ("Quantity(self.metadata.annotations['cpu']) * 2.0 + Quantity('1Ki')", 1027.0),
        ("'x' in self.metadata.annotations ? Quantity('1') : Quantity('1m')", 0.001),
        ("[1, 2].exists(one, Quantity(string(one)) == 2.0)", True),
        ("duration('5s')", Duration(5_000_000_000)),
        ("self.metadata.labels.app == 'web'", None),
        ("has(self.metadata.labels)", False),
    ],
)
def test_expression_has_the_value_that_kwok_gives_it(text: str, value: Any) -> None:
    assert evaluated(text) == value


def test_expression_that_takes_long_is_refused() -> None:
    with pytest.raises(QueryError, match="too many steps"):
        evaluated("self.spec.nodes.all(a, self.spec.nodes.all(b, a + b >= 0))")


@cases("text", ["self.", "other.spec", "Now(1)", 3000 * "1"])
def test_invalid_expression_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        evaluated(text)
