"""A configuration over a live object: values, nulls, and the order of entries."""

from copy import deepcopy

from rewound.actors.patch.managed_fields.apply import merge
from rewound.actors.patch.managed_fields.topology import Shapes
from tests.cases import cases

from .managed_object import SPEC

SHAPE = Shapes().root(SPEC, {})


@cases(
    ("live", "config", "merged"),
    [
        ({"text": "a"}, {"text": "b"}, {"text": "b"}),
        ({"text": "a"}, {"kept": "x"}, {"text": "a", "kept": "x"}),
        ({"map": {"a": "1"}}, {"map": {"b": "2"}}, {"map": {"a": "1", "b": "2"}}),
        ({"block": {"a": "1"}}, {"block": {"b": "2"}}, {"block": {"b": "2"}}),
        ({"plain": ["a"]}, {"plain": ["b"]}, {"plain": ["b"]}),
        ({"pair": {"left": "a"}}, {"pair": {"right": "b"}}, {"pair": {"right": "b"}}),
        ({"loose": {"left": "a"}}, {"loose": {"right": "b"}}, {"loose": {"left": "a", "right": "b"}}),
        ({"map": {"a": "1"}}, {"map": None}, {"map": {"a": "1"}}),
        ({"map": {"a": "1"}}, {"map": {}}, {"map": {"a": "1"}}),
        ({"set": ["a"]}, {"set": []}, {"set": ["a"]}),
        ({}, {"map": {}}, {"map": {}}),
        ({}, {"map": None}, {"map": None}),
        ({"text": "a"}, {"text": None}, {"text": None}),
        ({}, {"loose": {"left": "a", "unknown": 1}, "unknown": 2}, {"loose": {"left": "a"}}),
        ({"boxes": None}, {"boxes": [{"name": "x"}]}, {"boxes": [{"name": "x"}]}),
    ],
)  # fmt: skip
def test_by_shape(live, config, merged):
    before = deepcopy((live, config))
    assert merge(SHAPE, live, config) == merged
    assert (live, config) == before


def test_entries_are_merged_by_their_keys():
    live = [{"name": "a", "note": "1"}, {"name": "b", "ports": [{"port": 1, "protocol": "TCP", "name": "p"}]}]
    config = [{"name": "b", "note": "2", "ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}]
    assert merge(SHAPE, {"boxes": live}, {"boxes": config})["boxes"] == [
        {"name": "a", "note": "1"},
        {
            "name": "b",
            "note": "2",
            "ports": [{"port": 1, "protocol": "TCP", "name": "p"}, {"port": 1, "protocol": "UDP"}],
        },
    ]


@cases(
    ("live", "applied", "merged"),
    [
        ("abcx", "cab", "cxab"),
        ("ab", "cb", "acb"),
        ("acb", "ad", "acbd"),
        ("a", "ba", "ba"),
        ("abc", "b", "abc"),
        ("", "ba", "ba"),
        ("ab", "", "ab"),
        ("abxcy", "cab", "xcyab"),
        ("xaybz", "baq", "xybzaq"),
    ],
)
def test_merged_sets_keep_live_and_applied_order(live, applied, merged):
    assert "".join(merge(SHAPE, {"set": list(live)}, {"set": list(applied)})["set"]) == merged


def test_applied_value_keeps_its_spelling():
    live = {"size": "1", "plain": ["a"]}
    assert merge(SHAPE, live, {"size": "1", "plain": ["a"]}) is live
    assert merge(SHAPE, live, {"size": "1000m", "plain": ["a"]}) == {"size": "1000m", "plain": ["a"]}


def test_entries_with_equal_keys_stay_until_one_is_applied():
    live = [{"name": "a", "note": "1"}, {"name": "a", "note": "2"}, {"name": "b"}]
    assert merge(SHAPE, {"boxes": live}, {"boxes": [{"name": "b", "note": "n"}]})["boxes"] == [
        *live[:2],
        {"name": "b", "note": "n"},
    ]
    assert merge(SHAPE, {"boxes": live}, {"boxes": [{"name": "a"}]})["boxes"] == [
        {"name": "a"},
        {"name": "b"},
    ]
