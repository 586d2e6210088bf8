"""Writes the API in the two layouts of OpenAPI: all of it as one 2.0 document, which most clients still read, and a
section, such as a group version, as a 3.0 document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.names import Names
from rewound.gateway.describe.compressed import Member, Part
from rewound.gateway.describe.openapi.operations import Operation, Path
from rewound.gateway.describe.openapi.parameters import Parameter
from rewound.gateway.describe.openapi.schemas import Document, Schemas
from rewound.gateway.describe.openapi.sections import Section

UNAUTHORIZED: Final = {"description": "Unauthorized"}
_SECURITY_2: Final = {
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
    """The value of an entry that represents several members, already encoded with their names."""

    members: bytes


def join_parts(info: Document, parts: Iterable[Part]) -> Iterator[Entry]:
    """The document, joined from the parts of all sections."""
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
    for name, value in _SECURITY_2.items():
        yield "", name, value


class Version2Writer:
    """Writes one section's part of the OpenAPI 2.0 document: its paths and the definitions that they refer to.

    The document has every definition once. The entries are an iterator, so that the caller can yield to other tasks
    in between.
    """

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
            written["parameters"] = [_parameter_2(one) for one in path.parameters]
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
        parameters = [_parameter_2(parameter) for parameter in one.parameters]
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


def _parameter_2(one: Parameter) -> Document:
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


TITLE: Final = "Rewound"
_SECURITY_3: Final = {
    "BearerToken": {
        "type": "apiKey",
        "description": "A bearer token.",
        "name": "authorization",
        "in": "header",
    }
}


def document_info(version: str) -> Document:
    return {"title": TITLE, "version": version}


def head(info: Document) -> Iterator[Entry]:
    """What comes before the paths."""
    yield "", "openapi", "3.0.0"
    yield "", "info", info


def tail() -> Iterator[Entry]:
    """What comes after the definitions."""
    yield "components", "securitySchemes", _SECURITY_3


class Version3Writer:
    def __init__(self, names: Names, schemas: Schemas[Any], info: Document) -> None:
        self._prefix = names.extension_prefix
        self._schemas = schemas
        self._info = info
        self._encoded_parameters: dict[tuple[Parameter, ...], orjson.Fragment] = {}

    def entries(self, section: Section) -> Iterator[Entry]:
        yield from head(self._info)
        for path in section.paths():
            yield "paths", path.path, self.path(path)
        for name, definition in self._schemas.definitions():
            yield "components/schemas", name, definition
        yield from tail()

    def path(self, path: Path) -> Document:
        written: Document = {one.method: self._operation(one) for one in path.operations}
        if path.parameters:
            written["parameters"] = self._parameters(path.parameters)
        return written

    def _operation(self, one: Operation) -> Document:
        written: Document = {"description": one.text, "operationId": one.id, "tags": [one.tag]}
        if one.parameters:
            written["parameters"] = self._parameters(one.parameters)
        if one.body is not None:
            schema = {"schema": self._schemas.refer(one.body)}
            written["requestBody"] = {"content": dict.fromkeys(one.consumes, schema)}
        written["responses"] = {**self._responses(one), "401": UNAUTHORIZED}
        return written | extensions(self._prefix, one)

    def _parameters(self, parameters: tuple[Parameter, ...]) -> orjson.Fragment:
        """The parameters of an operation, cached for a document: most operations have one of a few lists."""
        known = self._encoded_parameters.get(parameters)
        if known is None:
            known = orjson.Fragment(dumps([_parameter_3(one) for one in parameters]))
            self._encoded_parameters[parameters] = known
        return known

    def _responses(self, one: Operation) -> Document:
        return {
            str(status): {"description": text, "content": self._content(one, struct)}
            for status, text, struct in one.responses
        }

    def _content(self, one: Operation, struct: Any) -> Document:
        schema = {"type": "string"} if struct is None else self._schemas.refer(struct)
        return {media: {"schema": schema} for media in one.produces}


def _parameter_3(one: Parameter) -> Document:
    written: Document = {"name": one.name, "in": one.place, "description": one.text}
    if one.place == "path":
        written["required"] = True
    return {**written, "schema": {"type": one.type, "uniqueItems": True}}


def json_member(_: str, name: str, value: Any) -> bytes:
    return dumps(name) + b":" + dumps(value)


def as_json(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Encode entries as JSON. Those of one parent must follow each other: it is opened and closed once."""
    opened: list[str] = []
    comma = b"{"
    for path, name, value in entries:
        parents = path.split("/") if path else []
        while opened != parents[: len(opened)]:
            opened.pop()
            yield b"}"
            comma = b","
        for part in parents[len(opened) :]:
            opened.append(part)
            yield comma + dumps(part) + b":"
            comma = b"{"
        yield comma + (value.members if isinstance(value, Encoded) else json_member(path, name, value))
        comma = b","
    yield b"}" * (len(opened) + 1)
