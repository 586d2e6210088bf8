"""What OpenAPI documents contain of a schema."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.structural.openapi import MOST_NODES, published

from .schemas import TEXT, WHOLE, list_of, record

META = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"$ref": "ObjectMeta"}}
PRESERVE, EMBEDDED = "x-cluster-preserve-unknown-fields", "x-cluster-embedded-resource"


def version_2(schema: dict[str, Any]) -> dict[str, Any]:
    return published(schema, META, "x-cluster-", version_2=True)


def version_3(schema: dict[str, Any]) -> dict[str, Any]:
    return published(schema, META, "x-cluster-", version_2=False)


def test_version_3_has_the_schema_as_it_is() -> None:
    spec = {**record(a={**TEXT, "nullable": True}), "oneOf": [{"required": ["a"]}], PRESERVE: True}
    assert version_3(record(spec=spec)) == record(spec=spec, **META)


def test_version_2_has_neither_junctors_nor_null() -> None:
    spec = {
        **record(a={**TEXT, "nullable": True}, b=WHOLE, l=list_of(TEXT, nullable=True)),
        "required": ["a", "b"],
        "anyOf": [{"required": ["a"]}],
    }
    assert version_2(record(spec=spec)) == record(
        spec={**record(a={}, b=WHOLE, l={}), "required": ["b"]}, **META
    )


def test_version_2_says_nothing_about_preserved_parts() -> None:
    assert version_2(record(spec={**record(a=TEXT), PRESERVE: True})) == record(spec={PRESERVE: True}, **META)
    assert version_2({**record(a=TEXT), PRESERVE: True}) == {"type": "object"}


def test_embedded_objects_have_type_and_metadata() -> None:
    node = {**record(spec=TEXT), EMBEDDED: True, "required": ["kind"]}
    expected = {**record(spec=TEXT, **META), EMBEDDED: True, "required": ["kind", "apiVersion"]}
    assert version_2(record(e=node)) == version_3(record(e=node)) == record(e=expected, **META)
    preserved = {"type": "object", EMBEDDED: True, PRESERVE: True}
    assert version_2(record(e=preserved)) == record(e={EMBEDDED: True, PRESERVE: True}, **META)


def test_examples_are_left_out() -> None:
    assert version_3(record(a={**TEXT, "example": "x", "externalDocs": {}})) == record(a=TEXT, **META)


def test_very_large_schemas_are_published_without_properties() -> None:
    schema = record(**{f"p{number}": TEXT for number in range(MOST_NODES)})
    assert version_2(schema) == version_3(schema) == {"type": "object"}
