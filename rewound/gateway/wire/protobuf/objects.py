"""Encodes response documents in protobuf by their kind and apiVersion, and decodes request bodies of an expected
type.

Kinds are looked up in the registry's current catalog, and compiled when a client first asks for one. Responses are
created as JSON and converted here, because most clients ask for JSON, and the journal stores it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS, mended_document
from rewound.actors.kinds.registry import Registry
from rewound.actors.kinds.schema.fields import Struct
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.gateway.wire import meta_types
from rewound.gateway.wire.protobuf.reader import UnknownFieldNumbers, read_message
from rewound.gateway.wire.protobuf.wire_format import MalformedMessage, NotProtobuf, event, unwrap, wrap
from rewound.gateway.wire.protobuf.writer import MessageWriter, message_writer
from rewound.gateway.wire.worker_threads import encode_in_thread

# About a millisecond of conversion, which other requests can wait for.
_THREAD_THRESHOLD = 32 * 1024

CheckType = Callable[[Object], None]
TypeKey = tuple[str, str]  # apiVersion and kind


def _accept_any(_: Object) -> None:
    """A check that accepts any type, or none."""


class NoProtobufType(Exception):
    """The document's type has no protobuf message."""


class ProtobufEncoder:
    def __init__(self, registry: Registry, names: Names) -> None:
        self._registry = registry
        self._names = names
        self._cached_views: tuple[Catalog, dict[TypeKey, Struct]] | None = None

    async def from_json_in_thread(self, body: bytes) -> bytes | None:
        if len(body) <= _THREAD_THRESHOLD:
            return self.from_json(body)
        return await encode_in_thread(self.from_json, body)

    def from_json(self, body: bytes) -> bytes | None:
        """The same document in its envelope; None for a document without a kind, which every client gets as JSON."""
        document = load(body)
        if not isinstance(document, dict) or "kind" not in document:
            return None
        api_version, kind = document.get("apiVersion", ""), document["kind"]
        return wrap(api_version, kind, self.lenient_writer(api_version, kind)(document))

    def lenient_writer(self, api_version: str, kind: str) -> MessageWriter:
        """`writer`, which writes what it can of objects that do not have the form of their kind."""
        write = self.writer(api_version, kind)

        def written(document: Any) -> bytes:
            try:
                return write(document)
            except OF_MISFITS:
                return write(self._mended(api_version, kind, document))

        return written

    def _mended(self, api_version: str, kind: str, document: Object) -> Object:
        """The same document with what can be written of objects that do not have the form of their kind."""
        catalog = self._registry.current
        if (definition := catalog.of_kind(api_version, kind)) is not None:
            return mended_document(definition, "", "", document)
        definition = catalog.of_kind(api_version, kind.removesuffix("List"))
        if definition is None or not isinstance(document.get("items"), list):
            return document
        items = [mended_document(definition, "", "", one) for one in document["items"]]
        return {**document, "items": items}

    def size(self, body: bytes) -> int | None:
        """The size of the same document in its envelope; None if it has no protobuf representation."""
        try:
            encoded = self.from_json(body)
        except NoProtobufType:
            return None
        return None if encoded is None else len(encoded)

    def writer(self, api_version: str, kind: str) -> MessageWriter:
        """The writer of documents of a kind, without the envelope. Raises NoProtobufType if it has no message."""
        struct = self.struct_of(api_version, kind)
        if struct is None:
            raise NoProtobufType(
                f"{kind} in {api_version} has no protobuf representation and cannot be encoded to a protobuf "
                "message: ask for application/json"
            )
        return message_writer(struct)

    def event(self, type_: str, body: bytes) -> bytes:
        """A watch event; `body` is its object as JSON."""
        wrapped = self.from_json(body)
        assert wrapped is not None
        return event(type_, wrapped)

    def struct_of(self, api_version: str, kind: str) -> Struct | None:
        """The type of a meta document such as Status, of a kind, of its list, or of a view such as Scale."""
        if (api_version, kind) in self._meta_types:
            return self._meta_types[api_version, kind]
        catalog = self._registry.current
        if (definition := catalog.of_kind(api_version, kind)) is not None:
            return definition.fields
        listed = catalog.of_kind(api_version, kind.removesuffix("List")) if kind.endswith("List") else None
        return meta_types.list_of(listed.fields) if listed else self._views(catalog).get((api_version, kind))

    @cached_property
    def _meta_types(self) -> dict[TypeKey, Struct]:
        found = {
            ("v1", "Status"): meta_types.STATUS,
            ("", "APIVersions"): meta_types.API_VERSIONS,
            ("", "APIResourceList"): meta_types.API_RESOURCE_LIST,
            ("v1", "APIGroupList"): meta_types.API_GROUP_LIST,
            ("v1", "APIGroup"): meta_types.API_GROUP,
            ("v1", "APIResourceList"): meta_types.API_RESOURCE_LIST,
        }
        for version in ("v1", "v1beta1"):
            group_version = f"{self._names.group('meta')}/{version}"
            found[group_version, "PartialObjectMetadata"] = meta_types.PARTIAL_OBJECT_METADATA
            found[group_version, "PartialObjectMetadataList"] = meta_types.list_of(
                meta_types.PARTIAL_OBJECT_METADATA
            )
        return found

    def _views(self, catalog: Catalog) -> dict[TypeKey, Struct]:
        """The types of subresources that differ from their object's type; cached until the catalog changes."""
        cached = self._cached_views
        if cached is None or cached[0] is not catalog:
            subresources = (one for definition in catalog.definitions for one in definition.subresources)
            views = [one.view for one in subresources if one.view is not None]
            cached = catalog, {(view.api_version, view.kind): view.fields for view in reversed(views)}
            self._cached_views = cached
        return cached[1]


def load(body: bytes) -> Any:
    """Parse a document, or a part of one. Raises NoProtobufType if it is nested too deeply."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NoProtobufType("the answer is nested too deeply to be encoded to a protobuf message") from None


class Body(NamedTuple):
    """A decoded request body."""

    object: Object
    problems: tuple[str, ...] = ()  # one for each unknown field number


def read_object(struct: Struct, raw: bytes, check_type: CheckType = _accept_any) -> Body:
    """Decode the object in an envelope, which may be JSON, after checking the type that the envelope names."""
    envelope = unwrap(raw)
    type_: Object = {"apiVersion": envelope.api_version, "kind": envelope.kind}
    check_type(type_)
    media = envelope.content_type.partition(";")[0].strip().lower()
    if media == "application/json":
        return Body(type_ | _json_object(envelope.raw))
    if media and not media.endswith("protobuf"):
        accepted = "application/json, or none for protobuf"
        raise NotProtobuf(f"contentType of the envelope: Unsupported value: {quoted(media)}: {accepted}")
    unknown = UnknownFieldNumbers()
    try:
        return Body(type_ | read_message(struct, envelope.raw, unknown), unknown.problems())
    except MalformedMessage as error:
        raise NotProtobuf(f"the object cannot be read: {error}") from None


def _json_object(raw: bytes) -> Object:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise NotProtobuf(f"the object in the envelope is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise NotProtobuf("the object in the envelope is not a JSON object")
    return {name: member for name, member in value.items() if name not in ("apiVersion", "kind")}
