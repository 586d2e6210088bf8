"""What each marker of a declaration means for an apply."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import ApplyConflict
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import (
    INT32,
    STRING,
    STRING_MAP,
    STRINGS,
    Field,
    ListOf,
    MapOf,
    Struct,
)
from rewound.actors.patch.managed_fields.apply import AmbiguousItems
from tests.cases import cases

from .managed_object import ManagedObject

ITEM = Struct(
    "example.v1.Item",
    Field("name", STRING, 1),
    Field("port", INT32, 2),
    Field("protocol", STRING, 3, default="TCP"),
    Field("note", STRING, 4),
)


def obj(*fields: Field) -> ManagedObject:
    spec = Struct("example.v1.MarkedSpec", *fields)
    return ManagedObject(Struct("example.v1.Marked", METADATA, Field("spec", spec, 2)))


def pair(**marks: Any) -> Struct:
    return Struct("example.v1.Pair", Field("a", STRING, 1), Field("b", STRING, 2), **marks)


def refused(of: ManagedObject, manager: str, x: Any) -> str:
    with pytest.raises(ApplyConflict) as caught:
        of.apply(manager, {"spec": {"x": x}})
    return str(caught.value)


@pytest.mark.parametrize(
    "field",
    [Field("x", pair(atomic=True), 1, pointer=True), Field("x", pair(), 1, pointer=True, map_type="atomic")],
    ids=["of the type", "of the field"],
)
def test_the_struct_marker_atomic_gives_the_whole_struct_one_owner(field: Field) -> None:
    of = obj(field)
    of.apply("m1", {"spec": {"x": {"a": "1"}}})
    assert of.owned("m1") == {"f:spec": {"f:x": {}}}
    assert refused(of, "m2", {"b": "1"}).endswith('conflict with "m1": .spec.x')
    of.apply("m2", {"spec": {"x": {"b": "1"}}}, force=True)
    assert of.spec["x"] == {"b": "1"}
    assert of.managers == ["m2"]


@pytest.mark.parametrize(
    "field",
    [
        Field("x", pair(), 1, pointer=True),
        Field("x", pair(atomic=True), 1, pointer=True, map_type="granular"),
    ],
    ids=["unmarked", "of the field"],
)
def test_the_struct_marker_granular_gives_every_field_its_owner(field: Field) -> None:
    of = obj(field)
    of.apply("m1", {"spec": {"x": {"a": "1"}}})
    of.apply("m2", {"spec": {"x": {"b": "1"}}})
    assert of.spec["x"] == {"a": "1", "b": "1"}
    assert refused(of, "m2", {"a": "2"}).endswith('conflict with "m1": .spec.x.a')


def test_without_a_list_type_the_merge_strategy_and_its_key_make_a_map() -> None:
    of = obj(Field("x", ListOf(ITEM), 1, patch="merge", merge_key="name"))
    of.apply("m1", {"spec": {"x": [{"name": "a", "note": "1"}]}})
    of.apply("m2", {"spec": {"x": [{"name": "b"}]}})
    assert [item["name"] for item in of.spec["x"]] == ["a", "b"]
    assert refused(of, "m2", [{"name": "a", "note": "2"}]).endswith('.spec.x[name="a"].note')


def test_without_a_list_type_the_merge_strategy_of_plain_values_makes_a_set() -> None:
    of = obj(Field("x", STRINGS, 1, patch="merge"))
    of.apply("m1", {"spec": {"x": ["a"]}})
    of.apply("m2", {"spec": {"x": ["b"]}})
    assert of.spec["x"] == ["a", "b"]


@pytest.mark.parametrize("marks", [{}, {"patch": "replace", "merge_key": "name"}])
def test_without_a_list_type_and_a_merge_strategy_a_list_is_atomic(marks: Any) -> None:
    of = obj(Field("x", ListOf(ITEM), 1, **marks))
    of.apply("m1", {"spec": {"x": [{"name": "a"}]}})
    assert refused(of, "m2", [{"name": "b"}]).endswith(".spec.x")


@cases(
    ("inner", "one", "other"),
    [
        (Field("in", STRING_MAP, 1, map_type="granular"), {"a": "1"}, {"b": "1"}),
        (Field("in", STRINGS, 1, list_type="set"), ["a"], ["b"]),
        (
            Field("in", ListOf(ITEM), 1, list_type="map", list_keys=("name",)),
            [{"name": "a"}],
            [{"name": "b"}],
        ),
        (Field("in", pair(), 1, pointer=True), {"a": "1"}, {"b": "1"}),
    ],
    ids=["map", "set", "entries", "struct"],
)
def test_atomic_is_recursive(inner: Field, one: Any, other: Any) -> None:
    """Parts of an atomic value are not separate values, whatever their markers."""
    outer = Struct("example.v1.Outer", inner)
    for field, wrap in (
        (Field("x", outer, 1, pointer=True, map_type="atomic"), lambda part: {"in": part}),
        (Field("x", MapOf(outer), 1, map_type="atomic"), lambda part: {"k": {"in": part}}),
        (Field("x", ListOf(outer), 1, list_type="atomic"), lambda part: [{"in": part}]),
    ):
        of = obj(field)
        of.apply("m1", {"spec": {"x": wrap(one)}})
        assert of.owned("m1") == {"f:spec": {"f:x": {}}}
        assert refused(of, "m2", wrap(other)).endswith('conflict with "m1": .spec.x')


PORTS = Field("x", ListOf(ITEM), 1, list_type="map", list_keys=("port", "protocol"))


def test_several_map_keys_identify_an_entry_together() -> None:
    of = obj(PORTS)
    of.apply("m1", {"spec": {"x": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}})
    of.apply("m2", {"spec": {"x": [{"port": 54, "protocol": "UDP", "note": "n"}]}})
    assert [(item["port"], item["protocol"]) for item in of.spec["x"]] == [
        (53, "TCP"),
        (53, "UDP"),
        (54, "UDP"),
    ]
    assert list(of.owned("m2")["f:spec"]["f:x"]) == ['k:{"port":54,"protocol":"UDP"}']


def test_missing_key_has_its_default() -> None:
    of = obj(PORTS)
    of.apply("m1", {"spec": {"x": [{"port": 53, "note": "a"}]}})
    assert list(of.owned("m1")["f:spec"]["f:x"]) == ['k:{"port":53,"protocol":"TCP"}']
    assert refused(of, "m2", [{"port": 53, "protocol": "TCP", "note": "b"}]).endswith('TCP"].note')
    of.apply("m2", {"spec": {"x": [{"port": 53, "protocol": "TCP"}]}})
    assert len(of.spec["x"]) == 1


@cases(
    ("field", "value"),
    [
        (Field("x", STRINGS, 1, list_type="set"), ["a", "b", "a"]),
        (PORTS, [{"port": 53}, {"port": 53, "protocol": "TCP"}]),
        (Field("x", ListOf(ITEM), 1, patch="merge", merge_key="name"), [{"name": "a"}, {"name": "a"}]),
    ],
    ids=["set", "keys", "merge key"],
)
def test_duplicates_are_refused(field: Field, value: Any) -> None:
    with pytest.raises(AmbiguousItems, match="duplicate entries"):
        obj(field).apply("m1", {"spec": {"x": value}})


def test_force_makes_the_applier_the_only_owner() -> None:
    of = obj(Field("x", STRING, 1))
    of.apply("m1", {"spec": {"x": "1"}})
    of.apply("m2", {"spec": {"x": "1"}})
    of.apply("m3", {"spec": {"x": "3"}}, force=True)
    assert of.managers == ["m3"]


def test_ownership_moves_by_sharing_then_no_longer_applying() -> None:
    of = obj(Field("x", STRING, 1), Field("y", STRING, 2))
    of.apply("giver", {"spec": {"x": "1", "y": "1"}})
    of.apply("taker", {"spec": {"x": "1"}})
    of.apply("giver", {"spec": {"y": "1"}})
    assert of.spec == {"x": "1", "y": "1"}
    assert of.owned("taker") == {"f:spec": {"f:x": {}}}
    of.apply("giver", {})
    assert of.managers == ["taker"]
    assert of.spec == {"x": "1"}
