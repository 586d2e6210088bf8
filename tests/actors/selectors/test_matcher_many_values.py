"""Selectors with more values than MAX_SEARCHES match like short ones."""

from __future__ import annotations

from rewound.actors.selectors import LabelSelector, matcher
from rewound.actors.selectors.facts import pack_facts
from tests.cases import cases

OBJECTS = [
    {},
    {"app": ""},
    {"app": "v3"},
    {"app": "v300"},
    {"app": "w"},
    {"other": "v3"},
    {"app": "v3", "x": "y"},
]


@cases("operator", ["in", "notin"])
@cases("count", [1, 15, 16, 17, 500])
@cases("besides", ["", ",x=y", ",!x"])
def test_matcher_handles_any_number_of_values(operator: str, count: int, besides: str) -> None:
    values = ",".join(f"v{number}" for number in range(count))
    selector = LabelSelector.parse(f"app {operator} ({values}){besides}")
    match = matcher(selector, None)
    assert match is not None
    for labels in OBJECTS:
        facts = pack_facts(labels, {"metadata.name": "v3"}, "uid", [])
        assert match(facts) == selector.matches(labels), labels
