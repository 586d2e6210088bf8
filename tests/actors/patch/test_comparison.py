"""What changed between two objects of one shape."""

import pytest

from rewound.actors.patch.managed_fields.comparison import compare
from rewound.actors.patch.managed_fields.topology import Shapes
from tests.cases import cases

from .managed_object import SPEC

SHAPE = Shapes().root(SPEC, {})


def changed(before, after):
    return compare(SHAPE, before, after).changed


def removed(before, after):
    return compare(SHAPE, before, after).removed


@cases(
    ("before", "after", "came", "went"),
    [
        ({}, {}, {}, {}),
        ({"text": "a"}, {"text": "a"}, {}, {}),
        ({"text": "a"}, {"text": "b"}, {"f:text": {}}, {}),
        ({}, {"text": "b"}, {"f:text": {}}, {}),
        ({"text": "a"}, {}, {}, {"f:text": {}}),
        (
            {"map": {"a": "1", "b": "1"}},
            {"map": {"a": "2", "c": "1"}},
            {"f:map": {"f:a": {}, "f:c": {}}},
            {"f:map": {"f:b": {}}},
        ),
        ({"block": {"a": "1"}}, {"block": {"a": "1", "b": "2"}}, {"f:block": {}}, {}),
        ({"plain": ["a"]}, {"plain": ["a", "b"]}, {"f:plain": {}}, {}),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, {"f:set": {'v:"c"': {}}}, {"f:set": {'v:"a"': {}}}),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, {}, {}),
        ({"pair": {"left": "a"}}, {"pair": {"left": "a", "right": "b"}}, {"f:pair": {}}, {}),
        (
            {"loose": {"left": "a"}},
            {"loose": {"right": "b"}},
            {"f:loose": {"f:right": {}}},
            {"f:loose": {"f:left": {}}},
        ),
    ],
)  # fmt: skip
def test_by_shape(before, after, came, went):
    assert changed(before, after) == came
    assert removed(before, after) == went


def test_new_part_is_a_member_with_all_its_fields():
    after = {"loose": {"left": "a"}, "map": {"k": "v"}, "boxes": [{"name": "x", "ports": [{"port": 1}]}]}
    assert changed({}, after) == {
        "f:boxes": {
            ".": {},
            'k:{"name":"x"}': {
                ".": {},
                "f:name": {},
                "f:ports": {".": {}, 'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}},
            },
        },
        "f:loose": {".": {}, "f:left": {}},
        "f:map": {".": {}, "f:k": {}},
    }
    assert removed(after, {}) == changed({}, after)


@pytest.mark.parametrize("nothing", [None, {}])
def test_empty_map_that_gets_keys_is_not_new(nothing):
    assert changed({"map": nothing}, {"map": {"k": "v"}}) == {"f:map": {"f:k": {}}}
    assert removed({"map": {"k": "v"}}, {"map": nothing}) == {"f:map": {"f:k": {}}}


def test_null_and_empty_differ():
    assert changed({"map": None}, {"map": {}}) == {"f:map": {}}
    assert changed({}, {"map": {}}) == {"f:map": {}}
    assert removed({"map": {}}, {}) == {"f:map": {}}


def test_order_of_entries_is_no_change():
    one, other = {"name": "a"}, {"name": "b", "note": "x"}
    assert not compare(SHAPE, {"boxes": [one, other]}, {"boxes": [other, one]})


def test_entries_with_equal_keys_are_compared_as_one():
    two = [{"name": "a", "note": "1"}, {"name": "a", "note": "2"}]
    assert not compare(SHAPE, {"boxes": two}, {"boxes": two})
    assert changed({"boxes": two}, {"boxes": [two[0]]}) == {"f:boxes": {'k:{"name":"a"}': {}}}
    assert changed({}, {"boxes": two}) == {"f:boxes": {".": {}, 'k:{"name":"a"}': {}}}


def test_results_are_in_order():
    after = {"text": "a", "boxes": [{"note": "n", "name": "z"}, {"name": "a"}], "map": {"b": "", "a": ""}}
    found = changed({}, after)
    assert list(found) == ["f:boxes", "f:map", "f:text"]
    assert list(found["f:boxes"]) == [".", 'k:{"name":"a"}', 'k:{"name":"z"}']
