"""Field views of custom kinds: ownership by the list and map types of their schema, and of what it preserves."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.structural.compile import compile_schema
from rewound.actors.kinds.validation import name_is_subdomain
from rewound.actors.names import NAMES
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.managed_fields.ownership import owned_after
from rewound.actors.runtime.coroutines import without_waiting

VERSION = "stable.example.io/v1"
TEXT = {"type": "string"}


def views(schema: dict[str, Any], *subresources: str, reset: tuple[str, ...] | None = None) -> FieldViews:
    kind = compile_schema(schema, api_version=VERSION, kind="Thing", names=NAMES["cluster"])
    definition = Definition(
        group="stable.example.io",
        version="v1",
        kind="Thing",
        plural="things",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=kind.fields,
        custom=kind.custom,
        strategic_merge_patch=False,
        subresources=tuple(Subresource(name=name, reset_fields=reset) for name in subresources),
    )
    return FieldViews({VERSION: definition})


def owned(made: FieldViews, new: dict[str, Any], subresource: str = "") -> Any:
    new = {"metadata": {"name": "a", "uid": "u"}, **new}
    [entry] = without_waiting(owned_after(made, made(VERSION, subresource), None, new, "me", ""))
    return entry["fieldsV1"]


def test_members_that_the_root_preserves_have_owners() -> None:
    made = views({"type": "object", "x-cluster-preserve-unknown-fields": True}, "status")
    new = {"apiVersion": VERSION, "kind": "Thing", "num": 3, "spec": [1], "map": {"a": 1}, "status": {"x": 1}}
    assert owned(made, new) == {"f:num": {}, "f:spec": {}, "f:map": {".": {}, "f:a": {}}}


def test_list_types_of_the_schema() -> None:
    item = {"type": "object", "properties": {"k": TEXT, "v": TEXT}, "required": ["k"]}
    keyed = {"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["k"]}
    lists = {
        "keyed": {"type": "array", "items": item, **keyed},
        "set": {"type": "array", "items": TEXT, "x-cluster-list-type": "set"},
        "plain": {"type": "array", "items": TEXT},
    }
    new = {"keyed": [{"k": "a", "v": "b"}], "set": ["x"], "plain": ["y"]}
    assert owned(views({"type": "object", "properties": lists}), new) == {
        "f:keyed": {".": {}, 'k:{"k":"a"}': {".": {}, "f:k": {}, "f:v": {}}},
        "f:plain": {},
        "f:set": {".": {}, 'v:"x"': {}},
    }


def test_list_with_equal_keys_has_no_owners() -> None:
    item = {"type": "object", "properties": {"k": TEXT}, "required": ["k"]}
    keyed = {"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["k"]}
    made = views({"type": "object", "properties": {"l": {"type": "array", "items": item, **keyed}}})
    twice = {"metadata": {"name": "a"}, "l": [{"k": "a"}, {"k": "a"}]}
    assert without_waiting(owned_after(made, made(VERSION, ""), None, twice, "me", "")) == []


def test_metadata_that_a_status_resets_has_no_owner() -> None:
    schema = {"type": "object", "properties": {"status": {"type": "object", "properties": {"phase": TEXT}}}}
    sent = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "New"}}
    made = views(schema, "status", reset=("metadata", "spec"))
    assert owned(made, sent, "status") == {"f:status": {".": {}, "f:phase": {}}}
