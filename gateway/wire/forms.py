"""Other forms of objects: tables for people, and metadata without the rest.

A form does for its definition what `documents.Frame` does for plain objects: one object, or a list, from stored bytes.
Unlike a frame it parses each object, because its cells are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from actors.errors import BadRequest
from actors.kinds.declaration.columns import Column
from actors.kinds.declaration.definition import Definition
from actors.messages import Object
from actors.names import Names
from actors.store.document import decode
from actors.store.reads import Listing
from gateway.wire.documents import Frame, list_metadata
from gateway.wire.json import dump_line

INCLUDED = ("", "Metadata", "Object", "None")


class PartialForm:
    """PartialObjectMetadata, and its list."""

    def __init__(self, definition: Definition, names: Names, version: str) -> None:
        self._type = {"kind": "PartialObjectMetadata", "apiVersion": f"{names.group('meta')}/{version}"}
        self._hidden = definition.storage.field_annotations
        conversion = definition.storage.conversion
        self._view = conversion.from_storage if conversion and definition.is_view else None

    def of(self, made: Object) -> Object:
        metadata = (made if self._view is None else self._view(made))["metadata"]
        if self._hidden and not metadata.get("annotations", {}).keys().isdisjoint(self._hidden):
            metadata = self._without_hidden(metadata)
        return {**self._type, "metadata": metadata}

    def _without_hidden(self, metadata: Object) -> Object:
        kept = {key: value for key, value in metadata["annotations"].items() if key not in self._hidden}
        return {
            part: kept if part == "annotations" else value
            for part, value in metadata.items()
            if kept or part != "annotations"
        }

    def item(self, body: bytes) -> bytes:
        return orjson.dumps(self.of(decode(body)))

    def document(self, body: bytes) -> bytes:
        return dump_line(self.of(decode(body)))

    def listing(self, listing: Listing) -> bytes:
        items = [self.of(decode(body)) for body in listing.bodies]
        kind = {**self._type, "kind": "PartialObjectMetadataList"}
        return dump_line({**kind, "metadata": list_metadata(listing), "items": items})


class TableForm:
    def __init__(
        self,
        definition: Definition,
        names: Names,
        version: str,
        include: str,
        now: Callable[[], int],
    ) -> None:
        if include not in INCLUDED:
            raise BadRequest(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"\"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            )
        self._columns = definition.table.columns
        self._conditions = definition.table.row_conditions
        self._type = {"kind": "Table", "apiVersion": f"{names.group('meta')}/{version}"}
        self._frame = Frame(definition)
        self._partial = PartialForm(definition, names, version)
        self._include = include
        self._now = now

    def item(self, body: bytes, *, columns: bool = True) -> bytes:
        return orjson.dumps(self._of_one(body, columns))

    def document(self, body: bytes) -> bytes:
        return dump_line(self._of_one(body, True))

    def listing(self, listing: Listing) -> bytes:
        rows = [self._row(body, decode(body)) for body in listing.bodies]
        return dump_line(self._table(list_metadata(listing), rows, True))

    def _of_one(self, body: bytes, columns: bool) -> Object:
        made = decode(body)
        version = made["metadata"].get("resourceVersion")  # none yet where the write is only tried
        metadata = {"resourceVersion": version} if version else {}
        return self._table(metadata, [self._row(body, made)], columns)

    def _table(self, metadata: Object, rows: list[Any], columns: bool) -> Object:
        described = [_described(column) for column in self._columns] if columns else None
        return {**self._type, "metadata": metadata, "columnDefinitions": described, "rows": rows}

    def _row(self, body: bytes, made: Object) -> Object:
        now = self._now()
        conditions = self._conditions(made) if self._conditions else []
        return {
            "cells": [column.cell(made, now) for column in self._columns],
            **({"conditions": conditions} if conditions else {}),
            "object": self._shown(body, made),
        }

    def _shown(self, body: bytes, made: Object) -> Any:
        if self._include == "None":
            return None
        if self._include == "Object":
            return orjson.Fragment(self._frame.item(body))
        return self._partial.of(made)


def _described(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
