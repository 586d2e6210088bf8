"""The resource types that have objects: what stands behind a type id, and behind an owner's apiVersion and
kind.

Read through the catalog each time something unknown is asked, because kinds may be added while the server
runs. Asking never makes a type known to the journal: a type that nothing was stored of has no objects to
find.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from journal.log import Journal


class StoredTypes:
    def __init__(self, catalog: Catalog, journal: Journal) -> None:
        self._catalog = catalog
        self._journal = journal
        self._by_id: dict[int, Definition] = {}
        self._by_kind: dict[tuple[str, str], Definition] = {}

    def __iter__(self) -> Iterator[tuple[int, Definition]]:
        """Every stored type that is declared."""
        for type_id in self._journal.types().values():
            definition = self.definition(type_id)
            if definition is not None:
                yield type_id, definition

    def definition(self, type_id: int) -> Definition | None:
        """The form in which a type is stored; None when nobody declares it (any more)."""
        if type_id not in self._by_id:
            self._read_catalog()
        return self._by_id.get(type_id)

    def of_kind(self, api_version: str, kind: str) -> Definition | None:
        """What an owner reference means; None when there is no such kind."""
        if (api_version, kind) not in self._by_kind:
            self._read_catalog()
        return self._by_kind.get((api_version, kind))

    def type_id(self, definition: Definition) -> int | None:
        return self._journal.types().get(definition.type_name)

    def _read_catalog(self) -> None:
        ids = self._journal.types()
        for definition in self._catalog.declared:
            self._by_kind[definition.api_version, definition.kind] = definition
            if definition.type_name in ids:
                self._by_id[ids[definition.type_name]] = self._catalog.storage(definition.type_name)
