"""Rules of custom resources that a real server of v1.36 has judged: cases_of_1_36.json has its answers.

Each batch is one definition with many rules. `refused` has what the server said about rules by their index; `failed`
what it said about the object when the definition had only the other rules.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.kinds.structural.compile import compile_schema
from rewound.actors.kinds.structural.definition_checks import check_schema
from rewound.actors.kinds.validation import FieldError, collect_with
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import choose_release

CASES = json.loads((Path(__file__).parent / "cases_of_1_36.json").read_text())
SECONDS = 60.0  # of processor time
FEATURES = choose_release("1.36").features
RULE = re.compile(r'Invalid value: \{"Rule":.*?"OptionalOldSelf":null\}: (.*)', re.DOTALL)
PLACE = re.compile(r"validations\[(\d+)\]")


def _schema(rules: list[str]) -> dict[str, Any]:
    spec = {**CASES["schema"], "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    return {"type": "object", "properties": {"spec": spec}}


def _text(error: FieldError) -> str:
    message = error.cause().message
    found = RULE.fullmatch(message)
    return re.sub("selfType[0-9]+", "selfTypeN", found[1] if found else message)


@pytest.mark.parametrize("batch", CASES["batches"], ids=lambda batch: batch["topic"])
def test_rules_are_judged_as_by_the_real_server(batch: dict[str, Any]) -> None:
    rules = batch["rules"]
    refused: dict[str, list[str]] = {}
    schema = _schema(rules)
    for error in run_limited(
        lambda: collect_with(FEATURES, check_schema, "spec", schema, names=KUBERNETES), seconds=SECONDS
    ):
        place = PLACE.search(error.cause().field)
        if place is not None:
            refused.setdefault(place[1], []).append(_text(error))
    assert {rules[int(index)]: texts for index, texts in refused.items()} == {
        rules[int(index)]: texts for index, texts in batch["refused"].items()
    }
    if "failed" not in batch:
        return
    good = [rule for index, rule in enumerate(rules) if str(index) not in batch["refused"]]
    compiled = compile_schema(
        _schema(good), api_version="cel.example.com/v1", kind="Thing", names=KUBERNETES, features=FEATURES
    )
    thing = {"apiVersion": "cel.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    new = compiled.schema.decode_json(json.dumps({**thing, "spec": CASES["object"]}).encode()).object
    found = run_limited(lambda: collect_with(FEATURES, compiled.validate, new, None), seconds=SECONDS)
    assert [_text(error) for error in found] == batch["failed"]
