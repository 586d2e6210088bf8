"""Random calls of the functions of Kubernetes behave as recorded: value or error, cost, and estimated cost.

Each line of `kubernetes_<version>.jsonl` has an expression, the variables s (of at most 100 characters), l (at most 10
texts of at most 20 characters) and d (anything), and what Kubernetes of that version finds: what does not compile, or
the value or the error, with the cost of the evaluation and the least and largest estimate.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.cost_estimate import estimate
from rewound.actors.cel.language import Language, language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import DYN, STRING, Environment, list_of
from rewound.actors.cel.values import (
    EvaluationError,
    EvaluationStopped,
    MapValue,
    Optional,
    is_list,
    list_items,
    type_name,
)
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import CEL_JSON_PATCH, choose_release
from tests.actors.cel.budgets import CountingBudget
from tests.cases import cases

FOLDER = Path(__file__).parent
TYPES = {"s": STRING, "l": list_of(STRING), "d": DYN}


class Sizes:
    def most(self, path: list[str]) -> int | None:
        return {("s",): 100, ("l",): 10, ("l", "@items"): 20}.get(tuple(path))


def written(value: Any) -> str:
    if isinstance(value, Optional):
        return f"optional({written(value.value)})" if value.has_value else "none"
    if is_list(value):
        return f"[{''.join(written(item) + ';' for item in list_items(value))}]"
    known = value.__class__ in (bool, int, float, str)
    return json.dumps(value, ensure_ascii=False) if known else type_name(value)


def given(value: Any) -> Any:
    """A value of JSON, in which every number is a double."""
    if isinstance(value, dict):
        return MapValue([(key, given(item)) for key, item in value.items()])
    if isinstance(value, list):
        return [given(item) for item in value]
    return float(value) if value.__class__ is int else value


def found(case: dict[str, Any], language: Language) -> dict[str, Any]:
    expression = parse(case["cel"], language)
    assert isinstance(expression, Expression), str(expression)
    checked = check(expression, Environment(TYPES, {}, language))
    if not isinstance(checked, Checked):
        return {"compile": str(checked)}
    estimated = estimate(checked, Sizes())
    values = (case.get("s", "abc"), case.get("l", ["a", "b"]), given(case.get("d")))
    result, cost = compile_program(expression, checked, tuple(TYPES)).evaluate(values, CountingBudget())
    failed = isinstance(result, EvaluationError | EvaluationStopped)
    shown = {"error": result.message} if failed else {"value": written(result)}
    return {**shown, "cost": [cost, estimated.least, estimated.most]}


def same_number(recorded: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether two doubles are equal that Go and Python write differently."""
    try:
        return float(recorded["value"]) == float(ours["value"]) and recorded["cost"] == ours["cost"]
    except (KeyError, ValueError):
        return False


@cases("version", sorted(path.stem.removeprefix("kubernetes_") for path in FOLDER.glob("*.jsonl")))
def test_functions_of_kubernetes_behave_as_recorded(version: str) -> None:
    features = choose_release(version).features
    language = language_of(KUBERNETES, features, stored=True, also=(CEL_JSON_PATCH,))
    lines = (FOLDER / f"kubernetes_{version}.jsonl").read_text().splitlines()
    wrong = []
    for line in lines:
        case = json.loads(line)
        recorded = {key: case[key] for key in ("compile", "value", "error", "cost") if key in case}
        ours = found(case, language)
        if ours != recorded and not same_number(recorded, ours):
            wrong.append((case, ours))
    assert len(lines) > 300 and not wrong, wrong[:3]
