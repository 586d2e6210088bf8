"""Stages select objects and compute delays with a subset of jq."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from rewound.actors.cel.kwok import QueryError
from rewound.actors.stages.budget import StageBudget
from rewound.actors.stages.jq import compile_query, query_budget
from tests.cases import cases

MANY: dict[str, Any] = {"many": [{"n": number} for number in range(20_000)], "text": 100_000 * "a"}
LARGE = "too large values|more than 1048576|too much processor time"

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "annotations": {"a.b/c": "5s"},
        "ownerReferences": [{"kind": "Job"}, {"kind": "Other"}],
    },
    "spec": {"containers": [{"name": "one", "n": 1}, {"name": "two", "n": 2}], "hostNetwork": False},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Held", "status": "False"}]},
}
FOUND: dict[str, list[Any] | None] = {
    ".metadata.name": ["p"],
    '.metadata.annotations["a.b/c"]': ["5s"],
    '.metadata["name"]': ["p"],
    '.metadata."name"': ["p"],
    ".metadata.finalizers": [],
    ".metadata.labels.app": [],
    ".metadata.ownerReferences.[].kind": ["Job", "Other"],
    ".metadata.ownerReferences[].kind": ["Job", "Other"],
    '.status.conditions.[] | select( .type == "Ready" ) | .status': ["True"],
    '.status.conditions.[] | select(.type == "Ready" and .status != "True")': [],
    ".status.containerStatuses.[].state": None,  # jq cannot iterate over null
    ".status.containerStatuses[]?": [],
    ".metadata.name.first": None,
    ".spec.containers[1].name": ["two"],
    ".spec.containers[-1].name": ["two"],
    ".spec.containers[5].name": [],
    ".spec.hostNetwork": [False],
    ".spec.missing // .metadata.name": ["p"],
    '.spec.hostNetwork // "x"': ["x"],
    ".spec.containers | length": [2],
    "[.spec.containers[].n] | length": [2],
    ".spec.containers | map(.n + 1)": [[2, 3]],
    ".spec.containers[] | select(.n > 1) | .name": ["two"],
    ".spec.containers | any(.n == 2)": [True],
    ".spec.containers | all(.n == 2)": [False],
    '.metadata | has("name")': [True],
    '.metadata.name | test("^p$")': [True],
    '.metadata.name | startswith("q") | not': [True],
    'if .spec.hostNetwork then "host" else "pod" end': ["pod"],
    ".metadata.name, .spec.containers[0].name": ["p", "one"],
    '"7" | tonumber * 3 - 1': [20],
    "true": [True],
}


@cases("query, found", FOUND.items())
def test_queries_find_what_jq_finds(query: str, found: list[Any] | None) -> None:
    assert results(query, POD) == found


def test_what_is_not_supported_is_named() -> None:
    for text, named in {
        ".a | ltrimstr(1)": "ltrimstr",
        ".a[": "ends too early",
        ".a ]": "']'",
        "{a: 1}": "'{'",
        "": "ends too early",
    }.items():
        with pytest.raises(QueryError, match=named.replace("{", r"\{").replace("]", r"\]")):
            compile_query(text)


def test_an_expression_that_backtracks_elsewhere_takes_no_time() -> None:
    """RE2 matches it: Python's own regular expressions would need years."""
    assert results('.name | test("^(a+)+$")', {"name": 64 * "a" + "b"}) == [False]
    assert results('.name | test("(")', {"name": "a"}) is None


@cases(
    "text, error",
    [
        ('"x"' + 60 * " | . + .", LARGE),
        ("[1]" + 60 * " | . + .", LARGE),
        ("1" + 60 * " | [., .]" + " | tostring", LARGE),
        ("1" + 30 * " | (., .)", LARGE),
        ("(1,2)" + 40 * " + (1,2)", LARGE),
        (".many[] | .n", LARGE),
        (".many | map(.n) | map(. + 1)", LARGE),
        ("[.many, .many] | contains([.many])", LARGE),
        (".many == .many", LARGE),
        ('.text | test("(a|aa|aaa|aaaa){1,40}b")', LARGE),
        ('.text | test("' + 30 * "x{1,1000}" + '")', LARGE),
        (".many | (" + ",".join(300 * ".") + ") | (" + ",".join(300 * ".") + ")", LARGE),
        ("(" + ",".join(600 * "1") + ")" + " | ." * 10, LARGE),
        (300 * "(" + "1" + 300 * ")", "it nests more than 32 levels"),
        (200 * "first(" + "1" + 200 * ")", "it nests more than 32 levels"),
        ("if . then . " + 100 * "elif . then . " + "end", "it nests more than 32 levels"),
        (3000 * " ", "it has 3000 characters; at most 2048"),
    ],
)
def test_hostile_query_is_refused(text: str, error: str) -> None:
    with pytest.raises(QueryError, match=error):
        results(text, MANY)


def test_large_integers_become_floats() -> None:
    assert results("9223372036854775807 + 1", {}) == [9223372036854775808.0]
    assert results("3" + 40 * " | . * .", {}) == [inf]


@cases(
    "text, found",
    [
        ("(" + ", ".join(map(str, range(40))) + ") | . + 1", list(range(1, 41))),
        (" // ".join(40 * ["null"]) + " // 5", [5]),
        ("(null, 1, false, 2) // 3", [1, 2]),
        (".a.b // error // 3", None),
        (".name" + 900 * "?", ["a"]),
        ("---3", [-3]),
        ("--3", [3]),
    ],
)
def test_long_chains_nest_nothing(text: str, found: list[Any] | None) -> None:
    if found is None:
        with pytest.raises(QueryError):
            results(text, {"name": "a"})
    else:
        assert results(text, {"name": "a"}) == found


def test_query_looks_at_the_clock_while_it_counts() -> None:
    class Looking(StageBudget):
        looks = 0

        def pause(self) -> None:
            self.looks += 1
            super().pause()

    budget = Looking(3_000_000, 3_000_000)
    with pytest.raises(QueryError):
        compile_query(".many | map(.n) | map(. + 1)")(MANY, budget)
    assert budget.looks >= 10


def results(text: str, value: Any) -> list[Any] | None:
    return compile_query(text)(value, query_budget())
