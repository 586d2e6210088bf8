"""The schema of a custom resource as OpenAPI documents publish it.

Version 3 has it unchanged, with the type and metadata that every object has, also in embedded objects, and with both
types of an int-or-string. kubectl reads version 2, which has no junctors, no null and no defaults, and treats a
schema with properties as complete: the same parts are left out as in v1.25, so that kubectl does not refuse what the
server accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rewound.actors.messages import Object

# Larger schemas are published without their properties: they would block the event loop for too long.
MOST_NODES: Final = 20_000

_JUNCTORS: Final = frozenset(("allOf", "anyOf", "oneOf", "not"))
_NESTED: Final = ("items", "additionalProperties")
_NEVER: Final = frozenset(("externalDocs", "example"))
_INTEGER_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]

Schema = Mapping[str, Any]


def published(schema: Schema, meta: Schema, prefix: str, *, version_2: bool) -> Object:
    """Return the published schema. `meta` has the properties apiVersion, kind and metadata; `prefix` is that of
    extensions.
    """
    publication = _Publication(meta, prefix, version_2)
    if version_2 and schema.get(prefix + "preserve-unknown-fields"):
        return {"type": "object"}
    try:
        found = publication.of(schema)
    except _TooLarge:
        return {"type": "object"}
    found["properties"] = {**found.get("properties", {}), **meta}
    return found


class _TooLarge(Exception):
    """The schema has more nodes than are published."""


class _Publication:
    def __init__(self, meta: Schema, prefix: str, version_2: bool) -> None:
        self._meta, self._prefix, self._version_2 = meta, prefix, version_2
        extensions = (prefix + "embedded-resource", prefix + "int-or-string")
        self._changing = frozenset((*_NEVER, *_NESTED, "properties", *extensions))
        self._left = MOST_NODES

    def of(self, schema: Schema) -> Object:
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if not self._version_2 and self._is_plain(schema):
            return dict(schema)
        found = {name: value for name, value in schema.items() if name not in _NEVER}
        preserves = bool(schema.get(self._prefix + "preserve-unknown-fields"))
        if self._version_2:
            _simplify(found, schema, preserves)
        elif schema.get(self._prefix + "int-or-string"):
            _unfold(found)
        if "properties" in found:
            found["properties"] = {name: self.of(one) for name, one in found["properties"].items()}
        for keyword in _NESTED:
            if isinstance(found.get(keyword), Mapping):
                found[keyword] = self.of(found[keyword])
        if schema.get(self._prefix + "embedded-resource") and not (self._version_2 and preserves):
            self._add_meta(found)
        return found

    def _is_plain(self, schema: Schema) -> bool:
        """Whether a schema has no parts that are published in another form: most are of a scalar."""
        return self._changing.isdisjoint(schema)

    def _add_meta(self, found: Object) -> None:
        found["properties"] = {**found.get("properties", {}), **self._meta}
        required = list(found.get("required", ()))
        found["required"] = required + [name for name in ("kind", "apiVersion") if name not in required]


def _unfold(found: Object) -> None:
    """Declare that a value may be an integer or a string, unless the schema already does."""
    every = found.get("allOf") or [{}]
    if _INTEGER_OR_STRING in (found.get("anyOf"), every[0].get("anyOf")):
        return
    if "anyOf" not in found:
        found["anyOf"] = _INTEGER_OR_STRING
    else:
        found["allOf"] = [{"anyOf": _INTEGER_OR_STRING}, *found.get("allOf", ())]


def _simplify(found: Object, schema: Schema, preserves: bool) -> None:
    """Leave out what version 2 cannot express, and what makes kubectl refuse valid objects."""
    for keyword in _JUNCTORS & found.keys():
        del found[keyword]
    found.pop("default", None)
    nullable = bool(found.pop("nullable", False))
    if nullable or preserves:
        found.pop("items", None)
        found.pop("properties", None)
    without_items = found.get("type") == "array" and "items" not in found
    if nullable or without_items or (preserves and found.get("type") == "object"):
        found.pop("type", None)
    if "required" in found:
        found["required"] = _certainly_required(found, schema)
        if not found["required"]:
            del found["required"]


def _certainly_required(found: Object, schema: Schema) -> list[str]:
    """Return the required fields that cannot be null: others need not be there."""
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping) and values.get("nullable"):
        return []
    properties = found.get("properties", {})
    return [name for name in found["required"] if not properties.get(name, {}).get("nullable")]
