"""Merge patch against the examples of RFC 7396, and its laws."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.patch.transform import apply_merge_patch
from tests.cases import cases

EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@cases(("document", "patch", "expected"), EXAMPLES)
def test_examples_of_the_rfc(document, patch, expected):
    assert apply_merge_patch(deepcopy(document), patch) == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_third_time_changes_nothing_and_the_patch_is_left_alone(document, patch):
    """The second time may differ: a list that replaced a map is a list by then, and loses the nulls in its maps."""
    before = deepcopy(patch)
    once = apply_merge_patch(deepcopy(document), patch)
    assert patch == before
    twice = apply_merge_patch(once, patch)
    assert apply_merge_patch(deepcopy(twice), patch) == twice


@given(VALUES)
def test_the_patch_without_nulls_on_nothing_is_itself(patch):
    def without_nulls(value):
        if isinstance(value, dict):
            return {key: without_nulls(one) for key, one in value.items() if one is not None}
        return [without_nulls(one) for one in value] if isinstance(value, list) else value

    expected = without_nulls(patch) if isinstance(patch, dict) else patch
    assert apply_merge_patch({}, patch) == expected


def test_deep_patches_do_not_recurse():
    patch: dict = {}
    for _ in range(100_000):
        patch = {"a": patch}
    merged = apply_merge_patch({}, patch)
    for _ in range(100_000):
        merged, patch = merged["a"], patch["a"]
    assert merged == {}


def test_null_members_of_maps_in_lists_are_dropped() -> None:
    patch = {"a": [None, {"b": None, "c": [{"d": None, "e": 1}], "f": {"g": None}}], "z": [1]}
    merged = apply_merge_patch({"a": [1], "z": {"was": "a map"}}, patch)
    assert merged == {"a": [None, {"c": [{"e": 1}], "f": {}}], "z": [1]}
    assert patch["a"][1]["b"] is None


def test_list_in_place_of_a_map_keeps_its_nulls() -> None:
    patch = {"a": [None, {"b": None, "c": [{"d": None}]}]}
    assert apply_merge_patch({"a": {"was": "a map"}}, patch) == patch
    assert apply_merge_patch({"a": [1]}, patch) == {"a": [None, {"c": [{}]}]}


def test_order_is_kept_inside_lists() -> None:
    merged = apply_merge_patch({}, {"a": [{"z": 1, "y": [3, 2], "x": None, "b": {"d": 1, "c": 2}}]})
    assert list(merged["a"][0]) == ["z", "y", "b"]
    assert list(merged["a"][0]["b"]) == ["d", "c"]
