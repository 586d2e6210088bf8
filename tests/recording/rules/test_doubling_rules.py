"""A rule whose value doubles again and again is reported as failing; every event is judged by the others."""

from __future__ import annotations

import orjson
import pytest

from rewound.recording.rules.engine import Rule
from tests.recording.rules.story import POD, Story, rules_of

EVENTS = 2000


def doubled(inner: str, times: int = 20) -> str:
    """Bind a list to v0, and twice the one before to each of the others."""
    for number in range(times, 0, -1):
        inner = f"[v{number - 1} + v{number - 1}].all(v{number}, {inner})"
    return f"[[1, 2, 3, 4]].all(v0, {inner})"


def shared(inner: str, times: int = 20) -> str:
    """Lists of two that share their only item, twice."""
    for number in range(times, 0, -1):
        for name in "vw":
            inner = f"[[{name}{number - 1}, {name}{number - 1}]].all({name}{number}, {inner})"
    return f"[[1]].all(v0, [[1]].all(w0, {inner}))"


def rules(expression: str) -> dict[str, Rule]:
    written = [
        {"name": "costly", "expression": expression},
        {"name": "honest", "expression": 'event.kind == "Pod"', "rateLimit": {"alerts": EVENTS, "per": "1h"}},
    ]
    found = rules_of(f"rules: {orjson.dumps(written).decode()}\n")
    return {one.name: one for one in found if one.name in ("costly", "honest")}


@pytest.mark.parametrize(
    "expression",
    [
        doubled("v20.all(x, x > 0)"),
        doubled("v20 == v19 + v19"),
        shared("v24.flatten(24) == w24.flatten(24)", times=24),
    ],
    ids=["all", "doubled", "flat"],
)
def test_costly_rule_is_reported_and_the_others_judge_every_event(expression: str) -> None:
    found = rules(expression)
    story = Story(list(found.values()))
    for at in range(EVENTS):
        story.write(POD, f"a-{at}", {})
    assert found["honest"].statistics.matches == EVENTS
    costly = found["costly"].statistics
    assert costly.failures == 20 and "20 evaluations took too long" in costly.off, costly
