"""OpenAPI documents of aggregated group versions, as their servers last sent them.

`gateway.aggregation.servers` downloads and stores them here; the OpenAPI handler adds them to its own. Of an OpenAPI
2.0 document only the paths of the group version are kept, with the definitions that they refer to.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.golang.json import unescaped
from rewound.gateway.describe.compressed import CompressedDocument, Member

_REFERENCE: Final = "#/definitions/"
_REFERENCES: Final = re.compile(rb'"\$ref":"#/definitions/([^"\\]+)"')
_PLAIN_OBJECT: Final = {"type": "object"}

Encode = Callable[[str, str, Any], bytes]


class RemoteSpec(msgspec.Struct, frozen=True):
    """The part of an OpenAPI 2.0 document that describes one group version: compressed JSON."""

    compressed: bytes

    def load(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Paths and definitions."""
        document = orjson.loads(zlib.decompress(self.compressed))
        return document["paths"], document["definitions"]


class RemoteDescriptions:
    """The documents by section: apis/<group>/<version>."""

    def __init__(self) -> None:
        self.documents: dict[str, CompressedDocument] = {}  # OpenAPI 3.0
        self.specs: dict[str, RemoteSpec] = {}  # OpenAPI 2.0
        self.remote: frozenset[str] = frozenset()  # sections that other servers serve, described or not
        self.changes = 0

    def put_document(self, section: str, document: CompressedDocument) -> None:
        self.documents[section] = document
        self.changes += 1

    def put_spec(self, section: str, spec: RemoteSpec) -> None:
        self.specs[section] = spec
        self.changes += 1

    def keep_only(self, sections: Iterable[str]) -> None:
        """Forget the group versions that no other server serves any more."""
        remote = frozenset(sections)
        if remote != self.remote:
            self.remote = remote
            self.documents = {name: one for name, one in self.documents.items() if name in remote}
            self.specs = {name: one for name, one in self.specs.items() if name in remote}
            self.changes += 1


def spec_of(body: bytes, section: str) -> RemoteSpec:
    """The part of an OpenAPI 2.0 document for one group version. Raises ValueError if it is not such a document."""
    document = orjson.loads(body)
    paths, definitions = document.get("paths"), document.get("definitions") or {}
    if not isinstance(paths, dict) or not isinstance(definitions, dict):
        raise ValueError("it is not an OpenAPI 2.0 document")
    prefix = f"/{section}/"
    own = {path: one for path, one in paths.items() if path.startswith(prefix) or f"{path}/" == prefix}
    needed: dict[str, Any] = {}
    waiting = _referenced(unescaped(own))
    while waiting:
        name = waiting.pop()
        if name not in needed and name in definitions:
            needed[name] = definitions[name]
            waiting |= _referenced(unescaped(definitions[name])) - needed.keys()
    kept = {name: needed[name] for name in definitions if name in needed}
    return RemoteSpec(zlib.compress(unescaped({"paths": own, "definitions": kept})))


def _referenced(encoded: bytes) -> set[str]:
    return {name.decode() for name in _REFERENCES.findall(encoded)}


def remote_members(spec: RemoteSpec, encode: Encode, known: Mapping[str, bytes]) -> Iterator[Member]:
    """The members of a group version. A definition that others have with different content gets another name.

    `known` has all encoded definitions of the document so far.
    """
    paths, definitions = spec.load()
    encoded = {name: _encoded(encode, "definitions", name, one) for name, one in definitions.items()}
    renamed = {
        name: _free_name(name, known) for name, one in encoded.items() if name in known and known[name] != one
    }
    for path, item in paths.items():
        try:
            yield "paths", path, encode("paths", path, _renaming(item, renamed))
        except (KeyError, TypeError, AttributeError):
            continue  # it contains something that the encoding cannot express
    for name, one in definitions.items():
        shown = renamed.get(name, name)
        yield "definitions", shown, _encoded(encode, "definitions", shown, _renaming(one, renamed))


def _encoded(encode: Encode, parent: str, name: str, value: Any) -> bytes:
    try:
        return encode(parent, name, value)
    except (KeyError, TypeError, AttributeError):
        return encode(parent, name, _PLAIN_OBJECT)  # other definitions refer to it


def _free_name(name: str, known: Mapping[str, bytes]) -> str:
    number = 2
    while f"{name}_v{number}" in known:
        number += 1
    return f"{name}_v{number}"


def _renaming(value: Any, renamed: Mapping[str, str]) -> Any:
    """The value with references to the new names."""
    if not renamed:
        return value
    if isinstance(value, list):
        return [_renaming(one, renamed) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _renaming(one, renamed) for key, one in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REFERENCE):
        name = reference.removeprefix(_REFERENCE)
        found["$ref"] = _REFERENCE + renamed.get(name, name)
    return found
