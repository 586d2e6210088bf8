"""The fields that an applied configuration owns, why one is refused, and the conversion back."""

import pytest

from rewound.actors.kinds.schema.fields import INT32, STRING, Field, ListOf, Struct
from rewound.actors.patch.managed_fields.apply import AmbiguousItems, applied_fields, extract
from rewound.actors.patch.managed_fields.topology import Shapes
from tests.cases import cases

from .managed_object import SPEC

SHAPE = Shapes().root(SPEC, {})


@cases(
    ("config", "fields"),
    [
        ({"text": "a"}, {"f:text": {}}),
        ({"map": {"a": "1", "b": "2"}}, {"f:map": {"f:a": {}, "f:b": {}}}),
        ({"loose": {"left": "a"}}, {"f:loose": {"f:left": {}}}),
        ({"set": ["b", "a"]}, {"f:set": {'v:"a"': {}, 'v:"b"': {}}}),
        ({"boxes": [{"name": "x"}]}, {"f:boxes": {'k:{"name":"x"}': {".": {}, "f:name": {}}}}),
        ({"deep": {"k": {"left": "a"}}}, {"f:deep": {"f:k": {".": {}, "f:left": {}}}}),
        ({"deep": {"k": {}}}, {"f:deep": {"f:k": {}}}),
        ({"text": None, "map": None, "loose": {}, "map2": {}}, {"f:loose": {}, "f:map": {}, "f:text": {}}),
        ({"block": {}}, {"f:block": {}}),
        ({"plain": []}, {"f:plain": {}}),
        ({"set": []}, {}),
        ({"boxes": []}, {}),
        ({"unknown": {"a": 1}}, {}),
    ],
)  # fmt: skip
def test_by_shape(config, fields):
    assert applied_fields(SHAPE, config) == fields


def test_a_key_has_its_default():
    config = {"boxes": [{"name": "x", "ports": [{"port": 53, "name": "a"}, {"port": 53, "protocol": "UDP"}]}]}
    assert applied_fields(SHAPE, config)["f:boxes"]['k:{"name":"x"}']["f:ports"] == {
        'k:{"port":53,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}},
        'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
    }


@cases(
    ("config", "words"),
    [
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"boxes": [{"name": "x"}, {"name": "x"}]}, '.boxes: duplicate entries for key [name="x"]'),
        (
            {"boxes": [{"name": "x", "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}]},
            '.boxes[name="x"].ports: duplicate entries for key [port=1,protocol="TCP"]',
        ),
        ({"boxes": [None]}, ".boxes: an entry of this list has no value"),
        (
            {"boxes": [{"name": "x", "ports": [{"protocol": "UDP"}]}]},
            '.boxes[name="x"].ports: an entry of this list has no port',
        ),
    ],
)  # fmt: skip
def test_list_entries_with_equal_keys_are_refused(config, words):
    with pytest.raises(AmbiguousItems) as refused:
        applied_fields(SHAPE, config)
    assert str(refused.value).startswith(words)


def test_text_that_looks_like_a_missing_key_is_a_value():
    assert applied_fields(SHAPE, {"boxes": [{"name": 'a":null'}]})


def test_extract_returns_the_part_that_the_set_names():
    live = {
        "text": "a",
        "kept": "usual",
        "map": {"a": "1", "b": "2"},
        "set": ["x", "y"],
        "boxes": [{"name": "x", "note": "n", "ports": [{"port": 1, "protocol": "TCP"}]}, {"name": "y"}],
    }
    config = {"text": "a", "map": {"b": "2"}, "set": ["y"], "boxes": [{"name": "x", "ports": [{"port": 1}]}]}
    assert extract(SHAPE, live, applied_fields(SHAPE, config)) == config


def test_null_and_always_present_keys_identify_entries():
    port = Struct(
        "x.v1.Port", Field("port", INT32, 1, always=True), Field("protocol", STRING, 2, default="TCP")
    )
    keyed = Field("ports", ListOf(port), 1, list_type="map", list_keys=("port", "protocol"))
    shape = Shapes().root(Struct("x.v1.Thing", keyed), {})
    assert list(applied_fields(shape, {"ports": [{}, {"port": 1, "protocol": None}]})["f:ports"]) == [
        'k:{"port":0,"protocol":"TCP"}',
        'k:{"port":1,"protocol":null}',
    ]
