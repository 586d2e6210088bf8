"""Ownership shapes of custom resources: every marker of a schema, and what owners get from it."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import ApplyConflict
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.names import NAMES
from rewound.actors.patch.managed_fields.apply import AmbiguousItems, Applier, applied_fields, apply, extract
from rewound.actors.patch.managed_fields.comparison import NewObjects, compare
from rewound.actors.patch.managed_fields.field_view import NEVER_OWNED, FieldView, FieldViews
from rewound.actors.patch.managed_fields.ownership import owned_after
from rewound.actors.patch.managed_fields.topology import (
    Dictionary,
    Elements,
    Entries,
    Leaf,
    Open,
    Record,
    SchemaShapes,
    Shapes,
)
from rewound.actors.runtime.coroutines import without_waiting
from tests.cases import cases

from .managed_object import THING, define

TEXT = {"type": "string"}
PORT = {
    "type": "object",
    "properties": {"host": TEXT, "port": {"type": "integer", "default": 80}, "note": TEXT},
}


def root(schema: dict[str, Any], dialect: str = "cluster", **excluded: Any) -> Record:
    shapes = Shapes()
    metadata = shapes.of_field(METADATA, dict.fromkeys(NEVER_OWNED))
    made = SchemaShapes(NAMES[dialect].extension_prefix, metadata, shapes.of_field(METADATA, {}))
    return made.root(schema, excluded)


def of(schema: dict[str, Any], dialect: str = "cluster") -> Any:
    return root({"type": "object", "properties": {"x": schema}}, dialect).part("f:x")


@cases(
    ("schema", "shape"),
    [
        (TEXT, Leaf),
        ({"x-cluster-int-or-string": True}, Leaf),
        ({"type": "object", "properties": {"a": TEXT}}, Record),
        ({"type": "object", "properties": {"a": TEXT}, "x-cluster-map-type": "granular"}, Record),
        ({"type": "object", "properties": {"a": TEXT}, "x-cluster-map-type": "atomic"}, Leaf),
        ({"type": "object", "additionalProperties": TEXT}, Dictionary),
        ({"type": "object", "additionalProperties": TEXT, "x-cluster-map-type": "atomic"}, Leaf),
        ({"type": "object", "additionalProperties": True}, Open),
        ({"type": "object"}, Leaf),
        ({"type": "object", "x-cluster-preserve-unknown-fields": True}, Open),
        ({"x-cluster-preserve-unknown-fields": True}, Open),
        ({"type": "object", "x-cluster-embedded-resource": True}, Record),
        (
            {
                "type": "object",
                "x-cluster-embedded-resource": True,
                "x-cluster-preserve-unknown-fields": True,
            },
            Record,
        ),
        ({"type": "object", "x-cluster-embedded-resource": True, "x-cluster-map-type": "atomic"}, Leaf),
        ({"type": "array", "items": TEXT}, Leaf),
        ({"type": "array", "items": TEXT, "x-cluster-list-type": "atomic"}, Leaf),
        ({"type": "array", "items": TEXT, "x-cluster-list-type": "set"}, Elements),
        (
            {
                "type": "array",
                "items": PORT,
                "x-cluster-list-type": "map",
                "x-cluster-list-map-keys": ["host", "port"],
            },
            Entries,
        ),
    ],
)
def test_markers(schema: dict[str, Any], shape: type) -> None:
    assert type(of(schema)) is shape


def test_markers_of_the_other_dialect() -> None:
    marked = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
    assert type(of(marked, "kubernetes")) is Elements
    assert type(of(marked, "cluster")) is Leaf


def test_atomic_covers_everything_inside() -> None:
    inner = {"type": "object", "additionalProperties": TEXT, "x-cluster-map-type": "granular"}
    shape = of({"type": "object", "properties": {"m": inner}, "x-cluster-map-type": "atomic"})
    assert type(shape) is Leaf


def as_it_is(stored: Any) -> Any:
    return stored


class OneDoor(FieldViews):
    def __init__(self, view: FieldView) -> None:
        self._view = view

    def find(self, version: str, subresource: str) -> FieldView | None:
        return self._view if (version, subresource) == ("v1", "") else None


class Custom:
    """One custom resource and its owners."""

    def __init__(self, **properties: Any) -> None:
        self.live: Any = None
        self.declare(**properties)
        self._seconds = 0

    def declare(self, **properties: Any) -> None:
        spec = {"type": "object", "properties": properties}
        self.shape = root({"type": "object", "properties": {"spec": spec}})

    @property
    def view(self) -> FieldView:
        nothing: Any = {"metadata": {}}
        new = NewObjects(self.shape, nothing)
        schema = define(THING).schema
        return FieldView("v1", "", schema, self.shape, self.shape, nothing, new, as_it_is, as_it_is)

    @property
    def views(self) -> FieldViews:
        return OneDoor(self.view)

    def apply(self, manager: str, spec: Any, *, force: bool = False) -> Any:
        self._seconds += 1
        applier = Applier(manager, f"2020-01-01T00:00:{self._seconds:02}Z", force)
        applied = without_waiting(apply(self.views, self.view, self.live, {"spec": spec}, applier))
        self._store(self.live if applied.object is None else applied.object, applied.managed_fields)
        return self.live["spec"]

    def update(self, manager: str, spec: Any) -> None:
        self._seconds += 1
        new = {"metadata": {}, "spec": spec}
        time = f"2020-01-01T00:00:{self._seconds:02}Z"
        self._store(new, without_waiting(owned_after(self.views, self.view, self.live, new, manager, time)))

    def _store(self, made: Any, entries: Any) -> None:
        self.live = {**made, "metadata": {**made["metadata"], "managedFields": entries}}

    def owned(self, manager: str) -> Any:
        entries = self.live["metadata"]["managedFields"]
        return next((one["fieldsV1"]["f:spec"] for one in entries if one["manager"] == manager), None)


PORTS = {
    "type": "array",
    "items": PORT,
    "x-cluster-list-type": "map",
    "x-cluster-list-map-keys": ["host", "port"],
}


def test_missing_map_key_has_its_default() -> None:
    custom = Custom(list=PORTS)
    custom.apply("m1", {"list": [{"host": "a", "note": "x"}]})
    first, second = 'k:{"host":"a","port":80}', 'k:{"host":"a","port":81}'
    assert custom.owned("m1") == {"f:list": {first: {".": {}, "f:host": {}, "f:note": {}}}}
    custom.apply("m2", {"list": [{"host": "a", "port": 81}, {"host": "a", "port": 80}]})
    assert set(custom.owned("m2")["f:list"]) == {first, second}
    with pytest.raises(ApplyConflict, match=r'\.spec\.list\[host="a",port=80\]\.note'):
        custom.apply("m3", {"list": [{"host": "a", "port": 80, "note": "z"}]})


def test_entries_with_equal_map_keys_are_refused() -> None:
    with pytest.raises(AmbiguousItems, match="duplicate entries"):
        applied_fields(root({"properties": {"x": PORTS}}), {"x": [{"host": "a"}, {"host": "a", "port": 80}]})
    with pytest.raises(AmbiguousItems, match="no host"):
        applied_fields(root({"properties": {"x": PORTS}}), {"x": [{"port": 1}]})


def test_set_elements_are_owned_separately() -> None:
    custom = Custom(list={"type": "array", "items": TEXT, "x-cluster-list-type": "set"})
    custom.apply("m1", {"list": ["a", "b"]})
    assert custom.apply("m2", {"list": ["c", "b"]})["list"] == ["a", "c", "b"]
    assert custom.apply("m1", {"list": ["a", "d"]})["list"] == ["a", "c", "b", "d"]
    assert custom.apply("m2", {"list": ["c"]})["list"] == ["a", "c", "d"]


OPEN = {"type": "object", "x-cluster-preserve-unknown-fields": True}


def test_preserved_unknown_maps_are_granular_and_lists_atomic() -> None:
    custom = Custom(any=OPEN)
    custom.apply("m1", {"any": {"a": {"b": {"c": 1}}, "list": [{"name": "x"}]}})
    assert custom.owned("m1") == {"f:any": {"f:a": {".": {}, "f:b": {".": {}, "f:c": {}}}, "f:list": {}}}
    assert custom.apply("m2", {"any": {"a": {"b": {"d": 2}}}})["any"]["a"] == {"b": {"c": 1, "d": 2}}
    with pytest.raises(ApplyConflict, match=r'conflict with "m1": \.spec\.any\.list'):
        custom.apply("m3", {"any": {"list": [{"name": "y"}]}})
    assert custom.apply("m1", {"any": {}})["any"] == {"a": {"b": {"d": 2}}}


def test_unknown_fields_beside_known_ones() -> None:
    custom = Custom(box={**OPEN, "properties": {"set": {"type": "array", "x-cluster-list-type": "set"}}})
    custom.apply("m1", {"box": {"set": ["a"], "other": {"x": 1}}})
    assert custom.owned("m1") == {"f:box": {"f:other": {".": {}, "f:x": {}}, "f:set": {'v:"a"': {}}}}
    assert custom.apply("m2", {"box": {"set": ["b"], "other": {"y": 1}}})["box"] == {
        "set": ["a", "b"],
        "other": {"x": 1, "y": 1},
    }


@cases(
    ("before", "after", "owned"),
    [
        (1, {"a": 1}, {".": {}, "f:a": {}}),
        ({"a": 1}, 1, {}),
        ({"a": 1}, [1], {}),
        ([{"a": 1}], [{"a": 2}], {}),
        ({"a": 1}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}),
    ],
)
def test_value_that_changes_type_belongs_to_its_updater(before: Any, after: Any, owned: Any) -> None:
    custom = Custom(any=OPEN)
    custom.apply("m1", {"any": {"x": before}})
    custom.update("u1", {"any": {"x": after}})
    assert custom.owned("u1") == {"f:any": {"f:x": owned}}
    left = (custom.owned("m1") or {}).get("f:any", {}).get("f:x", {})
    assert "f:a" not in left


@cases(("before", "after"), [(1, {"a": 1}), ({"a": 1}, 1), ({"a": 1}, {"b": {"c": 1}})])
def test_open_values_are_applied_over_each_other(before: Any, after: Any) -> None:
    custom = Custom(any=OPEN)
    custom.apply("m1", {"any": {"x": before}})
    assert custom.apply("m1", {"any": {"x": after}})["any"] == {"x": after}
    assert extract(custom.shape, custom.live, {"f:spec": custom.owned("m1")}) == {
        "spec": {"any": {"x": after}}
    }


MAP = {"type": "object", "additionalProperties": TEXT}
ATOMIC = {**MAP, "x-cluster-map-type": "atomic"}


def test_from_granular_to_atomic_all_owners_of_parts_own_the_whole() -> None:
    custom = Custom(map=MAP)
    custom.apply("m1", {"map": {"x": "1"}})
    custom.apply("m2", {"map": {"y": "1"}})
    custom.declare(map=ATOMIC)
    with pytest.raises(ApplyConflict, match=r'conflict with "m2": \.spec\.map'):
        custom.apply("m1", {"map": {"x": "2"}})
    assert custom.apply("m1", {"map": {"x": "2"}}, force=True) == {"map": {"x": "2"}}
    assert (custom.owned("m1"), custom.owned("m2")) == ({"f:map": {}}, None)


def test_from_atomic_to_granular_the_parts_have_no_owner() -> None:
    custom = Custom(map=ATOMIC)
    custom.apply("m1", {"map": {"x": "1"}})
    custom.declare(map=MAP)
    assert custom.owned("m1") == {"f:map": {}}
    assert custom.apply("m2", {"map": {"x": "2"}}) == {"map": {"x": "2"}}
    custom.apply("m1", {"map": {"y": "2"}})
    assert custom.owned("m1") == {"f:map": {"f:y": {}}}


def test_metadata_shape_is_shared_and_type_has_no_owner() -> None:
    shape = root({"type": "object", "properties": {"kind": TEXT, "spec": MAP}})
    before = {"metadata": {"name": "a"}}
    after = {
        "kind": "X",
        "metadata": {"name": "b", "labels": {"l": "1"}, "finalizers": ["f"]},
        "spec": {"a": "1"},
    }
    assert compare(shape, before, after).changed == {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"f"': {}}, "f:labels": {".": {}, "f:l": {}}},
        "f:spec": {".": {}, "f:a": {}},
    }


def test_view_leaves_out_reset_fields() -> None:
    shape = root({"type": "object", "properties": {"spec": MAP, "status": MAP}}, status=None)
    assert (shape.element("spec"), shape.element("status")) == ("f:spec", None)


def test_without_a_schema_maps_are_granular_and_lists_atomic() -> None:
    shape = root({"type": "object", "x-cluster-preserve-unknown-fields": True})
    config = {"metadata": {"labels": {"l": "1"}}, "spec": {"a": [1, 2]}, "top": 1}
    assert applied_fields(shape, config) == {
        "f:metadata": {"f:labels": {"f:l": {}}},
        "f:spec": {".": {}, "f:a": {}},
        "f:top": {},
    }
