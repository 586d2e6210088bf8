"""Finds the annotations of a Secret that may hold its values: commands do not print them, recordings do not store them.

`kubectl apply` keeps the whole manifest as JSON in an annotation; other tools keep YAML, or compressed and encoded
bytes. A short one without any of the values is kept: `service-account.name` says what a Secret is for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import Any, Final

LAST_APPLIED: Final = "/last-applied-configuration"
_LONGEST: Final = 253  # characters of what is not a manifest: the name of an object has at most as many
_LEAST: Final = 4  # characters of a value that is searched for: shorter ones occur in many texts


def annotations_with_values(secret: dict[str, Any]) -> list[str]:
    """The names of annotations that may hold values of the Secret."""
    annotations = (secret.get("metadata") or {}).get("annotations")
    if not isinstance(annotations, dict) or not annotations:
        return []
    values = _values(secret)
    return [name for name, text in annotations.items() if _may_hold(name, str(text), values)]


def _may_hold(name: str, text: str, values: Collection[str]) -> bool:
    return (
        name.endswith(LAST_APPLIED)
        or len(text) > _LONGEST
        or "\n" in text
        or text.lstrip().startswith(("{", "["))
        or any(value in text for value in values)
    )


def _values(secret: dict[str, Any]) -> set[str]:
    """The values as they are stored, and decoded."""
    found: set[str] = set()
    for field in ("data", "stringData"):
        values = secret.get(field)
        if isinstance(values, dict):
            for value in map(str, values.values()):
                found |= {value.rstrip("="), _decoded(value).strip()}
    return {one for one in found if len(one) >= _LEAST}


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
