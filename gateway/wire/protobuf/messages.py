"""Which message an answer is, by the kind and apiVersion that its document says; and bodies, by what is expected.

Kinds are looked up in the registry's current catalog, and compiled when a client first asks for one. Documents are
made as JSON and converted here: nearly everybody asks for JSON, which comes ready from the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from actors.kinds.catalog import Catalog
from actors.kinds.registry import Registry
from actors.kinds.schema.fields import Struct
from actors.kinds.values.go_format import quoted
from actors.messages import Object
from actors.names import Names
from gateway.wire import answers
from gateway.wire.aside import tell_aside
from gateway.wire.protobuf.envelope import NotProtobuf, event, seal, unseal
from gateway.wire.protobuf.reader import UnknownNumbers, read_message
from gateway.wire.protobuf.walk import NotAMessage
from gateway.wire.protobuf.writer import message_of

# Bytes of JSON that are said again in a millisecond or so; more must not hold up other requests.
_OFF_LOOP = 32 * 1024


CheckType = Callable[[Object], None]
Named = tuple[str, str]  # apiVersion and kind


def _anything(_: Object) -> None:
    """For bodies that may say any type, or none."""


class UnknownMessage(Exception):
    """There is no protobuf message for a document."""


class Messages:
    def __init__(self, registry: Registry, names: Names) -> None:
        self._registry = registry
        self._names = names
        self._views_of: tuple[Catalog, dict[Named, Struct]] | None = None

    async def from_json_off_loop(self, body: bytes) -> bytes | None:
        if len(body) <= _OFF_LOOP:
            return self.from_json(body)
        return await tell_aside(self.from_json, body)

    def from_json(self, body: bytes) -> bytes | None:
        """The same document in its envelope; None for one that has no kind, and is JSON to everybody."""
        document = _load(body)
        if not isinstance(document, dict) or "kind" not in document:
            return None
        api_version, kind = document["apiVersion"], document["kind"]
        struct = self._struct(api_version, kind)
        if struct is None:
            raise UnknownMessage(
                f"{kind} in {api_version} has no protobuf representation and cannot be encoded to a protobuf "
                "message: ask for application/json"
            )
        return seal(api_version, kind, message_of(struct)(document))

    def event(self, type_: str, shown: bytes) -> bytes:
        """An event of a watch about an object that is shown as JSON."""
        sealed = self.from_json(shown)
        assert sealed is not None
        return event(type_, sealed)

    def _struct(self, api_version: str, kind: str) -> Struct | None:
        """Of an answer that has no kind of its own, of a kind, of its list, or of a view such as Scale."""
        if (api_version, kind) in self._answers:
            return self._answers[api_version, kind]
        catalog = self._registry.current
        if (definition := catalog.of_kind(api_version, kind)) is not None:
            return definition.fields
        listed = catalog.of_kind(api_version, kind.removesuffix("List")) if kind.endswith("List") else None
        return answers.list_of(listed.fields) if listed else self._views(catalog).get((api_version, kind))

    @cached_property
    def _answers(self) -> dict[Named, Struct]:
        found = {
            ("v1", "Status"): answers.STATUS,
            ("v1", "APIVersions"): answers.API_VERSIONS,
            ("v1", "APIGroupList"): answers.API_GROUP_LIST,
            ("v1", "APIGroup"): answers.API_GROUP,
            ("v1", "APIResourceList"): answers.API_RESOURCE_LIST,
        }
        for version in ("v1", "v1beta1"):
            home = f"{self._names.group('meta')}/{version}"
            found[home, "PartialObjectMetadata"] = answers.PARTIAL
            found[home, "PartialObjectMetadataList"] = answers.list_of(answers.PARTIAL)
        return found

    def _views(self, catalog: Catalog) -> dict[Named, Struct]:
        """What subresources show instead of their object; kept until the catalog changes."""
        known = self._views_of
        if known is None or known[0] is not catalog:
            subresources = (one for definition in catalog.definitions for one in definition.subresources)
            views = [one.view for one in subresources if one.view is not None]
            known = catalog, {(view.api_version, view.kind): view.fields for view in reversed(views)}
            self._views_of = known
        return known[1]


def _load(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UnknownMessage("the answer is nested too deeply to be encoded to a protobuf message") from None


class Body(NamedTuple):
    """The document that a body in an envelope stands for."""

    object: Object
    problems: tuple[str, ...] = ()  # field numbers that the type does not have


def read_object(struct: Struct, raw: bytes, check_type: CheckType = _anything) -> Body:
    """Checks the type in the envelope before it reads the rest, which may be in JSON."""
    opened = unseal(raw)
    type_: Object = {"apiVersion": opened.api_version, "kind": opened.kind}
    check_type(type_)
    media = opened.content_type.partition(";")[0].strip().lower()
    if media == "application/json":
        return Body(type_ | _json_in(opened.raw))
    if media and not media.endswith("protobuf"):
        accepted = "application/json, or none for protobuf"
        raise NotProtobuf(f"contentType of the envelope: Unsupported value: {quoted(media)}: {accepted}")
    unknown = UnknownNumbers()
    try:
        return Body(type_ | read_message(struct, opened.raw, unknown), unknown.problems())
    except NotAMessage as error:
        raise NotProtobuf(f"the object cannot be read: {error}") from None


def _json_in(raw: bytes) -> Object:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise NotProtobuf(f"the object in the envelope is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise NotProtobuf("the object in the envelope is not a JSON object")
    return {name: member for name, member in value.items() if name not in ("apiVersion", "kind")}
