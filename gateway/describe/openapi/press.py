"""Makes the documents: from the catalog to pieces of bytes, one after another."""

from __future__ import annotations

from collections.abc import Iterator

from actors.kinds.catalog import Catalog
from actors.names import Names
from gateway.describe.openapi.json import as_json
from gateway.describe.openapi.kinds import Kinds
from gateway.describe.openapi.protobuf import as_protobuf
from gateway.describe.openapi.schemas import THREE, TWO, Edition, Schemas
from gateway.describe.openapi.sections import sections
from gateway.describe.openapi.texts import Texts
from gateway.describe.openapi.titles import Titles
from gateway.describe.openapi.version_2 import Piece, VersionTwo
from gateway.describe.openapi.version_3 import VersionThree

TITLE = "Rewound"


class Press:
    def __init__(self, catalog: Catalog, names: Names, verbs: frozenset[str], version: str) -> None:
        self._names = names
        self._version = version
        self._titles = Titles(names)
        self._texts = Texts()
        self._kinds = Kinds(catalog)
        self._sections = list(sections(catalog, verbs, self._titles))

    def version_2(self) -> Iterator[bytes]:
        return as_json(self._two())

    def version_2_protobuf(self) -> Iterator[bytes]:
        return as_protobuf(self._two())

    def version_3(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Every part of the API by its name, each with a document of its own."""
        for section in self._sections:
            document = VersionThree(self._names, self._schemas(THREE), TITLE, self._version)
            yield section.name, as_json(document.pieces(section))

    def _two(self) -> Iterator[Piece]:
        document = VersionTwo(self._names, self._schemas(TWO), TITLE, self._version)
        return document.pieces(self._sections)

    def _schemas(self, edition: Edition) -> Schemas:
        return Schemas(self._names, edition, self._kinds, self._titles, self._texts)
