"""Single fields are restored from an old version, wherever they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rewound.actors.errors import BadRequest
from rewound.actors.rewind.restore import parse_field, rolled_back, take_field
from tests.cases import cases

PAST = {"a": {"b": 1, "c.d": 2}, "items": [{"name": "x", "v": 1}, {"name": "z", "v": 3}], "plain": [1, 2]}
PRESENT = {
    "a": {"b": 9},
    "items": [{"name": "y", "v": 2}, {"name": "x", "v": 8}],
    "plain": [5],
    "new": {"f": 1},
}


@cases(
    ("field", "changed"),
    [
        ("a.b", {"a": {"b": 1}}),
        ("/a/b", {"a": {"b": 1}}),
        ('a["c.d"]', {"a": {"b": 9, "c.d": 2}}),
        ("items[name=x].v", {"items": [{"name": "y", "v": 2}, {"name": "x", "v": 1}]}),
        ("items[name=z]", {"items": [*PRESENT["items"], {"name": "z", "v": 3}]}),  # type: ignore[misc]
        ("items[name=y]", {"items": [{"name": "x", "v": 8}]}),
        ("plain[0]", {"plain": [1]}),
        ("plain", {"plain": [1, 2]}),
        ("new.f", {"new": {}}),
        ("new", None),
        ("never.was.there", {}),
    ],
)
def test_field_is_restored_from_an_old_version(field: str, changed: dict[str, Any] | None) -> None:
    present = copy.deepcopy(PRESENT)
    take_field(parse_field(field), PAST, present)
    expected = {**PRESENT, **(changed or {})}
    if changed is None:
        del expected["new"]
    assert present == expected


@cases("field", ["", "a..b", "a[", "a[]", "[x", "a b", "/", "a" * 1025, 'a["unclosed'])
def test_bad_fields_are_refused(field: str) -> None:
    if field == "/":
        assert parse_field(field) == [""]
        return
    with pytest.raises(BadRequest, match="must be a path such as"):
        parse_field(field)


def test_identity_is_that_of_the_present_object() -> None:
    present = {
        "metadata": {"name": "a", "uid": "2", "resourceVersion": "9", "labels": {"x": "y"}},
        "data": {},
    }
    past = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "3", "finalizers": ["f"]}, "spec": {}}
    assert rolled_back(present, past) == {
        "metadata": {"name": "a", "uid": "2", "resourceVersion": "9", "finalizers": ["f"]},
        "spec": {},
    }
