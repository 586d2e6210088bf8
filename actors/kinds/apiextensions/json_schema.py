"""JSONSchemaProps: the declaration of the JSON schemas inside CustomResourceDefinitions.

Its extensions have other names in each dialect, so there is one declaration per dialect. It only says how schemas are
decoded and stored; `actors.kinds.structural` checks and compiles them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from actors.kinds.schema.fields import (
    BOOL,
    DOUBLE,
    INT64,
    STRING,
    STRINGS,
    Field,
    JsonValue,
    ListOf,
    MapOf,
    Struct,
    StructOr,
    Type,
)

JSON: Final = JsonValue("JSON", "v1.JSON", "apiextensions.v1.JSON")
EXTERNAL_DOCUMENTATION = Struct(
    "apiextensions.v1.ExternalDocumentation", Field("description", STRING, 1), Field("url", STRING, 2)
)
VALIDATION_RULE = Struct(
    "apiextensions.v1.ValidationRule",
    Field("rule", STRING, 1, required=True, always=True),
    Field("message", STRING, 2),
)


@cache
def json_schema_props(prefix: str) -> Struct:
    """`prefix` is that of the extensions, such as x-cluster-."""
    return Struct.recursive("apiextensions.v1.JSONSchemaProps", lambda schema: _fields(schema, prefix))


def _fields(schema: Struct, prefix: str) -> tuple[Field, ...]:
    schemas, by_name = ListOf(schema), MapOf(schema)
    or_array = _struct_or("Array", schema, ListOf(schema), (1, 2))
    or_bool = _struct_or("Bool", schema, BOOL, (2, 1))
    or_strings = _struct_or("StringArray", schema, STRINGS, (1, 2))
    return (
        Field("id", STRING, 1),
        Field("$schema", STRING, 2),
        Field("$ref", STRING, 3, pointer=True),
        Field("description", STRING, 4),
        Field("type", STRING, 5),
        Field("format", STRING, 6),
        Field("title", STRING, 7),
        Field("default", JSON, 8, pointer=True),
        Field("maximum", DOUBLE, 9, pointer=True),
        Field("exclusiveMaximum", BOOL, 10),
        Field("minimum", DOUBLE, 11, pointer=True),
        Field("exclusiveMinimum", BOOL, 12),
        Field("maxLength", INT64, 13, pointer=True),
        Field("minLength", INT64, 14, pointer=True),
        Field("pattern", STRING, 15),
        Field("maxItems", INT64, 16, pointer=True),
        Field("minItems", INT64, 17, pointer=True),
        Field("uniqueItems", BOOL, 18),
        Field("multipleOf", DOUBLE, 19, pointer=True),
        Field("enum", ListOf(JSON), 20),
        Field("maxProperties", INT64, 21, pointer=True),
        Field("minProperties", INT64, 22, pointer=True),
        Field("required", STRINGS, 23),
        Field("items", or_array, 24, pointer=True),
        Field("allOf", schemas, 25),
        Field("oneOf", schemas, 26),
        Field("anyOf", schemas, 27),
        Field("not", schema, 28, pointer=True),
        Field("properties", by_name, 29),
        Field("additionalProperties", or_bool, 30, pointer=True),
        Field("patternProperties", by_name, 31),
        Field("dependencies", MapOf(or_strings, go_name="v1.JSONSchemaDependencies"), 32),
        Field("additionalItems", or_bool, 33, pointer=True),
        Field("definitions", MapOf(schema, go_name="v1.JSONSchemaDefinitions"), 34),
        Field("externalDocs", EXTERNAL_DOCUMENTATION, 35, pointer=True),
        Field("example", JSON, 36, pointer=True),
        Field("nullable", BOOL, 37),
        Field(f"{prefix}preserve-unknown-fields", BOOL, 38, pointer=True),
        Field(f"{prefix}embedded-resource", BOOL, 39),
        Field(f"{prefix}int-or-string", BOOL, 40),
        Field(f"{prefix}list-map-keys", STRINGS, 41),
        Field(f"{prefix}list-type", STRING, 42, pointer=True),
        Field(f"{prefix}map-type", STRING, 43, pointer=True),
        Field(
            f"{prefix}validations",
            ListOf(VALIDATION_RULE, go_name="v1.ValidationRules"),
            44,
            patch="merge",
            merge_key="rule",
            list_type="map",
            list_keys=("rule",),
        ),
    )


def _struct_or(what: str, schema: Struct, other: Type, numbers: tuple[int, int]) -> StructOr:
    name = f"JSONSchemaPropsOr{what}"
    return StructOr(name, f"v1.{name}", f"apiextensions.v1.{name}", schema, other, numbers)
