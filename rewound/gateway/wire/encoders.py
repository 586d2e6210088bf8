"""Encoders from stored objects to JSON documents: plain objects, PartialObjectMetadata, and Tables.

Each encoder is for one definition and turns stored bytes into an object inside another document (`item`), an object
as a whole response (`document`), or a list (`listing`). `list_layouts` writes long lists from their elements.

`ObjectEncoder` puts kind and apiVersion in front of the stored bytes. It is created once per definition, because
every get and list uses it, and parses an object only to convert it from its storage version to the requested one. The
other two parse every object. Objects that a webhook must convert are converted before they get here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

import orjson

from rewound.actors.errors import BadRequest
from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.columns import Column, cells_of
from rewound.actors.kinds.declaration.definition import Definition, Versions
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS, mended
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import (
    api_version_of,
    decode,
    kind_prefix,
    type_prefix,
    version_head,
    version_of,
    with_api_version,
)
from rewound.actors.store.reads import Listing
from rewound.gateway.wire.json import dump_line
from rewound.gateway.wire.list_layouts import Element, JsonLayout, ListType

T = TypeVar("T")

LARGE = 64 * 1024  # bytes: about a millisecond of parsing and encoding
INCLUDE_OBJECT_VALUES = ("", "Metadata", "Object", "None")


class ObjectEncoder:
    """Objects with all their fields."""

    __slots__ = (
        "_convert",
        "_is_custom",
        "_list_head",
        "_prefix",
        "in_thread",
        "list_type",
    )

    def __init__(self, definition: Definition) -> None:
        self.list_type = ListType(
            definition.list_kind, definition.api_version, shows_continue=definition.is_custom
        )
        # Stored objects of custom kinds have an apiVersion, and so do items of their lists.
        self._is_custom = definition.is_custom
        prefix = type_prefix(definition.kind, definition.api_version)
        self._prefix = kind_prefix(definition.kind) if self._is_custom else prefix
        self._list_head = type_prefix(definition.list_kind, definition.api_version)
        # Larger stored objects are converted and encoded in a worker thread.
        self.in_thread = 0 if definition.has_large_defaults else LARGE
        conversion, versions = definition.storage.conversion, definition.storage.versions
        self._convert: Element | None = None
        if versions is not None:
            self._convert = VersionEncoder(versions, definition.api_version).converted
        elif conversion is not None:
            self._convert = ConversionEncoder(definition, conversion.from_storage).converted

    @property
    def element(self) -> Element | None:
        """Converts a stored object to an element of a list; None if they are the same."""
        return self.item if self._is_custom else self._convert

    @property
    def stored_prefix(self) -> bytes | None:
        """The bytes that replace the first byte of a stored object; None if objects are converted."""
        return self._prefix if self._convert is None else None

    def item(self, body: bytes) -> bytes:
        """An object inside another document, such as a watch event."""
        return self._prefix + self.converted(body)[1:]

    def document(self, body: bytes) -> bytes:
        """An object as a whole response, with a newline at the end."""
        if self._convert is not None:
            body = self._convert(body)
        return b"".join((self._prefix, body[1:], b"\n"))

    def listing(self, listing: Listing) -> bytes:
        bodies = listing.bodies
        head = (
            self._list_head
            + b'"metadata":'
            + dumps(self.list_type.metadata(list_metadata(listing)))
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
        return body if self._convert is None else self._convert(body)


class ConversionEncoder:
    """Objects of a built-in kind in another version than the stored one, or in another form, such as a Scale."""

    __slots__ = ("_definition", "_from_storage")

    def __init__(self, definition: Definition, from_storage: Callable[[Object], Object]) -> None:
        self._definition, self._from_storage = definition, from_storage

    def converted(self, body: bytes) -> bytes:
        return readable(self._definition, body, lambda stored: dumps(self._from_storage(stored)))


def readable(definition: Definition, body: bytes, read: Callable[[Object], T]) -> T:
    """What `read` makes of a stored object, or of what it can read of one that does not have the form of its kind."""
    with suppress(*OF_MISFITS):
        return read(decode(body))
    try:
        return read(mended(definition, "", "", body))
    except OF_MISFITS:
        return read(mended(definition, "", "", body, empty=True))


class VersionEncoder:
    """Objects of a custom kind in one of its versions."""

    __slots__ = ("_head", "_version", "_versions")

    def __init__(self, versions: Versions, version: str) -> None:
        self._versions, self._version = versions, version
        self._head = version_head(version)

    def converted(self, body: bytes) -> bytes:
        """A stored object in this version. Raises ConversionNeeded if a webhook must convert it."""
        versions, version = self._versions, self._version
        here = body.startswith(self._head)
        if here and (versions.webhook is not None or versions.is_current(version, version_of(body))):
            return body
        stored_in = version if here else api_version_of(body) or versions.storage
        is_current = versions.is_current(stored_in, version_of(body))
        if is_current and versions.webhook is None and versions.same_schema(stored_in, version):
            return with_api_version(body, version)
        stored = decode(body)
        stored.pop("apiVersion", None)
        if not is_current:
            stored = versions.upgrade(stored, stored_in)
        return dumps({"apiVersion": version, **versions.convert(stored, stored_in, version)})


def object_encoder(definition: Definition) -> ObjectEncoder:
    """The encoder of a definition, cached by the definition, because custom kinds come and go."""
    kept: ObjectEncoder | None = definition.__dict__.get(_ENCODER)
    if kept is None:
        kept = definition.__dict__[_ENCODER] = ObjectEncoder(definition)
    return kept


_ENCODER = "object encoder"


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

    in_thread = LARGE

    def __init__(self, definition: Definition, names: Names, version: str) -> None:
        self._definition = definition
        self._type = {"kind": "PartialObjectMetadata", "apiVersion": f"{names.group('meta')}/{version}"}
        self.list_type = ListType("PartialObjectMetadataList", self._type["apiVersion"])
        self._empty_is_null = definition.rules.empty_metadata_list == "null"
        self._hidden = definition.storage.field_annotations
        conversion = definition.storage.conversion
        self._view = conversion.from_storage if conversion and definition.is_view else None

    def of(self, stored: Object) -> Object:
        metadata = (stored if self._view is None else self._view(stored))["metadata"]
        if self._hidden and not metadata.get("annotations", {}).keys().isdisjoint(self._hidden):
            metadata = self._without_hidden(metadata)
        return {**self._type, "metadata": metadata}

    def _without_hidden(self, metadata: Object) -> Object:
        """The object without the annotations in which storage keeps fields of other versions."""
        annotations = {
            key: value for key, value in metadata["annotations"].items() if key not in self._hidden
        }
        return {
            key: annotations if key == "annotations" else value
            for key, value in metadata.items()
            if annotations or key != "annotations"
        }

    def item(self, body: bytes) -> bytes:
        return readable(self._definition, body, lambda stored: dumps(self.of(stored)))

    def document(self, body: bytes) -> bytes:
        return readable(self._definition, body, lambda stored: dump_line(self.of(stored)))

    element = item

    def listing(self, listing: Listing) -> bytes:
        if not listing.bodies and self._empty_is_null:
            return dump_line({**self.list_type.before(list_metadata(listing)), "items": None})
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
        self._definition = definition
        self._columns = definition.table.columns
        self._conditions = definition.table.row_conditions
        self._type = {"kind": "Table", "apiVersion": f"{names.group('meta')}/{version}"}
        self._objects = object_encoder(definition)
        self.in_thread = self._objects.in_thread
        # The cells of a custom kind show what clients get: the object in their version, with its kind.
        self._custom_kind = definition.kind if definition.is_custom else None
        self._metadata = PartialMetadataEncoder(definition, names, version)
        self._include = include
        self._now = now

    def item(self, body: bytes, *, columns: bool = True, metadata: bool = False) -> bytes:
        """`metadata`: with the metadata of the object, also if the client asked for no objects."""

        def read(stored: Object) -> bytes:
            table = self._one_row(body, stored, columns)
            if metadata and self._include == "None":
                table["rows"][0]["object"] = self._metadata.of(stored)
            return dumps(table)

        return self._readable(body, read)

    def document(self, body: bytes) -> bytes:
        return self._readable(body, lambda stored: dump_line(self._one_row(body, stored, True)))

    @cached_property
    def list_type(self) -> ListType:
        definitions = {"columnDefinitions": self._definitions()}
        return ListType("Table", self._type["apiVersion"], "rows", definitions)

    def element(self, body: bytes) -> bytes:
        return self._readable(body, lambda stored: dumps(self._row(body, stored)))

    def _readable(self, body: bytes, read: Callable[[Object], T]) -> T:
        kind = self._custom_kind
        if kind is None:
            return readable(self._definition, body, read)
        converted = self._objects.converted(body)
        return readable(self._definition, converted, lambda stored: read({**stored, "kind": kind}))

    def listing(self, listing: Listing) -> bytes:
        return _listing(self.list_type, listing, self.element)

    def _one_row(self, body: bytes, stored: Object, columns: bool) -> Object:
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
            "cells": cells_of(self._columns, stored, now),
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
