"""Parses versions of objects for readers that compare many: of whatever form they are, everything else is compared.

An older or a foreign writer may have stored bytes that are no object in JSON, one that nests deeper than a response
may, or one with the name of another; and an event whose contents cannot be read has none. A reader of just this object
should say so; one of many shows what can be read.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from rewound.actors.golang.json import DEEPEST, dumps, is_too_deep

Document = dict[str, Any]

TOO_DEEP: Final = f"(nests deeper than {DEEPEST} levels)"


def parsed(body: bytes) -> Document:
    """The members of a stored object, with its metadata; none of those that cannot be read."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        return {"metadata": {}}
    if is_too_deep(found, body):
        found = {name: _cut(value, DEEPEST - 1) for name, value in found.items()}
    if not isinstance(found.get("metadata"), dict):
        found["metadata"] = {}
    return found


def _cut(value: Any, levels: int) -> Any:
    """A value without what is deeper. It calls itself for each of `DEEPEST` levels at most."""
    if type(value) is not dict and type(value) is not list:
        return value
    if not levels:
        return TOO_DEEP
    if type(value) is dict:
        return {name: _cut(member, levels - 1) for name, member in value.items()}
    return [_cut(item, levels - 1) for item in value]


def named(body: bytes, namespace: str, name: str) -> bytes:
    """A stored object with the name and namespace of its key, for readers that tell objects by these."""
    document = parsed(body)
    metadata = document["metadata"]
    if (metadata.get("name"), metadata.get("namespace", "")) == (name, namespace):
        return body
    metadata["name"] = name
    metadata.pop("namespace", None)
    if namespace:
        metadata["namespace"] = namespace
    return dumps(document)
