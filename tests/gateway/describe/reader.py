"""Reads OpenAPI documents like a client, by following references.

`full_object` makes an object with every field of a schema; `fields` walks every field with its path; `thin` makes an
object with one field; `wrong` returns values that a schema does not allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import orjson

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import NAMES
from rewound.actors.versions.features import choose_release
from rewound.gateway.describe.compressed import Part
from rewound.gateway.describe.openapi.documents import Documents
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.sections import Section, sections

VERBS = frozenset(["get", "list", "create", "update", "patch", "delete", "deletecollection", "watch"])
Schema = dict[str, Any]

_FORMATS = {"date-time": "2024-01-02T03:04:05Z", "byte": "YQ==", "int-or-string": 7}
_BY_TYPE = {"string": "a", "integer": 1, "boolean": True, "number": 1.5}
_WRONG: dict[str, tuple[Any, ...]] = {
    "string": (7, True, [], {}),
    "boolean": ("true", 1, [], {}),
    "array": ("a", 7, {}),
    "object": ("a", 7, []),
    "integer": ("7", 1.5, True, [], {}),
    "number": ("7", True, [], {}),
}
_TOO_LARGE = {"int32": 2**31, "int64": 2**63}


CATALOGS = {dialect: built_in(names, enabled=Enablement(every=True)) for dialect, names in NAMES.items()}


@cache
def documents_of(dialect: str, kubernetes: str = "1.25") -> tuple[Documents, list[Section]]:
    catalog, names = CATALOGS[dialect], NAMES[dialect]
    if kubernetes != "1.25":
        catalog = built_in(names, choose_release(kubernetes), Enablement(every=True))
    return Documents(catalog, names, "v1.25"), list(sections(catalog, VERBS, Naming(names, catalog.exists)))


def encoded_version_2(dialect: str, kubernetes: str = "1.25", *, json: bool) -> bytes:
    documents, found = documents_of(dialect, kubernetes)
    parts = [Part.of(documents.members_of_version_2(json, one), b"," if json else b"") for one in found]
    return b"".join(documents.version_2(json, parts))


@cache
def version_2(dialect: str, kubernetes: str = "1.25") -> Schema:
    document: Schema = orjson.loads(encoded_version_2(dialect, kubernetes, json=True))
    return document


@cache
def version_3(dialect: str, kubernetes: str = "1.25") -> dict[str, Schema]:
    documents, found = documents_of(dialect, kubernetes)
    return {one.name: orjson.loads(b"".join(documents.version_3(one))) for one in found}


class Reader:
    def __init__(self, document: Schema) -> None:
        self.document = document
        self.definitions: dict[str, Schema] = (
            document["definitions"]
            if "definitions" in document
            else document["components"].get("schemas", {})
        )

    def resolve(self, schema: Schema) -> tuple[str, Schema]:
        """Name and schema of a definition; the name is empty for an inline schema."""
        (inner,) = schema.get("allOf", [schema])
        if "$ref" not in inner:
            return "", inner
        title = inner["$ref"].rpartition("/")[2]
        return title, self.definitions[title]

    def definition_name(self, group: str, version: str, kind: str, prefix: str) -> str:
        """The name of the definition of this kind."""
        wanted = {"group": group, "version": version, "kind": kind}
        (found,) = (
            title
            for title, schema in self.definitions.items()
            if wanted in schema.get(f"{prefix}group-version-kind", ())
        )
        return found

    def full_object(self, schema: Schema, around: tuple[str, ...] = ()) -> Any:
        """An object with every field, and one item in every list and map, without recursive types."""
        title, found = self.resolve(schema)
        if title and title in around:
            return None
        if "enum" in schema:
            return schema["enum"][0]
        if "properties" in found:
            members = found["properties"].items()
            inner = {name: self.full_object(one, (*around, title)) for name, one in members}
            return {name: value for name, value in inner.items() if value is not None}
        if "additionalProperties" in found:
            value = self.full_object(found["additionalProperties"], around)
            return None if value is None else {"a": value}
        if found.get("type") == "array":
            value = self.full_object(found["items"], around)
            return None if value is None else [value]
        if found.get("type") == "object" or not found.keys() - {"description"}:
            return {}  # any value
        if title.endswith("MicroTime"):
            return "2024-01-02T03:04:05.678900Z"
        if "oneOf" in found and "format" not in found:
            return "1"
        return _FORMATS.get(found.get("format", "")) or _BY_TYPE[found["type"]]

    def fields(
        self, title: str, around: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], str, Schema]]:
        """(path, owner, schema) of every field, recursively; in a path `[]` is a list item, `{}` a map value."""
        for name, schema in self.definitions[title].get("properties", {}).items():
            yield (name,), title, schema
            for path, inner in self._inside(schema, (name,)):
                if inner not in (*around, title):
                    for deeper, owner, found in self.fields(inner, (*around, title)):
                        yield (*path, *deeper), owner, found

    def _inside(self, schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        title, found = self.resolve(schema)
        if "properties" in found:
            yield path, title
        elif "additionalProperties" in found:
            yield from self._inside(found["additionalProperties"], (*path, "{}"))
        elif found.get("type") == "array":
            yield from self._inside(found["items"], (*path, "[]"))

    def wrong(self, schema: Schema, *, formats: bool = True) -> Iterator[Any]:
        """Values that the schema does not allow, one for each rule that they violate."""
        _, found = self.resolve(schema)
        if "oneOf" in found:
            yield from (True, [], {})
        elif not found.keys() - {"description"}:
            return  # any value is allowed
        elif "properties" in found or found.get("type") != "object" or "additionalProperties" in found:
            # Go reads bytes from a list of numbers, too.
            yield from (one for one in _WRONG[found["type"]] if one != [] or found.get("format") != "byte")
        if found.get("format") in _TOO_LARGE:
            yield _TOO_LARGE[found["format"]]
        if formats and found.get("format") in ("date-time", "byte"):
            yield "*"
        if found.get("type") == "array":
            yield from ([value] for value in self.wrong(found["items"], formats=formats))
        if "additionalProperties" in found:
            inner = self.wrong(found["additionalProperties"], formats=formats)
            yield from ({"a": value} for value in inner)


def thin(path: tuple[str, ...], value: Any) -> Any:
    """An object with one value in it, at the end of a path."""
    for part in reversed(path):
        value = [value] if part == "[]" else {"a" if part == "{}" else part: value}
    return value
