"""The OpenAPI 3.0 documents of group versions that have only custom kinds.

A document is joined from fragments, each created once per version of a kind, from templates, each created once for
all kinds of the same shape.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.custom import CustomDefinition
from rewound.actors.kinds.declaration.definition import Definition, DiscoveryNames
from rewound.actors.kinds.schema.fields import CustomStruct, JsonValue, Struct
from rewound.actors.kinds.structural.openapi import published
from rewound.actors.names import Names
from rewound.actors.names import Names as Dialect
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.gateway.describe.compressed import collect_body
from rewound.gateway.describe.openapi.kinds import Kinds
from rewound.gateway.describe.openapi.naming import Exists, Naming
from rewound.gateway.describe.openapi.operations import Operations, Path
from rewound.gateway.describe.openapi.schemas import VERSION_3, Document, References, Schemas
from rewound.gateway.describe.openapi.sections import Section
from rewound.gateway.describe.openapi.texts import Texts
from rewound.gateway.describe.openapi.versions import (
    Encoded,
    Entry,
    Version3Writer,
    as_json,
    document_info,
    head,
    json_member,
    tail,
)
from rewound.gateway.wire import compression
from rewound.gateway.wire.meta_types import list_of

_LEVEL: Final = 3  # compression level: twice as fast as the usual one, half as large again


class CustomDocument:
    """The document of a section, joined from fragments for each client that wants it uncompressed."""

    content_type: Final = b"application/json"

    def __init__(self, documents: CustomDocuments, section: Section, etag: str) -> None:
        self._documents, self._section = documents, section
        self.etag = etag
        self._compressed = b""

    async def content(self, *, gzip: bool) -> tuple[bytes, bool]:
        """The body, and whether it is compressed: a long one is, if `gzip` allows it."""
        if gzip and self._compressed:
            return self._compressed, True
        fragments = await self._documents.fragments(self._section)
        body = await collect_body(self._documents.version_3(fragments))
        if not gzip or len(body) <= compression.THRESHOLD:
            return body, False
        self._compressed = await trio.to_thread.run_sync(zlib.compress, body, _LEVEL, compression.GZIP)
        return self._compressed, True


class CustomDocuments:
    """Cached as long as the server runs: custom kinds refer only to types of the server, which do not change."""

    def __init__(self, built_in: Catalog, names: Names, verbs: frozenset[str], version: str) -> None:
        self._info, self._prefix = document_info(version), names.extension_prefix
        self._naming = Naming(names, built_in.exists)
        self._writer = _Writer(names, Kinds(built_in, names))
        self._shared = self._writer.schemas(self._naming)  # types that all custom kinds use
        self._templates = Templates(names, verbs, self._writer, built_in.exists)
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
        """The parts of a section's document, one per kind. Large ones are created in a worker thread."""
        found, turn = list[Fragment](), Turn()
        for one in section.definitions:
            assert isinstance(one, CustomDefinition)
            fragment = self._fragments.find(one)
            if fragment is None:
                fragment = await self._made(one)
                self._fragments.keep(one, fragment)
            found.append(fragment)
            if turn.over():
                await next_turn()
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
        """The ETag of the document: a hash of everything that it is created from, with names in place of paths.

        That is a tenth of the document, which need not be created for it.
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
    """Whether the kinds of a section are too large to be described in the event loop."""
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


CACHED_BYTES: Final = 8 << 20

EncodedDefinition = tuple[bytes, References]  # with its name, and what it refers to


@dataclass(frozen=True, slots=True)
class Fragment:
    template: Template  # for the paths
    names: TemplateNames
    definitions: Mapping[str, EncodedDefinition]  # of the kind and of its list
    source_size: int  # bytes of the CustomResourceDefinition, which a cached fragment keeps alive

    @property
    def paths(self) -> bytes:
        """Members of "paths"."""
        return self.template.fill(self.names)

    @property
    def size(self) -> int:
        return self.source_size + sum(len(one) for one, _ in self.definitions.values())


class FragmentCache:
    """An LRU cache of fragments: the encoded part of a group version's document for one version of a custom kind.

    When one kind changes, only its own fragment is created again. The cache is limited by memory: a server may have
    thousands of custom kinds, and clients read few of their documents.
    """

    def __init__(self, cached_bytes: int = CACHED_BYTES) -> None:
        self._most = cached_bytes
        self._cached: OrderedDict[CustomDefinition, Fragment] = OrderedDict()
        self._size = 0

    def find(self, definition: CustomDefinition) -> Fragment | None:
        found = self._cached.get(definition)
        if found is not None:
            self._cached.move_to_end(definition)
        return found

    def keep(self, definition: CustomDefinition, fragment: Fragment) -> Fragment:
        self._size += fragment.size
        if definition in self._cached:
            self._size -= self._cached.pop(definition).size
        self._cached[definition] = fragment
        while self._size > self._most and len(self._cached) > 1:
            self._size -= self._cached.popitem(last=False)[1].size
        return fragment


def definitions_in_order(
    references: References, own: Mapping[str, EncodedDefinition], schemas: Schemas[bytes]
) -> Iterator[bytes]:
    """Every definition that a document needs: those in `references`, those that these refer to, and so on.

    `own` are the definitions of custom kinds; `schemas` encodes all others.
    """
    found = dict(references)
    done: set[str] = set()
    while pending := [name for name in found if name not in done]:
        for name in pending:
            done.add(name)
            encoded, more = own[name] if name in own else schemas.encoded(name, found[name])
            yield encoded
            for referred, type_ in more.items():
                found.setdefault(referred, type_)


# Characters of Unicode's private use area are placeholders for names: three bytes each, and never escaped in JSON.
_MARKS: Final = [chr(0xE000 + number) for number in range(8)]
_GROUP, _VERSION, _PLURAL, _KIND, _LIST_KIND, _DOMAIN, _TAG, _INFIX = _MARKS
_ANY_MARK: Final = re.compile(b"(" + b"|".join(mark.encode() for mark in _MARKS) + b")")

Shape = tuple[object, ...]
Written = tuple[bytes, References]  # and the types that it refers to


class Writer(Protocol):
    def paths(self, paths: Iterable[Path], naming: Naming) -> Written: ...

    def definition(self, struct: Struct, naming: Naming) -> Written: ...


class _MarkedNaming(Naming):
    """Names in which the group is a placeholder too."""

    def struct(self, struct: Struct | JsonValue) -> str:
        if isinstance(struct, CustomStruct):
            return f"{_DOMAIN}.{_VERSION}.{struct.kind}"
        return super().struct(struct)

    def tag(self, group: str, version: str = "") -> str:
        return _TAG

    def infix(self, group: str, version: str = "") -> str:
        return _INFIX


@dataclass(frozen=True, slots=True)
class TemplateNames:
    """The names of a kind in documents."""

    kind: str  # name of its definition
    list: str  # name of the definition of its list type
    values: tuple[bytes, ...]  # values of the placeholders


@dataclass(frozen=True, slots=True)
class Template:
    pieces: tuple[bytes, ...]  # the text split at placeholders; every second part is one
    marks: tuple[int, ...]  # which placeholders it has
    digest: bytes
    referred: References

    @classmethod
    def of(cls, written: Written) -> Template:
        encoded, references = written
        pieces = _ANY_MARK.split(encoded)
        marks = tuple(_MARKS.index(one.decode()) for one in pieces[1::2])
        return cls(tuple(pieces), marks, hashlib.sha256(encoded).digest(), references)

    def fill(self, names: TemplateNames) -> bytes:
        """The text for a kind."""
        parts, values = list(self.pieces), names.values
        parts[1::2] = [values[mark] for mark in self.marks]
        return b"".join(parts)

    def references(self, names: TemplateNames) -> References:
        """The types that the text of a kind refers to; its own types are placeholders of the template."""
        return {
            _own_name(type_, names) if isinstance(type_, CustomStruct) else name: type_
            for name, type_ in self.referred.items()
        }


def _own_name(marked: CustomStruct, names: TemplateNames) -> str:
    return names.kind if marked.kind == _KIND else names.list


class Templates:
    """The paths and the list types of custom kinds, encoded once for all kinds of the same shape.

    The paths of two custom kinds with the same scope and subresources differ only in names. So the ordinary writer
    writes the paths of a kind whose names are placeholders, single characters that no document contains, and a kind's
    own paths are this text with its names filled in. Their list types differ only in names too.
    """

    def __init__(self, names: Dialect, verbs: frozenset[str], writer: Writer, exists: Exists) -> None:
        """`verbs` are those that the server serves."""
        self._naming, self._marked = Naming(names, exists), _MarkedNaming(names, exists)
        self._verbs = verbs
        self._writer = writer
        self._templates: dict[Shape, tuple[Template, Template]] = {}

    def of(self, definition: CustomDefinition) -> tuple[Template, Template]:
        """The templates for the paths and for the list type of a kind."""
        shape = (
            definition.verbs,
            definition.namespaced,
            tuple(one.name for one in definition.subresources),
            _has_usual_list_kind(definition),
        )
        found = self._templates.get(shape)
        if found is None:
            found = self._templates[shape] = self._make(definition)
        return found

    def _make(self, definition: CustomDefinition) -> tuple[Template, Template]:
        marked, naming = _marked(definition), self._marked
        paths = self._writer.paths(Operations(marked, self._verbs, naming).paths(), naming)
        list_type = self._writer.definition(list_of(marked.fields), naming)
        return Template.of(paths), Template.of(list_type)

    def names_of(self, definition: CustomDefinition) -> TemplateNames:
        group, version = definition.group, definition.version
        kind, list_kind = definition.kind, definition.list_kind
        domain = ".".join(reversed(group.split(".")))
        tag, infix = self._naming.tag(group, version), self._naming.infix(group, version)
        values = group, version, definition.plural, kind, list_kind, domain, tag, infix
        return TemplateNames(
            f"{domain}.{version}.{kind}",
            f"{domain}.{version}.{list_kind}",
            tuple(dumps(one)[1:-1] for one in values),
        )


def _has_usual_list_kind(definition: Definition) -> bool:
    """Whether the list kind ends in List: the text that describes a list depends on that."""
    return definition.list_kind == f"{definition.kind}List"


def _marked(definition: CustomDefinition) -> Definition:
    """A definition of the same shape, with placeholders for names."""
    list_kind = f"{_KIND}List" if _has_usual_list_kind(definition) else _LIST_KIND
    return Definition(
        group=_GROUP,
        version=_VERSION,
        kind=_KIND,
        plural=_PLURAL,
        names=DiscoveryNames(list_kind=list_kind),
        namespaced=definition.namespaced,
        check_name=definition.check_name,
        fields=CustomStruct(_GROUP, _VERSION, _KIND, list_kind=list_kind, make_schema=dict),
        verbs=definition.verbs,
        strategic_merge_patch=definition.strategic_merge_patch,
        subresources=definition.subresources,
        deletion=definition.deletion,
    )
