"""Both OpenAPI versions describe every type alike; they differ in references and in two scalars."""

from __future__ import annotations

from typing import Any

from tests.gateway.describe.reader import version_2, version_3

LEAVES = ("Quantity", "IntOrString")


def in_version_2(value: Any) -> Any:
    """A schema of version 3 as version 2 writes it."""
    if isinstance(value, list):
        return [in_version_2(one) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("allOf"), list):
        value = {**{name: one for name, one in value.items() if name != "allOf"}, **value["allOf"][0]}
    plain = {name: in_version_2(one) for name, one in value.items()}
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
        assert title.endswith(LEAVES) or newer[title] == older[title], title


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
