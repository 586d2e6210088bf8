"""The resource types that have objects: what stands behind a type id, and behind an owner's apiVersion and
kind.

Read from the registry's current catalog whenever something is asked, because kinds come and go while the server
runs. Asking never gives a type a number in the journal.
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
        self._names: dict[int, str] = {}  # a number stands for the same type for ever

    def __iter__(self) -> Iterator[tuple[int, Definition]]:
        """Every stored type that is declared."""
        for name, type_id in self._journal.types().items():
            found = self._registry.current.stored_type(name)
            if found is not None:
                yield type_id, found.storage

    def definition(self, type_id: int) -> Definition | None:
        """The form in which a type is stored; None when nobody declares it (any more)."""
        if type_id not in self._names:
            self._names = {number: name for name, number in self._journal.types().items()}
        found = self._registry.current.stored_type(self._names.get(type_id, ""))
        return found.storage if found is not None else None

    def of_kind(self, api_version: str, kind: str) -> Definition | None:
        """What an owner reference means; None when there is no such kind."""
        return self._registry.current.of_kind(api_version, kind)

    def type_id(self, definition: Definition) -> int | None:
        return self._journal.type_id(definition.type_name) or None
