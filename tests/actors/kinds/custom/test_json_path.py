"""JSONPath of printer columns: what a path finds, what is no path, and how much one may look at."""

from __future__ import annotations

from typing import Any

import pytest

from actors.kinds.json_path import MAX_VISITS, JsonPath, NotAPath
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


@cases(
    ("path", "found"),
    [
        (".spec.on", False),
        (".spec.none", None),
        (".spec.absent.deeper", None),
        (r".metadata.labels.app\.example\.com/name", "web"),
        (".metadata.labels['a b']", "c"),
        (".spec.list[0]", "p"),
        (".spec.list[-1]", "r"),
        (".spec.list[1:]", "q"),
        (".spec.list[-2:]", "q"),
        (".spec.list[0:3:2]", "p"),
        (".spec.list[*]", "p"),
        (".spec.list[7]", None),
        (".spec.list[2,0]", "r"),
        (".spec.on.deeper", None),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".status.conditions[?(@.age>5)].type", "Old"),
        (".status.conditions[?(@.age!=3)].type", "Old"),
        (".status.conditions[?(@.absent)].type", None),
        (".status.conditions[?(@.type<5)].type", None),
        ("..type", "Ready"),
        (".status.*", THING["status"]["conditions"]),
        (".", None),
        (".spec.list.[0]", None),
        ("$", THING),
    ],
)
def test_path_finds_its_first_value(path: str, found: Any) -> None:
    assert JsonPath(path).first(THING) == found


@cases("path", [".spec[", ".spec[x]", ".spec[?(@.a==1)", ".spec[?(@.a=~1)]", ".a}", ".l[0:3:0]", ".a" * 65])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(NotAPath):
        JsonPath(path)


def test_search_ends_after_a_bounded_number_of_values() -> None:
    assert JsonPath("..absent").first({"a": [{"b": {}}] * MAX_VISITS}) is None
    assert JsonPath("..a..a..a..x").first({"a": {"a": [{"a": index} for index in range(1000)]}}) is None
