"""Encoders from stored objects to JSON documents: plain objects, PartialObjectMetadata, and Tables.

Each encoder serves one definition and makes from stored bytes an object inside another document (`item`), an object
as a whole response (`document`), or a list (`listing`). `list_layouts` makes long lists from their elements.

`ObjectEncoder` puts kind and apiVersion in front of the stored bytes. It is built once per definition, because every
get and list uses it, and parses an object only to convert it from its storage version to the requested one. The other
two parse every object.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import orjson

from actors.errors import BadRequest
from actors.kinds.declaration.columns import Column
from actors.kinds.declaration.definition import Definition
from actors.messages import Object
from actors.names import Names
from actors.store.document import decode, type_prefix, version_of
from actors.store.list_reader import Listing
from gateway.wire.json import dump_line
from gateway.wire.list_layouts import Element, JsonLayout, ListType

INCLUDE_OBJECT_VALUES = ("", "Metadata", "Object", "None")


class ObjectEncoder:
    """Objects with all their fields."""

    __slots__ = (
        "_convert",
        "_current_since",
        "_item_prefix",
        "_list_head",
        "_prefix",
        "_upgrade",
        "list_type",
    )

    def __init__(self, definition: Definition) -> None:
        self.list_type = ListType(
            definition.list_kind, definition.api_version, shows_continue=definition.is_custom
        )
        self._prefix = type_prefix(definition.kind, definition.api_version)
        self._list_head = type_prefix(definition.list_kind, definition.api_version)
        self._convert = definition.storage.conversion.from_storage if definition.storage.conversion else None
        self._upgrade, self._current_since = definition.storage.upgrade, definition.storage.current_since
        # Items of lists have kind and apiVersion only if the kind is a custom one.
        self._item_prefix = self._prefix if definition.is_custom else b""

    @property
    def element(self) -> Element | None:
        """Makes an element of a list from a stored object; None if it is the stored object."""
        if self._item_prefix:
            return self.item
        return None if self._convert is None else self.converted

    def item(self, body: bytes) -> bytes:
        """An object inside another document, such as a watch event."""
        return self._prefix + self.converted(body)[1:]

    def document(self, body: bytes) -> bytes:
        """An object as a whole response, with a newline at its end."""
        return b"".join((self._prefix, self.converted(body)[1:], b"\n"))

    def listing(self, listing: Listing) -> bytes:
        bodies = listing.bodies
        head = (
            self._list_head
            + b'"metadata":'
            + orjson.dumps(self.list_type.metadata(list_metadata(listing)))
            + b',"items":['
        )
        if not bodies:
            return head + b"]}\n"
        if (element := self.element) is not None:
            bodies = [element(body) for body in bodies]
        bodies[0] = head + bodies[0]
        bodies[-1] += b"]}\n"
        return b",".join(bodies)

    def converted(self, body: bytes) -> bytes:
        """A stored object in the version of this definition."""
        if self._upgrade is not None and version_of(body) < self._current_since:
            upgraded = self._upgrade(decode(body))
            return orjson.dumps(upgraded if self._convert is None else self._convert(upgraded))
        return body if self._convert is None else orjson.dumps(self._convert(decode(body)))


@lru_cache(maxsize=4096)
def object_encoder(definition: Definition) -> ObjectEncoder:
    return ObjectEncoder(definition)


def _listing(type_: ListType, listing: Listing, element: Element) -> bytes:
    layout = JsonLayout(type_)
    elements = layout.separator.join([element(body) for body in listing.bodies])
    return layout.head(list_metadata(listing)) + elements + layout.tail(None)


def list_metadata(listing: Listing) -> dict[str, object]:
    metadata: dict[str, object] = {"resourceVersion": str(listing.version)} if listing.version else {}
    if listing.token:
        metadata["continue"] = listing.token
    if listing.remaining:
        metadata["remainingItemCount"] = listing.remaining
    return metadata


class PartialMetadataEncoder:
    """PartialObjectMetadata and PartialObjectMetadataList."""

    def __init__(self, definition: Definition, names: Names, version: str) -> None:
        self._type = {"kind": "PartialObjectMetadata", "apiVersion": f"{names.group('meta')}/{version}"}
        self.list_type = ListType("PartialObjectMetadataList", self._type["apiVersion"])
        self._hidden = definition.storage.field_annotations
        conversion = definition.storage.conversion
        self._view = conversion.from_storage if conversion and definition.is_view else None

    def of(self, stored: Object) -> Object:
        metadata = (stored if self._view is None else self._view(stored))["metadata"]
        if self._hidden and not metadata.get("annotations", {}).keys().isdisjoint(self._hidden):
            metadata = self._without_hidden(metadata)
        return {**self._type, "metadata": metadata}

    def _without_hidden(self, metadata: Object) -> Object:
        """Without the annotations in which storage keeps fields of other versions."""
        annotations = {
            key: value for key, value in metadata["annotations"].items() if key not in self._hidden
        }
        return {
            key: annotations if key == "annotations" else value
            for key, value in metadata.items()
            if annotations or key != "annotations"
        }

    def item(self, body: bytes) -> bytes:
        return orjson.dumps(self.of(decode(body)))

    def document(self, body: bytes) -> bytes:
        return dump_line(self.of(decode(body)))

    element = item

    def listing(self, listing: Listing) -> bytes:
        return _listing(self.list_type, listing, self.element)


class TableEncoder:
    """Tables, with a row for each object."""

    def __init__(
        self,
        definition: Definition,
        names: Names,
        version: str,
        include: str,
        now: Callable[[], int],
    ) -> None:
        if include not in INCLUDE_OBJECT_VALUES:
            raise BadRequest(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"\"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            )
        self._columns = definition.table.columns
        self._conditions = definition.table.row_conditions
        self._type = {"kind": "Table", "apiVersion": f"{names.group('meta')}/{version}"}
        self._objects = ObjectEncoder(definition)
        self._is_custom = (
            definition.is_custom
        )  # its cells are those of the version shown, not of the stored object
        self._metadata = PartialMetadataEncoder(definition, names, version)
        self._include = include
        self._now = now

    def item(self, body: bytes, *, columns: bool = True) -> bytes:
        return orjson.dumps(self._one_row(body, columns))

    def document(self, body: bytes) -> bytes:
        return dump_line(self._one_row(body, True))

    @cached_property
    def list_type(self) -> ListType:
        definitions = {"columnDefinitions": self._definitions()}
        return ListType("Table", self._type["apiVersion"], "rows", definitions)

    def element(self, body: bytes) -> bytes:
        return orjson.dumps(self._row(body, self._read(body)))

    def _read(self, body: bytes) -> Object:
        return decode(self._objects.converted(body) if self._is_custom else body)

    def listing(self, listing: Listing) -> bytes:
        return _listing(self.list_type, listing, self.element)

    def _one_row(self, body: bytes, columns: bool) -> Object:
        stored = self._read(body)
        version = stored["metadata"].get("resourceVersion")  # absent in the response to a dry run
        metadata = {"resourceVersion": version} if version else {}
        return self._table(metadata, [self._row(body, stored)], columns)

    def _table(self, metadata: Object, rows: list[Any], columns: bool) -> Object:
        definitions = self._definitions() if columns else None
        return {**self._type, "metadata": metadata, "columnDefinitions": definitions, "rows": rows}

    def _definitions(self) -> list[Object]:
        return [_column_definition(column) for column in self._columns]

    def _row(self, body: bytes, stored: Object) -> Object:
        now = self._now()
        conditions = self._conditions(stored) if self._conditions else []
        return {
            "cells": [column.cell(stored, now) for column in self._columns],
            **({"conditions": conditions} if conditions else {}),
            "object": self._included_object(body, stored),
        }

    def _included_object(self, body: bytes, stored: Object) -> Any:
        if self._include == "None":
            return None
        if self._include == "Object":
            return orjson.Fragment(self._objects.item(body))
        return self._metadata.of(stored)


def _column_definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
