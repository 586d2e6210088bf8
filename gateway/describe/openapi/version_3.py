"""Writes one section of the API, such as a group version, as an OpenAPI 3.0 document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from actors.go_json import dumps
from actors.names import Names
from gateway.describe.openapi.operations import Operation, Path
from gateway.describe.openapi.parameters import Parameter
from gateway.describe.openapi.schemas import Document, Schemas
from gateway.describe.openapi.sections import Section
from gateway.describe.openapi.version_2 import UNAUTHORIZED, Entry, extensions

TITLE: Final = "Rewound"
_SECURITY: Final = {
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
    """What stands before the paths."""
    yield "", "openapi", "3.0.0"
    yield "", "info", info


def tail() -> Iterator[Entry]:
    """What stands behind the definitions."""
    yield "components", "securitySchemes", _SECURITY


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
        """Encoded once a document, because most operations have one of a few lists of parameters."""
        known = self._encoded_parameters.get(parameters)
        if known is None:
            known = orjson.Fragment(dumps([_parameter(one) for one in parameters]))
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


def _parameter(one: Parameter) -> Document:
    written: Document = {"name": one.name, "in": one.place, "description": one.text}
    if one.place == "path":
        written["required"] = True
    return {**written, "schema": {"type": one.type, "uniqueItems": True}}
