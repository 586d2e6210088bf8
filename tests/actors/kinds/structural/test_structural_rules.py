"""Definitions whose schema is not structural are refused, with the reason."""

from __future__ import annotations

from typing import Any

from tests.cases import cases

from .schemas import TEXT, WHOLE, errors_of, list_of, record


@cases(
    ("schema", "wrong"),
    [
        ({"properties": {"a": TEXT}}, ["s.type: Required value: must not be empty at the root"]),
        ({"type": "string"}, ['s.type: Invalid value: "string": must be object at the root']),
        (
            record(a={"description": "x"}, b=list_of({"maximum": 3})),
            [
                "s.properties[a].type: Required value: must not be empty for specified object fields",
                "s.properties[b].items.type: Required value: must not be empty for specified array items",
            ],
        ),
        (record(a={"type": "array"}), ["s.properties[a].items: Required value: must be specified"]),
        (
            {**record(a=TEXT), "allOf": [{"properties": {"b": {"minLength": 1}}}]},
            ["s.properties[b]: Required value: because it is defined in s.allOf[0].properties[b]"],
        ),
        (
            record(a={**TEXT, "anyOf": [{"type": "string"}, {"default": "x"}]}),
            [
                "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
                "s.properties[a].anyOf[1].default: Forbidden: must be undefined to be structural",
            ],
        ),
        (
            record(a={**TEXT, "pattern": "("}),
            [
                's.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ): `(`"
            ],
        ),
        (
            record(metadata=record(labels={"type": "object"})),
            [
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            ],
        ),
        (
            {"type": "object", "additionalProperties": TEXT},
            ["s.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            record(a={"x-cluster-int-or-string": True, "x-cluster-preserve-unknown-fields": True}),
            [
                "s.properties[a].x-cluster-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-cluster-int-or-string is true"
            ],
        ),
    ],
)
def test_schemas_that_are_not_structural(schema: dict[str, Any], wrong: list[str]) -> None:
    assert errors_of(schema) == wrong


def test_int_or_string_may_name_its_types() -> None:
    types = [{"type": "integer"}, {"type": "string"}]
    assert errors_of(record(a={"x-cluster-int-or-string": True, "anyOf": types})) == []
    assert errors_of(record(a={"x-cluster-int-or-string": True, "allOf": [{"anyOf": types}]})) == []


@cases(
    ("keyword", "value"),
    [
        ("id", "x"),
        ("$ref", "#/x"),
        ("definitions", {"x": TEXT}),
        ("dependencies", {"x": ["y"]}),
        ("dependencies", {}),
        ("patternProperties", {"x": TEXT}),
        ("additionalItems", True),
    ],
)
def test_unsupported_keywords(keyword: str, value: Any) -> None:
    schema = record(a={"type": "object", keyword: value})
    assert errors_of(schema) == [f"s.properties[a].{keyword}: Forbidden: {keyword} is not supported"]


def test_the_url_of_a_json_schema_is_refused_where_nothing_else_is_wrong() -> None:
    assert errors_of({"type": "object", "$schema": "x"}) == [
        "s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
    ]


@cases(
    ("node", "wrong"),
    [
        (
            list_of({"type": "object", "properties": {"k": TEXT}}, **{"x-cluster-list-type": "map"}),
            "x-cluster-list-map-keys: Required value: must not be empty if x-cluster-list-type is map",
        ),
        (
            list_of(record(k=TEXT), **{"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["k"]}),
            "items.properties[k].default: Required value: this property is in x-cluster-list-map-keys, so it must "
            "have a default or be a required property",
        ),
        (
            list_of(TEXT, **{"x-cluster-list-type": "bag"}),
            'x-cluster-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"',
        ),
        (
            {"type": "object", "x-cluster-preserve-unknown-fields": False},
            "x-cluster-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            list_of(record(), **{"x-cluster-list-type": "set"}),
            'items.x-cluster-map-type: Invalid value: "null": must be atomic as item of a list with '
            "x-cluster-list-type=set",
        ),
        (
            {"type": "object", "properties": {"x": WHOLE}, "additionalProperties": TEXT},
            "additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            list_of(TEXT, uniqueItems=True),
            "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
    ],
)
def test_keywords_that_need_or_exclude_others(node: dict[str, Any], wrong: str) -> None:
    assert errors_of(record(a=node)) == [f"s.properties[a].{wrong}"]


def test_the_other_dialect_has_its_own_extensions() -> None:
    schema = record(a=list_of(TEXT, **{"x-kubernetes-list-type": "bag"}))
    assert errors_of(schema) == []
    assert errors_of(schema, "kubernetes") == [
        's.properties[a].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'
    ]


@cases(
    ("node", "wrong"),
    [
        (
            {**WHOLE, "default": "x"},
            'Invalid value: "string": s.properties[a].default in body must be of type',
        ),
        (
            {**record(x=TEXT), "default": {"y": 1}},
            'Invalid value: map[string]interface {}{"y":1}: must not have',
        ),
        ({**TEXT, "minLength": 3, "default": "x"}, 'Invalid value: "x": '),
    ],
)
def test_defaults_must_be_valid(node: dict[str, Any], wrong: str) -> None:
    (found,) = errors_of(record(a=node))
    assert found.startswith("s.properties[a].default")
    assert wrong.removeprefix("Invalid value: ").split(":")[0] in found


def test_the_root_has_no_default_in_its_metadata() -> None:
    schema = record(metadata=record(name={**TEXT, "default": "x"}))
    assert errors_of(schema) == [
        "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"
    ]


@cases(
    ("default", "wrong"),
    [
        ({}, ["apiVersion: Required value: must not be empty", "kind: Required value: must not be empty"]),
        ({"kind": "Shop"}, ["apiVersion: Required value: must not be empty"]),
        ({"kind": 1, "apiVersion": "a/v1"}, ["kind: Invalid value: 1: must be a string"]),
        ({"kind": "Shop", "apiVersion": "a/v1", "metadata": {"name": "a"}, "a": "b"}, []),
    ],
)
def test_default_of_the_root_is_a_whole_object(default: dict[str, Any], wrong: list[str]) -> None:
    assert errors_of({**record(a=TEXT), "default": default}) == [f"s.default.{one}" for one in wrong]


def test_a_status_subresource_restricts_the_root() -> None:
    schema = {**record(status=TEXT), "minProperties": 1}
    assert errors_of(schema) == []
    (found,) = errors_of(schema, has_status=True)
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in found
