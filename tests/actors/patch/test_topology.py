"""Which values are atomic and which have parts: every marker of a declaration, and the default."""

import msgspec
import pytest

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
from rewound.actors.patch.managed_fields.topology import (
    MAX_PLANS,
    Dictionary,
    DuplicateKeys,
    Elements,
    Entries,
    Leaf,
    Record,
    Repeated,
    Shapes,
)
from tests.cases import cases

ITEM = Struct(
    "example.v1.Item",
    Field("name", STRING, 1),
    Field("port", INT32, 2),
    Field("protocol", STRING, 3, default="TCP"),
)
WHOLE = Struct(
    "example.v1.Whole", Field("inner", ITEM, 1, pointer=True), Field("map", STRING_MAP, 2), atomic=True
)


def shape_of(field):
    return Shapes().root(Struct("example.v1.Root", field), {}).part(f"f:{field.name}")


@cases(
    ("field", "shape"),
    [
        (Field("x", STRING, 1), Leaf),
        (Field("x", ITEM, 1), Record),
        (Field("x", ITEM, 1, map_type="atomic"), Leaf),
        (Field("x", WHOLE, 1), Leaf),
        (Field("x", WHOLE, 1, map_type="granular"), Record),
        (Field("x", STRING_MAP, 1), Dictionary),
        (Field("x", STRING_MAP, 1, map_type="granular"), Dictionary),
        (Field("x", STRING_MAP, 1, map_type="atomic"), Leaf),
        (Field("x", STRINGS, 1), Leaf),
        (Field("x", STRINGS, 1, list_type="atomic"), Leaf),
        (Field("x", STRINGS, 1, list_type="set"), Elements),
        (Field("x", STRINGS, 1, patch="merge"), Elements),
        (Field("x", STRINGS, 1, list_type="atomic", patch="merge"), Leaf),
        (Field("x", ListOf(ITEM), 1), Leaf),
        (Field("x", ListOf(ITEM), 1, list_type="map", list_keys=("name",)), Entries),
        (Field("x", ListOf(ITEM), 1, patch="merge", merge_key="name"), Entries),
        (Field("x", ListOf(ITEM), 1, patch="merge,retainKeys", merge_key="name"), Entries),
        (Field("x", ListOf(ITEM), 1, patch="replace", merge_key="name"), Leaf),
        (Field("x", ListOf(ITEM), 1, list_type="atomic", patch="merge", merge_key="name"), Leaf),
        (Field("x", ListOf(ITEM), 1, patch="merge"), Leaf),
    ],
    ids=str,
)
def test_markers(field, shape):
    assert type(shape_of(field)) is shape


def test_list_type_takes_precedence_over_merge_key():
    field = Field(
        "x", ListOf(ITEM), 1, patch="merge", merge_key="port", list_type="map", list_keys=("port", "protocol")
    )
    assert list(shape_of(field).parts([{"port": 80}])) == ['k:{"port":80,"protocol":"TCP"}']


def test_atomic_entries_are_owned_whole():
    entries = shape_of(Field("x", ListOf(WHOLE), 1, patch="merge", merge_key="map"))
    assert type(entries.part("k:{}")) is Leaf


def test_nested_maps_are_granular():
    outer = shape_of(Field("x", MapOf(MapOf(STRING)), 1))
    assert type(outer.part("f:a")) is Dictionary


def test_lists_in_maps_are_atomic():
    assert type(shape_of(Field("x", MapOf(STRINGS), 1)).part("f:a")) is Leaf


def test_a_type_may_contain_itself():
    nodes = ListOf(ITEM)
    tree = Struct(
        "example.v1.Tree",
        Field("value", STRING, 1),
        Field("nodes", nodes, 2, list_type="map", list_keys=("value",)),
    )
    msgspec.structs.force_setattr(nodes, "item", tree)
    shape = Shapes().root(tree, {})
    for _ in range(5):
        shape = shape.part("f:nodes").part('k:{"value":"x"}')
    assert shape.parts({"value": "x"}) == {"f:value": "x"}


def test_excluded_fields_are_no_parts():
    struct = Struct("example.v1.Root", Field("item", ITEM, 1), Field("other", STRING, 2))
    root = Shapes().root(struct, {"other": None, "item": {"port": None}})
    assert root.parts({"item": {}, "other": "x", "unknown": 1}) == {"f:item": {}}
    assert root.part("f:item").parts({"name": "a", "port": 1}) == {"f:name": "a"}


def test_items_with_equal_keys_are_one_part():
    entries = shape_of(Field("x", ListOf(ITEM), 1, list_type="map", list_keys=("name",)))
    parts = entries.parts([{"name": "a", "port": 1}, {"name": "b"}, {"name": "a", "port": 2}])
    assert parts == {
        'k:{"name":"a"}': [{"name": "a", "port": 1}, {"name": "a", "port": 2}],
        'k:{"name":"b"}': {"name": "b"},
    }
    assert type(parts['k:{"name":"a"}']) is Repeated


def test_exact_shapes_may_allow_equal_keys_but_no_missing_ones():
    field = Field("x", ListOf(ITEM), 1, list_type="map", list_keys=("name",))
    same, missing = [{"name": "a"}, {"name": "a"}], [{"port": 1}]
    for shapes, refused in (
        (Shapes(exact=True), (same, missing)),
        (Shapes(exact=True, repeats=True), (missing,)),
    ):
        entries = shapes.of_field(field, {})
        for items in refused:
            with pytest.raises(DuplicateKeys):
                entries.parts(items)
    assert list(entries.parts(same)) == ['k:{"name":"a"}']


def test_entries_without_keys_are_parts_too():
    entries = shape_of(Field("x", ListOf(ITEM), 1, list_type="map", list_keys=("name",)))
    assert list(entries.parts([{"port": 1}, None, {"name": 'q"'}])) == [
        'k:{"name":null}',
        r'k:{"name":"q\""}',
    ]


def test_members_are_walked_in_order():
    names = [f"n{index}" for index in range(8)]
    record = Shapes().root(Struct("example.v1.Many", *(Field(name, STRING, 1) for name in names)), {})
    for choice in range(2 ** len(names)):
        chosen = {name: "" for index, name in enumerate(reversed(names)) if choice >> index & 1}
        assert [name for name, _, _ in record.plan(chosen)] == sorted(chosen)
    assert len(record._plans) <= MAX_PLANS


def test_only_small_maps_are_cached():
    shape = shape_of(Field("x", STRING_MAP, 1))
    for number in range(3 * MAX_PLANS):
        names = [f"b{number}", "a"]
        assert list(shape.whole(dict.fromkeys(names, ""))) == [".", "f:a", f"f:b{number}"]
        assert list(shape.whole(dict.fromkeys(names, ""))) == [".", "f:a", f"f:b{number}"]
    assert len(shape._wholes) <= MAX_PLANS
    many = [f"k{number:03}" for number in range(100)]
    assert list(shape.whole(dict.fromkeys(many, ""))) == [".", *(f"f:{name}" for name in many)]
    assert tuple(many) not in shape._wholes
    long = "a" * 3000
    assert list(shape.whole({long: ""})) == [".", f"f:{long}"]
    assert (long,) not in shape._wholes
