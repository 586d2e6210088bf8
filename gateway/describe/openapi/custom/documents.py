"""Makes the OpenAPI 3.0 documents of group versions that have custom kinds only: a join of the kinds' fragments."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import trio

from actors.go_json import dumps
from actors.kinds.catalog import Catalog
from actors.kinds.custom.definition import CustomDefinition
from actors.kinds.schema.fields import CustomStruct, Struct
from actors.kinds.structural.openapi import published
from actors.large_work import LARGE_BYTES
from actors.names import Names
from actors.turns import Turn
from gateway.describe.compressed import collect_body
from gateway.describe.openapi.custom.fragments import (
    EncodedDefinition,
    Fragment,
    FragmentCache,
    definitions_in_order,
)
from gateway.describe.openapi.custom.templates import Templates, Written
from gateway.describe.openapi.json import as_json, json_member
from gateway.describe.openapi.kinds import Kinds
from gateway.describe.openapi.naming import Naming
from gateway.describe.openapi.operations import Path
from gateway.describe.openapi.schemas import VERSION_3, Document, References, Schemas
from gateway.describe.openapi.sections import Section
from gateway.describe.openapi.texts import Texts
from gateway.describe.openapi.version_2 import Encoded, Entry
from gateway.describe.openapi.version_3 import Version3Writer, document_info, head, tail
from gateway.wire import compression

_LEVEL: Final = 3  # of compression: twice as fast as the usual one, half as large again


class CustomDocument:
    """The document of a section. It is made from fragments for each client that wants it plain."""

    content_type: Final = b"application/json"

    def __init__(self, documents: CustomDocuments, section: Section, etag: str) -> None:
        self._documents, self._section = documents, section
        self.etag = etag
        self._compressed = b""

    async def content(self, *, gzip: bool) -> tuple[bytes, bool]:
        """The body, and whether it is compressed; a long one is, if `gzip` allows it."""
        if gzip and self._compressed:
            return self._compressed, True
        fragments = await self._documents.fragments(self._section)
        body = await collect_body(self._documents.version_3(fragments))
        if not gzip or len(body) <= compression.THRESHOLD:
            return body, False
        self._compressed = await trio.to_thread.run_sync(zlib.compress, body, _LEVEL, compression.GZIP)
        return self._compressed, True


class CustomDocuments:
    """Kept as long as the server runs: custom kinds refer to types of the server only, which do not change."""

    def __init__(self, built_in: Catalog, names: Names, verbs: frozenset[str], version: str) -> None:
        self._info, self._prefix = document_info(version), names.extension_prefix
        self._naming = Naming(names)
        self._writer = _Writer(names, Kinds(built_in, names))
        self._shared = self._writer.schemas(self._naming)  # types that all custom kinds use
        self._templates = Templates(names, verbs, self._writer)
        self._fragments = FragmentCache()
        # The texts of fields that every kind has do not depend on the kind.
        self._meta, self._meta_references = self._writer.meta(CustomStruct("", "", ""), self._naming)

    def can_describe(self, section: Section) -> bool:
        """Whether the section has custom kinds and no others."""
        definitions = section.definitions
        return bool(definitions) and all(isinstance(one, CustomDefinition) for one in definitions)

    async def document(self, section: Section) -> CustomDocument:
        return CustomDocument(self, section, self.etag(await self.fragments(section)))

    async def fragments(self, section: Section) -> list[Fragment]:
        """What the kinds of a section add to its document. Large ones are made in a worker thread."""
        found, turn = list[Fragment](), Turn()
        for one in section.definitions:
            assert isinstance(one, CustomDefinition)
            fragment = self._fragments.find(one)
            if fragment is None:
                fragment = await self._made(one)
                self._fragments.keep(one, fragment)
            found.append(fragment)
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()
        return found

    async def _made(self, definition: CustomDefinition) -> Fragment:
        if _is_large(definition):
            return await trio.to_thread.run_sync(self._make, definition)
        return self._make(definition)

    def _make(self, definition: CustomDefinition) -> Fragment:
        paths, list_type = self._templates.of(definition)
        names = self._templates.names_of(definition)
        written = published(definition.lazy.openapi(), self._meta, self._prefix, version_2=False)
        kind = {"group": definition.group, "version": definition.version, "kind": definition.kind}
        written[self._prefix + "group-version-kind"] = [kind]
        definitions = {
            names.kind: (_member(names.kind, written), self._meta_references),
            names.list: (list_type.fill(names), list_type.references(names)),
        }
        return Fragment(paths, names, definitions, len(definition.lazy.source.body))

    def version_3(self, fragments: list[Fragment]) -> Iterator[bytes]:
        return as_json(self._entries(fragments))

    def etag(self, fragments: list[Fragment]) -> str:
        """The ETag of the document: of everything that it is made of, with names in place of paths.

        That is a tenth of the document, which need not be made for it.
        """
        named = (part for one in fragments for part in (one.template.digest, *one.names.values))
        around = dumps([*head(self._info), *tail()])
        return _digest(around, *named, *self._definitions(fragments))

    def _entries(self, fragments: list[Fragment]) -> Iterator[Entry]:
        yield from head(self._info)
        for one in fragments:
            yield "paths", "", Encoded(one.paths)
        for definition in self._definitions(fragments):
            yield "components/schemas", "", Encoded(definition)
        yield from tail()

    def _definitions(self, fragments: list[Fragment]) -> Iterator[bytes]:
        references, own = References(), dict[str, EncodedDefinition]()
        for one in fragments:
            for name, type_ in one.template.references(one.names).items():
                references.setdefault(name, type_)
            own |= one.definitions
        return definitions_in_order(references, own, self._shared)


class _Writer:
    """Encodes paths and definitions as members of a document."""

    def __init__(self, names: Names, kinds: Kinds) -> None:
        self._names, self._kinds, self._texts = names, kinds, Texts()

    def schemas(self, naming: Naming) -> Schemas[bytes]:
        return Schemas(self._names, VERSION_3, self._kinds, naming, self._texts, _member, {})

    def paths(self, paths: Iterable[Path], naming: Naming) -> Written:
        schemas = self.schemas(naming)
        writer = Version3Writer(self._names, schemas, {})
        members = [json_member("paths", one.path, writer.path(one)) for one in paths]
        return b",".join(members), schemas.referred

    def definition(self, struct: Struct, naming: Naming) -> Written:
        return self.schemas(naming).encoded(naming.struct(struct), struct)

    def meta(self, struct: CustomStruct, naming: Naming) -> tuple[Document, References]:
        """The fields that every object has."""
        schemas = self.schemas(naming)
        return schemas.meta(struct), schemas.referred


def has_large_schemas(section: Section) -> bool:
    """Whether the event loop must not describe the kinds of a section."""
    return any(isinstance(one, CustomDefinition) and _is_large(one) for one in section.definitions)


def _is_large(definition: CustomDefinition) -> bool:
    return len(definition.lazy.source.body) > LARGE_BYTES


def _member(name: str, definition: Document) -> bytes:
    return json_member("components/schemas", name, definition)


def _digest(*parts: bytes) -> str:
    found = hashlib.blake2b(digest_size=32)  # twice as fast as SHA-256
    for one in parts:
        found.update(b"%d:" % len(one))
        found.update(one)
    return found.hexdigest().upper()
