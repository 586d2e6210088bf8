"""A declaration changes while objects have owners."""

import pytest

from rewound.actors.errors import ApplyConflict
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import STRING, STRING_MAP, STRINGS, Field, ListOf, Struct
from tests.cases import cases

from .managed_object import ManagedObject

ITEM = Struct("example.v1.Item", Field("name", STRING, 1), Field("note", STRING, 2))


def thing(field):
    return Struct("example.v1.Thing", METADATA, Field("spec", Struct("example.v1.Spec", field), 2))


def of_struct(**marks):
    inner = Struct("example.v1.Inner", Field("a", STRING, 1), Field("b", STRING, 2), **marks)
    return thing(Field("x", inner, 1, pointer=True))


TURNS = [
    (
        thing(Field("x", STRING_MAP, 1)),
        thing(Field("x", STRING_MAP, 1, map_type="atomic")),
        {"a": "1"},
        {"b": "1"},
        {"a": "2"},
    ),
    (thing(Field("x", STRINGS, 1, list_type="set")), thing(Field("x", STRINGS, 1)), ["a"], ["b"], ["c"]),
    (
        thing(Field("x", ListOf(ITEM), 1, list_type="map", list_keys=("name",))),
        thing(Field("x", ListOf(ITEM), 1, list_type="atomic")),
        [{"name": "a"}],
        [{"name": "b"}],
        [{"name": "a", "note": "n"}],
    ),
    (of_struct(), of_struct(atomic=True), {"a": "1"}, {"b": "1"}, {"a": "2"}),
]
IDS = ["map", "set", "entries", "struct"]


@cases(("parts", "whole", "one", "other", "changed"), TURNS, ids=IDS)
def test_field_that_becomes_atomic_is_owned_by_all_owners_of_its_parts(parts, whole, one, other, changed):
    obj = ManagedObject(parts)
    obj.apply("m1", {"spec": {"x": one}})
    obj.apply("m2", {"spec": {"x": other}})
    obj.declare(whole)
    with pytest.raises(ApplyConflict, match=r'conflict with "m2": \.spec\.x'):
        obj.apply("m1", {"spec": {"x": changed}})
    obj.apply("m1", {"spec": {"x": changed}}, force=True)
    assert obj.spec["x"] == changed
    assert obj.managers == ["m1"]
    assert obj.owned("m1") == {"f:spec": {"f:x": {}}}


@cases(("parts", "whole", "one", "other", "changed"), TURNS, ids=IDS)
def test_update_of_field_that_became_atomic_owns_it_whole(parts, whole, one, other, changed):
    obj = ManagedObject(parts)
    obj.apply("m1", {"spec": {"x": one}})
    obj.update("u1", {"spec": {"x": one}})
    obj.declare(whole)
    obj.change("u1", x=changed)
    assert obj.managers == ["u1"]
    assert obj.owned("u1") == {"f:spec": {"f:x": {}}}


@cases(("parts", "whole", "one", "other", "changed"), TURNS, ids=IDS)
def test_field_that_became_atomic_is_removed_with_its_last_owner(parts, whole, one, other, changed):
    obj = ManagedObject(parts)
    obj.apply("m1", {"spec": {"x": one}})
    obj.apply("m2", {"spec": {"x": other}})
    both = obj.spec["x"]
    obj.declare(whole)
    obj.apply("m1", {})
    assert obj.spec["x"] == both
    obj.apply("m2", {})
    assert "x" not in obj.spec


@cases(("parts", "whole", "one", "other", "changed"), TURNS, ids=IDS)
def test_owner_of_field_that_becomes_granular_owns_none_of_its_parts(parts, whole, one, other, changed):
    obj = ManagedObject(whole)
    obj.apply("m1", {"spec": {"x": one}})
    obj.declare(parts)
    obj.apply("m2", {"spec": {"x": changed}})
    assert obj.owned("m1") == {"f:spec": {"f:x": {}}}
    obj.apply("m1", {"spec": {"x": other}})
    assert "." not in obj.owned("m1")["f:spec"]["f:x"]
    assert obj.managers == ["m2", "m1"]


def test_removed_field_declaration_stays_in_managed_fields():
    obj = ManagedObject(thing(Field("x", STRING_MAP, 1)))
    obj.apply("m1", {"spec": {"x": {"a": "1"}}})
    obj.declare(thing(Field("y", STRING, 1)))
    obj.update("u1", {"spec": {"y": "a"}})
    assert obj.owned("m1") == {"f:spec": {"f:x": {"f:a": {}}}}
    obj.apply("m1", {"spec": {"y": "a"}})
    assert obj.owned("m1") == {"f:spec": {"f:y": {}}}
