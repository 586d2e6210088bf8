"""Objects of requests and responses in audit events: on one line, and without managedFields if the policy says so.

Only threads that write events parse them. orjson holds the GIL for a whole call, about 1 ms for 200 KiB, while the
event loop waits: documents larger than MAX_OBJECT are left out of events.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from rewound.actors.golang.json import dumps
from rewound.gateway.message import Response

MAX_OBJECT: Final = 512 * 1024


def plain_body(response: Response) -> bytes | None:
    """The body if it is JSON already."""
    if response.content_type != b"application/json":
        return None
    if any(name == b"content-encoding" for name, _ in response.headers):
        return None
    return response.body or None


def is_document(response: Response) -> bool:
    """Whether it is an object in a format other than JSON, rather than text such as that of /healthz."""
    return not response.content_type.startswith(b"text/")


def embedded(body: bytes, *, omit_managed_fields: bool) -> bytes:
    """The document on one line; empty if it is not JSON."""
    try:
        value = orjson.loads(body)
        if omit_managed_fields:
            _remove_managed_fields(value)
        return dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return b""


def parsed(body: bytes) -> Any:
    """The value of a JSON text; None if it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def name_in(body: bytes) -> str:
    """The name of the object that a create returned; empty without one."""
    value = parsed(body)
    metadata = value.get("metadata") if isinstance(value, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _remove_managed_fields(value: Any) -> None:
    """Remove managedFields from an object, the items of a list, or the rows of a Table."""
    if not isinstance(value, dict):
        return
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    for item in _dicts(value.get("items")):
        _remove_managed_fields(item)
    for row in _dicts(value.get("rows")):
        _remove_managed_fields(row.get("object"))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
