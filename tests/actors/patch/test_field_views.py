"""For every kind, no manager owns through a view the fields that the view resets."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.schema.fields import zero_struct
from rewound.actors.names import CLUSTER
from rewound.actors.patch.managed_fields.field_view import NEVER_OWNED, FieldViews
from rewound.actors.patch.managed_fields.topology import Record
from tests.cases import cases

METADATA: dict[str, Any] = {
    "labels": {"example.com/a": "b"},
    "annotations": {"example.com/a": "b"},
    "finalizers": ["example.com/x"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
}
# What the first one leaves of an object includes its owners, so it does not matter who would own it. The second one
# changes metadata, as in v1.25, though no manager comes to own it: the server removes its finalizer in this way.
KEEPS_THE_BOOKS = {("Pod", "ephemeralcontainers"), ("CustomResourceDefinition", "status")}


def tracked(definition: Definition, subresource: str) -> set[str]:
    shape = FieldViews({definition.api_version: definition})(definition.api_version, subresource).shape
    found = {name for name in definition.fields.by_name if shape.element(name)}
    inside = shape.part("f:metadata") if "metadata" in found else None
    return found | {
        f"metadata.{name}" for name in METADATA if isinstance(inside, Record) and inside.element(name)
    }


def views() -> list[Any]:
    return [
        pytest.param(definition, subresource, id=f"{definition.kind}-{definition.version}-{subresource.name}")
        for definition in built_in(CLUSTER).definitions
        for subresource in definition.subresources
        if subresource.view is None and not subresource.kind and not subresource.forwarded
        if (definition.kind, subresource.name) not in KEEPS_THE_BOOKS
    ]


@cases(("definition", "subresource"), views())
def test_reset_fields_have_no_owner(definition: Definition, subresource: Subresource) -> None:
    old = {**zero_struct(definition.fields, defaults=False), "metadata": {"name": "a"}}
    for part, sent in METADATA.items():
        new = deepcopy(old)
        new["metadata"][part] = deepcopy(sent)
        if subresource.prepare is not None:
            subresource.prepare(new, deepcopy(old))
        put_back = new["metadata"].get(part) is None
        assert put_back is (f"metadata.{part}" not in tracked(definition, subresource.name)), part


@cases(("definition", "subresource"), views())
def test_status_is_owned_through_its_subresource_only(
    definition: Definition, subresource: Subresource
) -> None:
    if subresource.name == "status":
        assert "status" in tracked(definition, "status")
        assert "spec" not in tracked(definition, "status")
        assert "status" not in tracked(definition, "")


def test_system_metadata_has_no_owner_in_any_view() -> None:
    for definition in built_in(CLUSTER).definitions:
        shape = FieldViews({definition.api_version: definition})(definition.api_version, "").shape
        if "metadata" in definition.fields.by_name:
            metadata = shape.part("f:metadata")
            assert isinstance(metadata, Record)
            assert [name for name in NEVER_OWNED if metadata.element(name)] == []
