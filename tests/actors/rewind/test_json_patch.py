"""A patch between two documents, applied to the first, gives the second exactly."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.patch.json_patch import apply_json_patch
from rewound.actors.rewind import difference as difference_module
from rewound.actors.rewind.difference import Change, difference, patch_between
from tests.cases import cases
from tests.examples import examples

scalars = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([1.0, "", "a", "a/b", "~"]))
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "a/b", "~1", "", "0"]), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "c/d"]), documents, max_size=3)


@examples(200)
@given(objects, objects)
def test_patch_gives_the_second_document(before: Any, after: Any) -> None:
    made = apply_json_patch(copy.deepcopy(before), patch_between(before, after))
    assert encoded(made) == encoded(after)


def encoded(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@cases(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [{"op": "remove", "path": "/a/1"}]),
        ({"a": [1, 3]}, {"a": [0, 1, 3]}, [{"op": "add", "path": "/a/0", "value": 0}]),
        ({"a": [[1]]}, {"a": [[True]]}, [{"op": "replace", "path": "/a/0/0", "value": True}]),
        ({"x/y~": 1}, {}, [{"op": "remove", "path": "/x~1y~0"}]),
    ],
)
def test_patches_are_small(before: Any, after: Any, patch: list[dict[str, Any]]) -> None:
    assert patch_between(before, after) == patch


def test_deep_documents_are_compared() -> None:
    before: Any = 1
    after: Any = 2
    for _ in range(5000):
        before, after = {"a": before}, {"a": after}
    (operation,) = patch_between(before, after)
    assert operation["path"] == "/a" * 5000


@pytest.mark.parametrize("many", [1, 5000])
def test_memory_does_not_grow_with_long_keys_above_many_fields(many: int) -> None:
    before = {"k" * 20_000: {f"f{number}": {"a": 1} for number in range(5000)}}
    after = {"k" * 20_000: {f"f{number}": {"a": 1 + (number < many)} for number in range(5000)}}
    tracemalloc.start()
    try:
        operations = patch_between(before, after)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    path = f"/{'k' * 20_000}/f0/a"
    expected: tuple[str, Any] = (path, 2) if many == 1 else ("", after)
    assert [(one["op"], one["path"], one["value"]) for one in operations] == [("replace", *expected)]


def test_very_many_changes_replace_the_whole_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference_module, "MAX_SIZE", difference_module.MAX_SIZE // 20)
    before, after = ({"a": [[], *([value] * 10_000)], "b": 1} for value in (0, 1))
    assert patch_between(before, after) == [{"op": "replace", "path": "", "value": after}]
    assert difference(before, after) == [Change("", before, after)]
    assert difference(before, after, most=2) == [Change("a[1]", 0, 1), Change("a[2]", 0, 1)]
