"""Every object has a name that is valid for its kind, and a namespace exactly if its kind is namespaced."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import validate_metadata_create
from tests.cases import cases

CATALOG = built_in(CLUSTER)


def definition(plural: str) -> Definition:
    found = CATALOG.find("", "v1", plural)
    assert found is not None
    return found


def fields(plural: str, metadata: dict[str, Any]) -> list[str]:
    return [error.field for error in collect(validate_metadata_create, metadata, definition(plural))]


@cases(
    ("plural", "metadata", "wrong"),
    [
        ("configmaps", {"name": "a.b", "namespace": "n"}, []),
        ("configmaps", {"name": "Upper", "namespace": "n"}, ["metadata.name"]),
        ("configmaps", {"namespace": "n"}, ["metadata.name"]),
        ("configmaps", {"name": "a"}, ["metadata.namespace"]),
        ("configmaps", {"name": "a", "namespace": "n.n"}, ["metadata.namespace"]),
        (
            "configmaps",
            {"name": "Bad_x", "generateName": "Bad_", "namespace": "n"},
            ["metadata.generateName", "metadata.name"],
        ),
        ("configmaps", {"name": "web-abcde", "generateName": "web-", "namespace": "n"}, []),
        ("namespaces", {"name": "a"}, []),
        ("namespaces", {"name": "a.b"}, ["metadata.name"]),
        ("namespaces", {"name": "a", "namespace": "n"}, ["metadata.namespace"]),
        ("configmaps", {"name": "a", "namespace": "n", "generation": -1}, ["metadata.generation"]),
    ],
)
def test_name_and_namespace_are_validated_per_kind(
    plural: str, metadata: dict[str, Any], wrong: list[str]
) -> None:
    assert fields(plural, metadata) == wrong


def test_missing_name_is_reported_as_in_kubernetes() -> None:
    error = collect(validate_metadata_create, {"namespace": "n"}, definition("configmaps"))[0]
    assert error.message == "Required value: name or generateName is required"
