"""Writes the whole API as one OpenAPI 2.0 document, which most clients still read.

Each section adds its paths and the definitions that they refer to; the document has every definition once. It is an
iterator of entries, so that the caller can yield to other tasks in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from actors.names import Names
from gateway.describe.compressed import Member, Part
from gateway.describe.openapi.operations import Operation, Path
from gateway.describe.openapi.parameters import Parameter
from gateway.describe.openapi.schemas import Document, Schemas
from gateway.describe.openapi.sections import Section

UNAUTHORIZED: Final = {"description": "Unauthorized"}
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

Entry = tuple[str, str, Any]  # path of the parent ("" for the document), name, value
Encode = Callable[[str, str, Any], bytes]  # encodes an entry as a member of its parent


@dataclass(frozen=True, slots=True)
class Encoded:
    """The value of an entry that stands for several members, already encoded with their names."""

    members: bytes


def join_parts(info: Document, parts: Iterable[Part]) -> Iterator[Entry]:
    """The document from the parts of all sections."""
    yield "", "swagger", "2.0"
    yield "", "info", info
    definitions: dict[str, bytes] = {}
    for part in parts:
        paths, own = part.decompress()
        yield "paths", "", Encoded(paths)
        for name, definition in own.items():
            definitions.setdefault(name, definition)
    for definition in definitions.values():
        yield "definitions", "", Encoded(definition)
    for name, value in _SECURITY.items():
        yield "", name, value


class Version2Writer:
    """Writes the part of one section."""

    def __init__(self, names: Names, schemas: Schemas[bytes]) -> None:
        self._prefix = names.extension_prefix
        self._schemas = schemas

    def members(self, section: Section, encode: Encode) -> Iterator[Member]:
        for path in section.paths():
            yield "paths", path.path, encode("paths", path.path, self._path(path))
        for name, definition in self._schemas.definitions():
            yield "definitions", name, definition

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
            "produces": list(one.produces),
        }
        if one.consumes:
            written["consumes"] = list(one.consumes)
        parameters = [_parameter(parameter) for parameter in one.parameters]
        if one.body is not None:
            parameters.append(self._body(one))
            parameters.sort(key=lambda parameter: str(parameter["name"]))
        if parameters:
            written["parameters"] = parameters
        written["responses"] = {**self._responses(one), "401": UNAUTHORIZED}
        return written | extensions(self._prefix, one)

    def _body(self, one: Operation) -> Document:
        assert one.body is not None
        written: Document = {"name": "body", "in": "body", "schema": self._schemas.refer(one.body)}
        return {**written, "required": True} if one.body_required else written

    def _responses(self, one: Operation) -> Document:
        return {
            str(status): {
                "description": text,
                "schema": {"type": "string"} if struct is None else self._schemas.refer(struct),
            }
            for status, text, struct in one.responses
        }


def _parameter(one: Parameter) -> Document:
    written: Document = {
        "name": one.name,
        "in": one.place,
        "description": one.text,
        "type": one.type,
        "uniqueItems": True,
    }
    return {**written, "required": True} if one.place == "path" else written


def extensions(prefix: str, one: Operation) -> Document:
    """The extension keys of an operation, in both OpenAPI versions."""
    extended: Document = {}
    if one.action:
        extended[prefix + "action"] = one.action
    if one.kind is not None:
        extended[prefix + "group-version-kind"] = dict(
            zip(("group", "version", "kind"), one.kind, strict=True)
        )
    return extended
