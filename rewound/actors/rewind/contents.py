"""Parses versions of objects for readers that compare many: of whatever form they are, everything else is compared.

An older or a foreign writer may have stored bytes that are no object in JSON, and an event whose contents cannot be
read has none. A reader of just this object should say so; one of many shows it without members.
"""

from __future__ import annotations

from typing import Any

import orjson

Document = dict[str, Any]


def parsed(body: bytes) -> Document:
    """The members of a stored object, with its metadata; none of those that cannot be read."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        return {"metadata": {}}
    if not isinstance(found.get("metadata"), dict):
        found["metadata"] = {}
    return found
