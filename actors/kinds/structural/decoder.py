"""Decodes documents of a custom resource: the same interface as the decoder of built-in kinds.

The order of the steps, and so of the problems that a client gets, is that of v1.25: duplicate fields, kind and
apiVersion (required here), metadata, unknown fields by name, the metadata of embedded objects. Decoded objects have no
kind and apiVersion; their fields are in the order of the document, with those that have defaults after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import orjson

from actors.errors import Cause, Invalid
from actors.kinds.declaration.meta import METADATA, OBJECT_META
from actors.kinds.schema.decoder import Decoded, NotDecodable, Schema, Unrecognized, clean
from actors.kinds.schema.exact_decoder import ExactDecoder, Problems
from actors.kinds.schema.fields import Struct
from actors.kinds.schema.json_tree import TOO_DEEP, Members, NotJson, plain
from actors.kinds.schema.pydantic_decoder import PydanticDecoder, is_postponed
from actors.kinds.structural.coercion import TYPE_META, Coerce, compile_coercion, unknown_fields
from actors.kinds.structural.documents import parse_document
from actors.kinds.structural.embedded import NotAnObject, sorted_members
from actors.kinds.structural.embedded import compile_coercion as compile_embedded
from actors.kinds.structural.node import Node
from actors.lazy_property import lazy_property
from actors.messages import Object
from actors.quoting import cut, quoted_start

_LONGEST_BODY: Final = 1024  # of the document in a message
_SUMMARY: Final = 30


@cache
def _metadata_decoder() -> PydanticDecoder:
    return PydanticDecoder(Struct("meta.v1.ObjectWithMeta", METADATA), "", "")


class CustomSchema(Schema):
    def __init__(self, root: Node, fields: Struct, api_version: str, kind: str) -> None:
        super().__init__(fields, api_version, kind)
        self._root = root
        self._embedded = compile_embedded(root, drop_invalid=False)

    @lazy_property
    def coerce(self) -> Coerce:
        return compile_coercion(self._root, defaults=True)

    @lazy_property
    def prune(self) -> Coerce:
        return compile_coercion(self._root, defaults=False)

    def decode_json(self, raw: bytes, *, defaults: bool = True, in_steps: bool = False) -> Decoded:
        try:
            document, problems = parse_document(raw, in_steps=in_steps)
        except NotJson as error:
            raise Unrecognized(f"couldn't get version/kind; json parse error: {error}") from None
        if (
            type(document) is not dict
            or document.get("kind") != self._kind
            or document.get("apiVersion") != self._api_version
        ):
            self.require_type(document, raw)
        return self._decoded(document, problems, self.coerce if defaults else self.prune)

    def decode_exactly(self, raw: bytes, *, defaults: bool = True) -> Decoded:
        return self.decode_json(raw, defaults=defaults, in_steps=True)

    def decode_object(
        self,
        value: object,
        problems: tuple[str, ...] = (),
        *,
        defaults: bool = True,
        in_steps: bool = False,
    ) -> Decoded:
        try:
            document = plain(value) if type(value) is Members else value
        except NotJson as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        self.check_type(document)
        assert isinstance(document, dict)
        return self._decoded(document, problems, self.coerce if defaults else self.prune)

    def require_type(self, document: Any, raw: bytes = b"") -> None:
        """kind and apiVersion must be in what clients send, other than for built-in kinds."""
        self.check_type(document)
        if not document.get("kind"):
            body = raw or orjson.dumps(document)
            text = body[: _LONGEST_BODY + 1].decode("utf-8", "replace")
            start = body[:_SUMMARY].decode("utf-8", "replace")
            summary = f"{start} ..." if len(body) > _SUMMARY else start
            raise NotDecodable(
                f"the object provided is unrecognized (must be of type {self._kind}): "
                f"Object 'Kind' is missing in '{cut(text, _LONGEST_BODY)}' ({summary})"
            )
        if not document.get("apiVersion"):
            raise NotDecodable(self._other_version(""))

    def check_type(self, document: Any) -> None:
        """apiVersion and kind, where they are present, must be the right ones."""
        if type(document) is not dict:
            super().check_type(document)
        kind, api_version = (
            document.get("kind") or self._kind,
            document.get("apiVersion") or self._api_version,
        )
        if kind == self._kind and api_version == self._api_version:
            return
        if type(kind) is not str or type(api_version) is not str:
            super().check_type(document)
        if api_version != self._api_version:
            raise NotDecodable(self._other_version(api_version))
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else ""
        cause = Cause(
            "FieldValueInvalid", f"Invalid value: {quoted_start(kind)}: must be {self._kind}", "kind"
        )
        group = self._api_version.rpartition("/")[0]
        raise Invalid(group, cut(kind), name if isinstance(name, str) else "", [cause])

    def _other_version(self, sent: str) -> str:
        return (
            f"the API version in the data ({cut(sent)}) does not match the expected API version "
            f"({self._api_version})"
        )

    def _decoded(self, document: Object, problems: tuple[str, ...], coerce: Coerce) -> Decoded:
        sent = {name: member for name, member in document.items() if name not in TYPE_META}
        try:
            found, more = self._metadata(document)
            dropped: list[str] = []
            found.update(coerce(sent, dropped))
            if dropped:
                more = (*more, *unknown_fields(self._root, sent))
            if self._embedded is not None:
                found, more = self._with_embedded(found, more)
        except RecursionError:
            raise NotDecodable(self._not_handled(TOO_DEEP)) from None
        if not more:
            return clean((found, problems))
        named = Problems(problems)
        for path in more:
            named.add(f'unknown field "{path}"')
        return Decoded(found, named.texts())

    def _metadata(self, document: Object) -> tuple[Object, tuple[str, ...]]:
        """The beginning of the object, and the unknown fields in its metadata."""
        if "metadata" not in document:
            return {}, ()
        sent = document["metadata"]
        if sent and not is_postponed():
            found = _metadata_decoder().from_object({"metadata": sent})
            if found is not None:
                return found, ()
        decoder = ExactDecoder(defaults=False)
        try:
            read = decoder.struct(OBJECT_META, {} if sent is None else sorted_members(sent), "metadata")
        except ValueError as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        return {"metadata": read}, tuple(one.removeprefix('unknown field "')[:-1] for one in decoder.problems)

    def _with_embedded(self, found: Object, more: tuple[str, ...]) -> tuple[Object, tuple[str, ...]]:
        assert self._embedded is not None
        unknown: list[str] = []
        try:
            coerced: Object = self._embedded(found, "", unknown)
        except NotAnObject as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        return coerced, (*more, *sorted(unknown))
