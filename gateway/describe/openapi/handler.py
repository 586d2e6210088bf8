"""/openapi/v2 and /openapi/v3: which document a client asks for, in which form, and whether it has it already.

A document is made when it is first asked for, and kept until its kinds change; requests that come meanwhile wait for
the one that makes it. A request that is cancelled while it makes one leaves the work to the next. In OpenAPI 3.0 each
group version has a document, in OpenAPI 2.0 a part of the one document: when a kind comes or goes, those of its group
version alone are made again. Nothing that makes documents is imported before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import orjson
import trio

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.kinds.registry import Registry
from actors.names import Names
from gateway.describe.openapi.packed import Packed, Part, gather, pack
from gateway.requests.context import RequestContext
from gateway.requests.errors import NoSuchPath
from gateway.requests.request import Response
from gateway.wire import compression, etags
from gateway.wire.negotiate import NotAcceptable, parse_accept

if TYPE_CHECKING:
    from gateway.describe.openapi.documents import Documents
    from gateway.describe.openapi.sections import Section

T = TypeVar("T")

JSON: Final = "application/json"
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for. An answer must not be called so: no media type has an @, and Go's clients refuse to read one.
OLD_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
YEAR: Final = 365 * 24 * 3600


class BySection(Generic[T]):
    """What was made of each section, as long as the section has the same definitions."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[Definition, ...], T]] = {}

    def find(self, section: Section) -> T | None:
        definitions, made = self._made.get(section.name, (None, None))
        return made if definitions is section.definitions else None

    def keep(self, section: Section, made: T) -> T:
        self._made[section.name] = section.definitions, made
        return made

    def drop_others(self, sections: Iterable[Section]) -> None:
        """Those of sections that there are no longer."""
        self._made = {one.name: self._made[one.name] for one in sections}


class OpenApi:
    def __init__(self, registry: Registry, names: Names, verbs: frozenset[str], version: str) -> None:
        self._registry = registry
        self._names = names
        self._verbs = verbs
        self._version = version
        self._making = trio.Lock()
        self._cut: tuple[Catalog, dict[str, Section]] | None = None
        self._parts: dict[str, BySection[Part]] = {JSON: BySection(), PROTOBUF: BySection()}
        self._whole: dict[str, tuple[Catalog, Packed]] = {}  # OpenAPI 2.0, by media type
        self._documents: BySection[Packed] = BySection()  # OpenAPI 3.0
        self._index: tuple[Catalog, Packed] | None = None

    async def __call__(self, context: RequestContext) -> Response:
        accept = context.request.headers.get(b"accept")
        match context.route.path.strip("/").split("/"):
            case ["openapi", "v2"]:
                media = _chosen(accept, JSON, PROTOBUF, OLD_PROTOBUF)
                return await _answer(context, await self._version_2(JSON if media == JSON else PROTOBUF))
            case ["openapi", "v3"]:
                _chosen(accept, JSON)
                return await _answer(context, await self._version_3())
            case ["openapi", "v3", *name]:
                _chosen(accept, JSON)
                return await self._section_of_version_3(context, "/".join(name))
        raise NoSuchPath

    async def _version_2(self, media: str) -> Packed:
        async with self._making:
            catalog, sections = self._sections()
            if media not in self._whole or self._whole[media][0] is not catalog:
                documents = self._make_documents(catalog)
                parts = [await self._part(documents, one, media) for one in sections.values()]
                self._parts[media].drop_others(sections.values())
                whole = documents.version_2(media == JSON, parts)
                self._whole[media] = catalog, await pack(whole, media.encode())
            return self._whole[media][1]

    async def _part(self, documents: Documents, section: Section, media: str) -> Part:
        known = self._parts[media].find(section)
        if known is not None:
            return known
        members = await gather(documents.members_of_version_2(media == JSON, section))
        made = await trio.to_thread.run_sync(Part.of, members, b"," if media == JSON else b"")
        return self._parts[media].keep(section, made)

    async def _version_3(self) -> Packed:
        """The index of all documents, which has to know the mark of each."""
        async with self._making:
            catalog, sections = self._sections()
            if self._index is None or self._index[0] is not catalog:
                documents = self._make_documents(catalog)
                made = {one.name: await self._document(documents, one) for one in sections.values()}
                self._documents.drop_others(sections.values())
                paths = {name: {"serverRelativeURL": _address(name, made[name])} for name in sorted(made)}
                body = orjson.dumps({"paths": paths})
                self._index = catalog, await pack(iter([body]), JSON.encode())
            return self._index[1]

    async def _section_of_version_3(self, context: RequestContext, name: str) -> Response:
        async with self._making:
            catalog, sections = self._sections()
            if name not in sections:
                raise NoSuchPath
            found = self._documents.find(sections[name])
            if found is None:
                found = await self._document(self._make_documents(catalog), sections[name])
        wanted = context.parameters.first("hash")
        if wanted and wanted != found.etag:
            return Response(301, b"", b"", [(b"location", _address(name, found).encode())])
        response = await _answer(context, found)
        if wanted:
            expires = formatdate(time.time() + YEAR, usegmt=True).encode()
            response.headers += [(b"cache-control", b"public, immutable"), (b"expires", expires)]
        return response

    async def _document(self, documents: Documents, section: Section) -> Packed:
        known = self._documents.find(section)
        if known is not None:
            return known
        return self._documents.keep(section, await pack(documents.version_3(section), JSON.encode()))

    def _sections(self) -> tuple[Catalog, dict[str, Section]]:
        """The current catalog, cut into what has a document of its own."""
        from gateway.describe.openapi.sections import sections
        from gateway.describe.openapi.titles import Titles

        catalog = self._registry.current
        if self._cut is None or self._cut[0] is not catalog:
            found = sections(catalog, self._verbs, Titles(self._names))
            self._cut = catalog, {one.name: one for one in found}
        return self._cut

    def _make_documents(self, catalog: Catalog) -> Documents:
        from gateway.describe.openapi.documents import Documents

        return Documents(catalog, self._registry.built_in, self._names, self._version)


def _address(name: str, one: Packed) -> str:
    return f"/openapi/v3/{name}?hash={one.etag}"


def _chosen(accept: bytes | None, *served: str) -> str:
    """The first of the media types where nothing else is said."""
    for clause in sorted(parse_accept(accept or b"*/*"), key=lambda clause: clause.rank):
        for media in served:
            if clause.covers(*media.split("/")):
                return media
    raise NotAcceptable(served)


async def _answer(context: RequestContext, one: Packed) -> Response:
    headers = [(b"etag", etags.quoted(one.etag)), (b"vary", b"Accept, Accept-Encoding")]
    if etags.matches(context.request.headers.get(b"if-none-match"), one.etag):
        return Response(304, b"", b"", headers)
    if one.size > compression.THRESHOLD and compression.accepts_gzip(
        context.request.headers.get(b"accept-encoding")
    ):
        return Response(200, one.packed, one.content_type, [*headers, (b"content-encoding", b"gzip")])
    return Response(200, await one.plain(), one.content_type, headers)
