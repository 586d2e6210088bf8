"""Events and objects as documents for `-o json` and `-o yaml`."""

from __future__ import annotations

from typing import Any

import orjson

from actors.store.document import api_version_of, kind_prefix, type_prefix, typed
from gateway.cli.journal.query.event_reader import Entry
from gateway.cli.journal.query.kinds import Kind
from gateway.cli.journal.query.times import rfc3339

Document = dict[str, Any]


def object_bytes(kind: Kind, body: bytes) -> bytes:
    """An object with kind and apiVersion, if they are known."""
    if not kind.api_version:
        return body
    named = api_version_of(body)
    return typed(kind_prefix(kind.kind) if named else type_prefix(kind.kind, kind.api_version), body)


def identity(kind: Kind, namespace: str, name: str) -> Document:
    document: Document = {"kind": kind.kind, "apiVersion": kind.api_version, "resource": kind.type_name}
    if namespace:
        document["namespace"] = namespace
    return {**document, "name": name}


def event_document(entry: Entry, kind: Kind, *, managed_fields: bool = False) -> Document:
    event = entry.event
    changes = entry.compared(managed_fields=managed_fields)
    return {
        "offset": event.offset,
        "time": rfc3339(event.time),
        "user": event.user,
        "verb": event.verb,
        "manager": event.manager,
        **({"reason": event.reason} if event.reason else {}),
        **identity(kind, event.namespace, event.name),
        "previous": event.previous,
        "removed": event.removed,
        "size": len(event.body),
        "changes": [change.document() for change in changes],
        "object": orjson.Fragment(object_bytes(kind, entry.body)),
    }
