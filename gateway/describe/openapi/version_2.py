"""The whole API as one document in OpenAPI 2.0, the form that most clients still read.

Each section adds its paths and the definitions they refer to; a definition that several sections refer to is in the
document once. Written piece by piece, so that whoever makes it can let others go on in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from actors.names import Names
from gateway.describe.openapi.operations import Operation, Path
from gateway.describe.openapi.packed import Member, Part
from gateway.describe.openapi.parameters import Parameter
from gateway.describe.openapi.schemas import Document, Schemas
from gateway.describe.openapi.sections import Section

UNAUTHORIZED: Final = {"description": "who asks is not known"}
_SECURITY: Final = {
    "securityDefinitions": {
        "BearerToken": {
            "description": "A bearer token.",
            "type": "apiKey",
            "name": "authorization",
            "in": "header",
        }
    },
    "security": [{"BearerToken": []}],
}

Piece = tuple[str, str, Any]  # where in the document ("" for its top), under which name, what
Encode = Callable[[str, str, Any], bytes]  # a piece to a member of the place it is in


@dataclass(frozen=True, slots=True)
class Encoded:
    """Stands in a piece for members that were encoded before, with their names."""

    members: bytes


def joined(info: Document, parts: Iterable[Part]) -> Iterator[Piece]:
    """The document of all parts."""
    yield "", "swagger", "2.0"
    yield "", "info", info
    definitions: dict[str, bytes] = {}
    for part in parts:
        paths, own = part.unpacked()
        yield "paths", "", Encoded(paths)
        for title, definition in own.items():
            definitions.setdefault(title, definition)
    for definition in definitions.values():
        yield "definitions", "", Encoded(definition)
    for name, value in _SECURITY.items():
        yield "", name, value


class VersionTwo:
    """One section of it."""

    def __init__(self, names: Names, schemas: Schemas[bytes]) -> None:
        self._prefix = names.extension_prefix
        self._schemas = schemas

    def members(self, section: Section, encode: Encode) -> Iterator[Member]:
        for path in section.paths():
            yield "paths", path.path, encode("paths", path.path, self._path(path))
        for title, definition in self._schemas.written():
            yield "definitions", title, definition

    def _path(self, path: Path) -> Document:
        written: Document = {one.method: self._operation(one) for one in path.operations}
        if path.parameters:
            written["parameters"] = [_parameter(one) for one in path.parameters]
        return written

    def _operation(self, one: Operation) -> Document:
        written: Document = {
            "description": one.text,
            "operationId": one.id,
            "tags": [one.tag],
            "schemes": ["https"],
            "produces": list(one.gives),
        }
        if one.takes:
            written["consumes"] = list(one.takes)
        said = [_parameter(parameter) for parameter in one.parameters]
        if one.body is not None:
            said.insert(0, self._body(one))
        if said:
            written["parameters"] = said
        written["responses"] = {**self._answers(one), "401": UNAUTHORIZED}
        if one.deprecated:
            written["deprecated"] = True
        return written | marks(self._prefix, one)

    def _body(self, one: Operation) -> Document:
        assert one.body is not None
        written: Document = {"name": "body", "in": "body", "schema": self._schemas.refer(one.body)}
        return {**written, "required": True} if one.body_needed else written

    def _answers(self, one: Operation) -> Document:
        return {
            str(status): {
                "description": text,
                "schema": {"type": "string"} if struct is None else self._schemas.refer(struct),
            }
            for status, text, struct in one.answers
        }


def _parameter(one: Parameter) -> Document:
    written: Document = {"name": one.name, "in": one.place, "description": one.text, "type": one.type}
    return {**written, "required": True} if one.place == "path" else written


def marks(prefix: str, one: Operation) -> Document:
    """What both editions say of an operation in words of this API's own."""
    said: Document = {}
    if one.action:
        said[prefix + "action"] = one.action
    if one.kind is not None:
        said[prefix + "group-version-kind"] = dict(zip(("group", "version", "kind"), one.kind, strict=True))
    return said
