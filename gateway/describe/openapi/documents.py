"""Makes documents from one catalog, section by section, in pieces so that whoever reads them can yield in between.

A definition that several sections refer to is encoded once for all that one `Documents` makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from actors.kinds.catalog import Catalog
from actors.names import Names
from gateway.describe.openapi.json import as_json, json_member
from gateway.describe.openapi.kinds import Kinds
from gateway.describe.openapi.packed import Member, Part
from gateway.describe.openapi.protobuf import as_protobuf, protobuf_member
from gateway.describe.openapi.schemas import THREE, TWO, Document, Known, Schemas
from gateway.describe.openapi.sections import Section
from gateway.describe.openapi.texts import Texts
from gateway.describe.openapi.titles import Titles
from gateway.describe.openapi.version_2 import VersionTwo, joined
from gateway.describe.openapi.version_3 import VersionThree

TITLE = "Rewound"


class Documents:
    def __init__(self, catalog: Catalog, built_in: Catalog, names: Names, version: str) -> None:
        self._names = names
        self._info = {"title": TITLE, "version": version}
        self._titles = Titles(names)
        self._texts = Texts()
        self._kinds = Kinds(catalog, built_in)
        self._known_3: Known[Any] = {}
        self._known_2: dict[bool, Known[bytes]] = {True: {}, False: {}}

    def version_3(self, section: Section) -> Iterator[bytes]:
        schemas = Schemas(
            self._names, THREE, self._kinds, self._titles, self._texts, _fragment, self._known_3
        )
        return as_json(VersionThree(self._names, schemas, self._info).pieces(section))

    def members_of_version_2(self, json: bool, section: Section) -> Iterator[Member]:
        """What the section adds to the document, as JSON or as protobuf."""
        encode = json_member if json else protobuf_member
        schemas = Schemas(
            self._names,
            TWO,
            self._kinds,
            self._titles,
            self._texts,
            lambda title, definition: encode("definitions", title, definition),
            self._known_2[json],
        )
        return VersionTwo(self._names, schemas).members(section, encode)

    def version_2(self, json: bool, parts: Iterable[Part]) -> Iterator[bytes]:
        return (as_json if json else as_protobuf)(joined(self._info, parts))


def _fragment(_: str, definition: Document) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(definition))
