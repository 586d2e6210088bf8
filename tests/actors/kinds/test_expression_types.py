"""The CEL types of kinds."""

from __future__ import annotations

from rewound.actors.cel.types import BYTES, DYN, STRING, TIMESTAMP, map_of
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.expression_types import declare_kind
from rewound.actors.kinds.structural.rules import Declared
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release

CATALOG = built_in(KUBERNETES, choose_release("1.36"))


def at(api_version: str, kind: str, path: str) -> Declared | None:
    """The type at a path, `[]` for items of lists and maps; None if there is none."""
    definition = CATALOG.of_kind(api_version, kind)
    assert definition is not None
    found: Declared | None = declare_kind(definition, CATALOG)
    for part in path.split("."):
        assert found is not None
        found = found.element if part == "[]" else (found.fields or {}).get(part)
    return found


def test_types_follow_from_the_schema() -> None:
    pod = "v1", "Pod"
    for path, expected in {
        "kind": STRING,
        "metadata.creationTimestamp": TIMESTAMP,
        "metadata.labels": map_of(STRING, STRING),
        "spec.containers.[].livenessProbe.httpGet.port": DYN,
    }.items():
        found = at(*pod, path)
        assert found is not None and found.type == expected
    data = at("v1", "Secret", "data.[]")
    assert data is not None and data.type == BYTES
    assert at(*pod, "spec.overhead") is None


def test_a_struct_inside_itself_has_no_fields() -> None:
    schema = "spec.versions.[].schema.openAPIV3Schema.properties.[]"
    found = at("apiextensions.k8s.io/v1", "CustomResourceDefinition", schema)
    assert found is not None and found.fields == {}
