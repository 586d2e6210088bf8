"""JSONPath of printer columns: what a path finds, what is not a path, and how much a path may visit."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.json_path import MAX_LENGTH, MAX_VISITS, JsonPath, NotAPath
from rewound.actors.runtime.budget import OverBudget
from tests.actors.budgets import CountingBudget, ample
from tests.cases import cases

THING: dict[str, Any] = {
    "metadata": {"labels": {"app.example.com/name": "web", "a b": "c"}},
    "spec": {"list": ["p", "q", "r"], "on": False, "none": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "age": 3},
            {"type": "Old", "status": "False", "age": 9},
        ]
    },
}


# The results of Kubernetes' library, even where they are odd (docs/decisions/0033-jsonpath.md).
@cases(
    ("path", "found"),
    [
        (".spec.on", False),
        (".spec.none", None),
        (".spec.absent.deeper", None),
        (r".metadata.labels.app\.example\.com/name", "web"),
        (r".metadata.labels['app\.example\.com/name']", "web"),
        (".metadata.labels['app.example.com/name']", None),
        (".metadata.labels['a b']", None),
        (r".metadata.labels['a\ b']", "c"),
        (".spec.list[0]", "p"),
        (".spec.list[]", "p"),
        (".spec.list[-1]", "r"),
        (".spec.list[1:]", "q"),
        (".spec.list[-2:]", "q"),
        (".spec.list[0:3:2]", "p"),
        (".spec.list[*]", "p"),
        (".spec.list[7]", None),
        (".spec.list[1:7]", None),
        (".spec.list[2,0]", "r"),
        (".spec.list[0,7]", None),
        (".spec.list[0:3:0]", None),
        (".spec.list[?(@ == 'q')]", "q"),
        (".spec.on.deeper", None),
        (".spec['on','list']", False),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".status.conditions[?(@.age>5)].type", "Old"),
        (".status.conditions[?(@.age>5.0)].type", None),
        (".status.conditions[?(@.age!=3)].type", "Old"),
        (".status.conditions[?(@.absent)].type", None),
        (".status.conditions[?(@.age[0])].type", "Ready"),
        (".status.conditions[?(@.type<5)].type", None),
        (".status.conditions[?(true)].type", "Ready"),
        (r".status.conditions[?(@.type=='\x52eady')].status", "True"),
        ("..type", "Ready"),
        ("..[0]", None),
        (".spec.list.*.*", ord("p")),
        (".spec.list..", ["p", "q", "r"]),
        (".status.*", THING["status"]["conditions"]),
        (".", None),
        (".spec.list.[0]", None),
        (".spec.on}", False),
        (".spec.on} and {.spec.list[7]", None),
        (".spec.on 5", 5),
        (".spec.on range", None),
        ("$", THING),
    ],
)
def test_path_finds_its_first_value(path: str, found: Any) -> None:
    assert found_by(path, THING) == found


@cases(
    "path",
    [
        ".spec[",
        ".spec[x]",
        ".spec[-]",
        ".l[ 0 ]",
        ".l[99999999999999999999]",
        '.labels["a b"]',
        ".spec[?(@.a==1)",
        ".spec[?(@.a=~1)]",
        ".spec[?(!@.a)]",
        '.spec[?(@.a=="b" && @.c==1)]',
        '.spec[?(@.a=="b)]',
        r".spec[?(@.a=='\q')]",
        "..*",
        "....",
        ".a\n.b",
        ".a{",
        ".a} {.b[",
        ".a" * 65,
    ],
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(NotAPath):
        JsonPath(path, ample())


def test_search_ends_after_a_bounded_number_of_values() -> None:
    assert found_by("..absent", {"a": [{"b": {}}] * MAX_VISITS}) is None
    assert found_by("..a..a..a..x", {"a": {"a": [{"a": index} for index in range(1000)]}}) is None


# What a filter, a wildcard or a slice looks at counts, not only what it finds.
@cases(
    "path",
    [
        ".items[?(@.absent)].x",
        ".items[?(@.absent==1)].x",
        ".items[?(" + "@.absent" * 50 + ")]",
        ".items[?(1==2)]",
        ".items[*].x",
        ".items[::2].absent",
        "..x",
        ".text.*",
        ".items[0,0].items",
    ],
)
def test_search_visits_at_most_the_bound(path: str) -> None:
    budget = CountingBudget()
    thing = {"items": [{"x": 1} for _ in range(50_000)], "text": "x" * 50_000}
    JsonPath(path, ample()).first(thing, budget)
    assert budget.visited <= MAX_VISITS


def test_search_of_a_thousand_conditions_ends_in_the_bound() -> None:
    conditions = [{"type": f"T{index}", "status": "True"} for index in range(1000)]
    assert found_by('.conditions[?(@.type=="T999")].status', {"conditions": conditions}) == "True"


def test_search_ends_when_its_budget_does() -> None:
    thing = {"items": [{"x": 1} for _ in range(1500)]}
    with pytest.raises(OverBudget):
        JsonPath(".items[?(@.absent)].x", ample()).first(thing, CountingBudget(most_pauses=1))


def test_long_path_is_refused() -> None:
    with pytest.raises(NotAPath):
        JsonPath(f".{'a' * MAX_LENGTH}", ample())


def found_by(path: str, thing: Any) -> Any:
    return JsonPath(path, ample()).first(thing, ample())
