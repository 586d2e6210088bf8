"""Finds the definition of a resource type by its type id, or by the apiVersion and kind of an owner reference.

Every call reads the current catalog of the registry, because kinds are registered and removed while the server runs. No
call assigns a type id.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.kinds.declaration.definition import Definition
from actors.kinds.registry import Registry
from journal.log import Journal


class StoredTypes:
    def __init__(self, registry: Registry, journal: Journal) -> None:
        self._registry = registry
        self._journal = journal
        self._names: dict[int, str] = {}  # by type id, which never changes its type

    def __iter__(self) -> Iterator[tuple[int, Definition]]:
        """Every stored type that the catalog has."""
        for name, type_id in self._journal.types().items():
            found = self._registry.current.stored_type(name)
            if found is not None:
                yield type_id, found.storage

    def definition(self, type_id: int) -> Definition | None:
        """The definition of the storage version; None if the catalog does not have the type (any more)."""
        if type_id not in self._names:
            self._names = {number: name for name, number in self._journal.types().items()}
        found = self._registry.current.stored_type(self._names.get(type_id, ""))
        return found.storage if found is not None else None

    def of_kind(self, api_version: str, kind: str) -> Definition | None:
        """The definition that an owner reference names; None if there is no such kind."""
        return self._registry.current.of_kind(api_version, kind)

    def type_id(self, definition: Definition) -> int | None:
        return self._journal.type_id(definition.type_name) or None
