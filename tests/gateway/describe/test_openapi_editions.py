"""Both OpenAPI versions describe every type equally, except for references, two scalars, and defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from rewound.actors.names import NAMES
from tests.gateway.describe.reader import version_2, version_3

LEAVES = ("Quantity", "IntOrString")

# Fields without a description in version 3, as in Kubernetes: JSON schemas have none beside a reference.
BARE = {
    "JSONSchemaProps": ("items", "not", "additionalProperties", "additionalItems", "externalDocs", "example"),
    "IngressRule": ("http",),
}


def in_version_2(value: Any, *, names: bool = False) -> Any:
    """A schema of version 3 as version 2 writes it. `names`: whether the keys are names of fields."""
    if isinstance(value, list):
        return [in_version_2(one) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("allOf"), list):
        value = {**{name: one for name, one in value.items() if name != "allOf"}, **value["allOf"][0]}
    plain = {
        name: in_version_2(one, names=name == "properties")
        for name, one in value.items()
        if names or name != "default"
    }
    if isinstance(plain.get("$ref"), str):
        plain["$ref"] = plain["$ref"].replace("#/components/schemas/", "#/definitions/")
    return plain


def test_definitions_are_the_same_in_both_versions() -> None:
    older = version_2("cluster")["definitions"]
    newer = {
        title: in_version_2(schema)
        for document in version_3("cluster").values()
        for title, schema in document["components"].get("schemas", {}).items()
    }
    assert newer.keys() == older.keys()
    for title in newer:
        expected = without_texts(older[title], BARE.get(title.rpartition(".")[2], ()))
        assert title.endswith(LEAVES) or newer[title] == expected, title


def without_texts(schema: dict[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The schema with fields that are references and nothing else."""
    properties = dict(schema.get("properties", {}))
    properties |= {name: {"$ref": properties[name]["$ref"]} for name in fields}
    return {**schema, "properties": properties} if properties else schema


@pytest.mark.parametrize("dialect", NAMES)
def test_references_are_bare_where_kubernetes_describes_nothing(dialect: str) -> None:
    checked = set()
    for document in version_3(dialect).values():
        for title, schema in document["components"].get("schemas", {}).items():
            for name in BARE.get(title.rpartition(".")[2], ()):
                assert schema["properties"][name].keys() == {"$ref"}, f"{title}.{name}"
                checked.add(title.rpartition(".")[2])
    assert checked == BARE.keys()


def test_every_operation_is_in_one_section() -> None:
    older = version_2("cluster")["paths"]
    parts = [document["paths"] for document in version_3("cluster").values()]
    assert sum(len(part) for part in parts) == len(older)
    newer = {path: item for part in parts for path, item in part.items()}
    for path, item in newer.items():
        assert item.keys() == older[path].keys()
        for method in item.keys() - {"parameters"}:
            assert item[method]["operationId"] == older[path][method]["operationId"]
            assert item[method]["responses"].keys() == older[path][method]["responses"].keys()


def test_two_scalars_allow_several_json_types() -> None:
    schemas = version_3("kubernetes")["api/v1"]["components"]["schemas"]
    either = schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert either["oneOf"] == [{"type": "integer"}, {"type": "string"}]
    assert schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"]["oneOf"]


def test_version_3_has_the_zero_values_of_go_as_defaults() -> None:
    schemas = version_3("kubernetes")["api/v1"]["components"]["schemas"]

    def default(name: str, field: str) -> Any:
        return schemas[f"io.k8s.{name}"]["properties"][field].get("default", "none")

    container, meta = "api.core.v1.Container", "apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert [default(container, one) for one in ("name", "image", "resources", "args")] == [
        "",
        "none",
        {},
        "none",
    ]
    assert default(meta, "creationTimestamp") == {} and default(meta, "deletionTimestamp") == "none"
    assert default("api.core.v1.ContainerPort", "containerPort") == 0
    assert default("api.core.v1.ContainerPort", "protocol") == "TCP"
    assert schemas[f"io.k8s.{container}"]["properties"]["args"]["items"] == {"default": "", "type": "string"}
    assert schemas[f"io.k8s.{container}"]["properties"]["env"]["items"]["default"] == {}


def test_version_2_has_no_defaults() -> None:
    for name, schema in version_2("kubernetes")["definitions"].items():
        for field, described in schema.get("properties", {}).items():
            assert "default" not in described, (name, field)
