"""Serves /openapi/v2 and /openapi/v3: chooses document and media type, and responds 304 to a matching ETag.

Every OpenAPI 3.0 document has one ETag, that of its JSON form; the protobuf form is created from it when a client
wants it. The index of these documents is JSON, whatever a client accepts.

The first request for a document creates it; other requests for it wait. If that request is cancelled, the next one
creates the document. It is cached until its kinds change. In OpenAPI 3.0 each group version has a document, in
OpenAPI 2.0 a part of the only document: when a kind is added or removed, only those of its group version are created
again. The modules that create documents are imported on first use.

Documents of custom kinds are joined from fragments when a client asks for them: the index, which has the ETags of all
documents, creates none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import orjson
import trio

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import Names
from rewound.actors.runtime.background_import import imported
from rewound.gateway.describe.compressed import (
    CompressedDocument,
    Part,
    collect_in_slices,
    compress_document,
    compressed,
    matches,
    quoted,
)
from rewound.gateway.describe.remote import RemoteDescriptions
from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import NoSuchPath
from rewound.gateway.wire import compression
from rewound.gateway.wire.http_date import http_date
from rewound.gateway.wire.negotiate import NotAcceptable, parse_accept
from rewound.release import served_version

if TYPE_CHECKING:
    from rewound.gateway.describe.openapi.custom import CustomDocument, CustomDocuments
    from rewound.gateway.describe.openapi.documents import Documents
    from rewound.gateway.describe.openapi.sections import Section

T = TypeVar("T")
_Document: TypeAlias = "CompressedDocument | CustomDocument"

JSON: Final = "application/json"
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The type that clients ask for. No response has it: an @ is not valid in a media type, and Go's clients refuse it.
OLD_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF_3: Final = PROTOBUF.replace("v2", "v3")
OLD_PROTOBUF_3: Final = OLD_PROTOBUF.replace("v2", "v3")
YEAR: Final = 365 * 24 * 3600

# The inputs of the documents: own kinds, and the number of changes of other servers.
_State = tuple[Catalog, int]


class SectionCache(Generic[T]):
    """Values created from sections; a value is valid as long as its section has the same definitions."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[tuple[Definition, ...], T]] = {}

    def find(self, section: Section) -> T | None:
        definitions, value = self._values.get(section.name, (None, None))
        return value if definitions == section.definitions else None

    def store(self, section: Section, value: T) -> T:
        self._values[section.name] = section.definitions, value
        return value

    def drop_others(self, sections: Iterable[Section]) -> None:
        """Drop the values of all other sections, which no longer exist."""
        self._values = {one.name: self._values[one.name] for one in sections}


class OpenApi:
    def __init__(
        self,
        registry: Registry,
        names: Names,
        verbs: frozenset[str],
        remote: RemoteDescriptions | None = None,
        *,
        kubernetes: str,
        describes_issuer: bool = True,
        describes_history: bool = True,
        cbor: bool = False,
    ) -> None:
        """`remote` has the documents of other servers, `kubernetes` is the patch release that the documents name.

        `describes_issuer`: the server serves the documents about the issuer of service account tokens.
        `describes_history`: it serves the group rewound.cluster.io. `cbor`: it serves objects in CBOR.
        """
        self._registry = registry
        self._names = names
        self._verbs = verbs
        self._version = served_version(kubernetes)
        self._describes_issuer = describes_issuer
        self._describes_history = describes_history
        self._cbor = cbor
        self._remote = remote or RemoteDescriptions()
        self._lock = trio.Lock()
        self._cached_sections: tuple[_State, dict[str, Section]] | None = None
        self._parts: dict[str, SectionCache[Part]] = {JSON: SectionCache(), PROTOBUF: SectionCache()}
        self._whole: dict[str, tuple[_State, CompressedDocument]] = {}  # OpenAPI 2.0, by media type
        self._documents: SectionCache[_Document] = SectionCache()  # OpenAPI 3.0
        self._protobuf: dict[str, CompressedDocument] = {}  # OpenAPI 3.0, by section
        self._index: tuple[_State, CompressedDocument] | None = None
        self._custom: CustomDocuments | None = None

    async def __call__(self, context: RequestContext) -> Response:
        accept = context.request.headers.get(b"accept")
        await imported("rewound.gateway.describe.openapi.documents")
        await imported("rewound.gateway.describe.openapi.sections")
        await imported("rewound.gateway.describe.openapi.custom")
        match context.route.path.strip("/").split("/"):
            case ["openapi", "v2"]:
                media = _choose_media(accept, JSON, PROTOBUF, OLD_PROTOBUF)
                return await _respond(context, await self._version_2(JSON if media == JSON else PROTOBUF))
            case ["openapi", "v3"]:
                return await _respond(context, await self._version_3())
            case ["openapi", "v3", *name]:
                return await self._version_3_section(context, "/".join(name))
        raise NoSuchPath

    async def _version_2(self, media: str) -> CompressedDocument:
        async with self._lock:
            state, sections = self._sections()
            if media not in self._whole or self._whole[media][0] != state:
                documents = self._make_documents(state[0])
                parts = [await self._part(documents, one, media) for one in sections.values()]
                self._parts[media].drop_others(sections.values())
                if specs := list(self._remote.specs.values()):
                    add = partial(documents.add_remote, media == JSON, parts, specs)
                    parts = await trio.to_thread.run_sync(add)
                whole = documents.version_2(media == JSON, parts)
                self._whole[media] = state, await compress_document(whole, media.encode())
            return self._whole[media][1]

    async def _part(self, documents: Documents, section: Section, media: str) -> Part:
        from rewound.gateway.describe.openapi.custom import has_large_schemas

        known = self._parts[media].find(section)
        if known is not None:
            return known
        members = documents.members_of_version_2(media == JSON, section)
        if has_large_schemas(section):
            collected = await trio.to_thread.run_sync(list, members)
        else:
            collected = await collect_in_slices(members)
        made = await trio.to_thread.run_sync(Part.of, collected, b"," if media == JSON else b"")
        return self._parts[media].store(section, made)

    async def _version_3(self) -> CompressedDocument:
        """The index of all documents, with the ETag of each."""
        async with self._lock:
            state, sections = self._sections()
            if self._index is None or self._index[0] != state:
                # Types that documents share are encoded once.
                make = cache(partial(self._make_documents, state[0]))
                made = {one.name: await self._document(make, one) for one in sections.values()}
                self._documents.drop_others(sections.values())
                made |= self._remote.documents
                self._protobuf = {name: one for name, one in self._protobuf.items() if name in made}
                paths = {name: {"serverRelativeURL": _url(name, made[name])} for name in sorted(made)}
                body = dumps({"paths": paths})
                self._index = state, await compress_document(iter([body]), JSON.encode())
            return self._index[1]

    async def _version_3_section(self, context: RequestContext, name: str) -> Response:
        async with self._lock:
            (catalog, _), sections = self._sections()
            found: _Document | None = self._remote.documents.get(name)
            if found is None:
                if name not in sections:
                    raise NoSuchPath
                make = partial(self._make_documents, catalog)
                found = await self._document(make, sections[name])
        media = _choose_media(context.request.headers.get(b"accept"), JSON, PROTOBUF_3, OLD_PROTOBUF_3)
        requested = context.parameters.first("hash")
        if requested and requested != found.etag:
            return Response(301, b"", b"", [(b"location", _url(name, found).encode()), *_validators(found)])
        response = _not_modified(context, found)
        if response is None:
            response = await _send(context, found if media == JSON else await self._in_protobuf(name, found))
        if requested:
            expires = http_date(time.time() + YEAR)
            response.headers += [(b"cache-control", b"public, immutable"), (b"expires", expires)]
        return response

    async def _in_protobuf(self, name: str, document: _Document) -> CompressedDocument:
        async with self._lock:
            made = self._protobuf.get(name)
            if made is None or made.etag != document.etag:
                body, _ = await document.content(gzip=False)
                made = self._protobuf[name] = await trio.to_thread.run_sync(_protobuf_of, body, document.etag)
            return made

    async def _document(self, make: Callable[[], Documents], section: Section) -> _Document:
        known = self._documents.find(section)
        if known is not None:
            return known
        custom = self._custom_documents()
        if custom.can_describe(section):
            return self._documents.store(section, await custom.document(section))
        return self._documents.store(
            section, await compress_document(make().version_3(section), JSON.encode())
        )

    def _custom_documents(self) -> CustomDocuments:
        from rewound.gateway.describe.openapi.custom import CustomDocuments

        if self._custom is None:
            built_in = self._registry.built_in
            self._custom = CustomDocuments(built_in, self._names, self._verbs, self._version)
        return self._custom

    def _sections(self) -> tuple[_State, dict[str, Section]]:
        """The current state, and the sections of the catalog by name, without those that other servers serve."""
        from rewound.gateway.describe.openapi.naming import Naming
        from rewound.gateway.describe.openapi.sections import sections

        catalog = self._registry.current
        state = catalog, self._remote.changes
        if self._cached_sections is None or self._cached_sections[0] != state:
            found = sections(
                catalog,
                self._verbs,
                Naming(self._names, catalog.exists, cbor=self._cbor),
                describes_issuer=self._describes_issuer,
                describes_history=self._describes_history,
                known=self._cached_sections[1] if self._cached_sections is not None else {},
            )
            remote = self._remote.remote
            self._cached_sections = state, {one.name: one for one in found if one.name not in remote}
        return self._cached_sections

    def _make_documents(self, catalog: Catalog) -> Documents:
        from rewound.gateway.describe.openapi.documents import Documents

        return Documents(catalog, self._names, self._version)


def _url(name: str, one: _Document) -> str:
    return f"/openapi/v3/{name}?hash={one.etag}"


def _choose_media(accept: bytes | None, *served: str) -> str:
    """The media type that the Accept header prefers; the first one by default."""
    for clause in sorted(parse_accept(accept or b"*/*"), key=lambda clause: clause.rank):
        for media in served:
            if clause.covers(*media.split("/")):
                return media
    raise NotAcceptable(served)


async def _respond(context: RequestContext, one: _Document) -> Response:
    return _not_modified(context, one) or await _send(context, one)


def _validators(one: _Document) -> list[tuple[bytes, bytes]]:
    return [(b"etag", quoted(one.etag)), (b"vary", b"Accept, Accept-Encoding")]


def _not_modified(context: RequestContext, one: _Document) -> Response | None:
    """The response to a client that has the document already."""
    if matches(context.request.headers.get(b"if-none-match"), one.etag):
        return Response(304, b"", b"", _validators(one))
    return None


async def _send(context: RequestContext, one: _Document) -> Response:
    accepts_gzip = compression.accepts_gzip(context.request.headers.get(b"accept-encoding"))
    body, is_compressed = await one.content(gzip=accepts_gzip)
    encoding = [(b"content-encoding", b"gzip")] if is_compressed else []
    return Response(200, body, one.content_type, [*_validators(one), *encoding])


def _protobuf_of(body: bytes, etag: str) -> CompressedDocument:
    from rewound.gateway.describe.openapi.protobuf import document_3

    return compressed(document_3(orjson.loads(body)), PROTOBUF_3.encode(), etag)
