"""The `topology` shapes of a custom resource, derived from its OpenAPI v3 structural schema.

    {"type": "array", "items": {...},                       {"f:list": {'k:{"host":"a","port":80}': ...}}
     "x-kubernetes-list-type": "map",
     "x-kubernetes-list-map-keys": ["host", "port"]}

Objects with properties are structs, with additionalProperties maps, and both are granular unless they are marked
atomic, which covers everything inside. Lists are one value unless they are marked as sets or maps; a map's keys have
the defaults that the schema gives them. Unknown fields that the schema preserves are Open: maps there are granular,
lists atomic. An embedded resource also has apiVersion, kind and the metadata of every object, which its own schema
cannot change. Nothing else of a schema matters here, and the caller has validated it. The dialect gives the prefix of
the markers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from actors.patch.managed_fields.field_path import FIELD
from actors.patch.managed_fields.topology import (
    LEAF,
    NOTHING,
    Dictionary,
    Elements,
    Entries,
    Excluded,
    Open,
    Record,
    Shape,
)

Schema = Mapping[str, Any]

_VALUE: Final = LEAF
_OPEN: Final = Open()
_TYPE: Final = ("apiVersion", "kind")


class _Parts(dict[str, Shape]):
    """The shapes of properties by element, made when they are first looked at: objects use few of a large schema."""

    def __init__(self, properties: Mapping[str, Schema], make: Callable[[Schema], Shape]) -> None:
        self._properties, self._make = properties, make

    def __missing__(self, element: str) -> Shape:
        made = self[element] = self._make(self._properties[element[len(FIELD) :]])
        return made


class SchemaShapes:
    """Makes the shapes of one dialect.

    `metadata` is the shape that the metadata of every object has, `embedded_metadata` that of embedded resources.
    """

    def __init__(
        self, extension_prefix: str, metadata: Shape, embedded_metadata: Shape, *, exact: bool = False
    ) -> None:
        self._prefix, self._metadata, self._exact = extension_prefix, metadata, exact
        # What every embedded resource has, whatever its schema says about it.
        self._embedded = {
            FIELD + "apiVersion": _VALUE,
            FIELD + "kind": _VALUE,
            FIELD + "metadata": embedded_metadata,
        }

    def root(self, schema: Schema, excluded: Excluded = NOTHING) -> Record:
        """The shape of whole objects; `excluded` are the fields that no manager owns in this view."""
        properties = schema.get("properties", {})
        parts = _Parts(properties, self._of)
        parts[FIELD + "metadata"] = self._metadata
        hidden = {*_TYPE, *(name for name, inside in excluded.items() if inside is None)}
        elements = [FIELD + name for name in {**properties, "metadata": {}} if name not in hidden]
        return Record(parts, elements, _OPEN if self._is_open(schema) else None, frozenset(hidden))

    def _of(self, schema: Schema) -> Shape:
        if schema.get("type") == "array":
            return self._list(schema)
        if schema.get("type") == "object":
            return self._object(schema)
        return _OPEN if self._is_open(schema) else _VALUE

    def _object(self, schema: Schema) -> Shape:
        if self._marker(schema, "map-type") == "atomic":
            return _VALUE
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            return Dictionary(self._of(values))
        rest = _OPEN if values or self._is_open(schema) else None
        properties = schema.get("properties", {})
        parts, elements = _Parts(properties, self._of), [FIELD + name for name in properties]
        if self._marker(schema, "embedded-resource"):
            parts.update(self._embedded)
            elements = list({*elements, *self._embedded})
        if not elements:
            return rest or _VALUE
        return Record(parts, elements, rest)

    def _list(self, schema: Schema) -> Shape:
        items = schema.get("items", {})
        match self._marker(schema, "list-type"):
            case "set":
                return Elements(_VALUE, exact=self._exact)
            case "map":
                return self._entries(items, self._marker(schema, "list-map-keys") or ())
        return _VALUE

    def _entries(self, items: Schema, keys: Sequence[str]) -> Shape:
        properties = items.get("properties", {})
        known = [properties.get(key, {}) for key in keys]
        defaults = {key: one.get("default") for key, one in zip(keys, known, strict=True)}
        texts = all(one.get("type") == "string" for one in known)
        return Entries(self._of(items), defaults, texts=texts, exact=self._exact)

    def _is_open(self, schema: Schema) -> bool:
        return bool(self._marker(schema, "preserve-unknown-fields"))

    def _marker(self, schema: Schema, name: str) -> Any:
        return schema.get(self._prefix + name)
