"""Finds kinds by the names that users write, and the kinds of the journal's types.

The catalog of the folder's dialect has most of them, and the journal has the definitions of custom kinds. A type that
neither declares (of a newer release, or of a deleted definition) is shown with the name that it has in the journal.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from actors.kinds.apiextensions import definition_type
from actors.kinds.built_in import built_in
from actors.kinds.custom.definitions import definitions_of, parsed
from actors.kinds.declaration.definition import Definition
from actors.names import NAMES, Names
from gateway.cli.journal.query.failure import UsageError
from journal.log import Journal

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of the journal, as commands show it."""

    type_name: str  # configmaps, leases.coordination.<domain>
    kind: str
    api_version: str  # empty for a type that this release does not declare
    namespaced: bool | None  # None: not known


class Kinds:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._definitions: tuple[Definition, ...] = ()
        if journal.dialect in NAMES:
            names = NAMES[journal.dialect]
            self._definitions = (*built_in(names).declared, *_custom(journal, names))
        self._stored = {one.type_name: _kind(one) for one in self._definitions if not one.storage.stored_as}
        self._by_type_id: dict[int, Kind] = {}

    def find(self, text: str) -> Kind:
        """The kind with this name; UsageError when there is none or several."""
        found = {one.type_name for one in self._definitions if text.lower() in _accepted_names(one)}
        found |= {name for name in self._journal.types() if text.lower() in (name, name.partition(".")[0])}
        if text.lower() in found:
            found = {text.lower()}  # the full name of a type wins, even if other groups have the same plural
        if len(found) == 1:
            return self._of(found.pop())
        if found:
            raise UsageError(f"{text!r} may be {' or '.join(sorted(found))}; write one of them")
        raise UsageError(f"{text!r} is not a kind of this journal; {self._suggestion(text)}")

    def type_id(self, kind: Kind) -> int:
        """Its type id in the journal; 0 when it has none yet."""
        return self._journal.type_id(kind.type_name)

    def of_type_id(self, type_id: int) -> Kind:
        if type_id not in self._by_type_id:
            for name, number in self._journal.types().items():
                self._by_type_id[number] = self._of(name)
        return self._by_type_id.get(type_id) or Kind(f"type {type_id}", f"type {type_id}", "", None)

    def all(self) -> list[Kind]:
        """The kinds of this journal, by name."""
        return [self._of(name) for name in sorted(self._journal.types())]

    def _of(self, type_name: str) -> Kind:
        return self._stored.get(type_name) or Kind(type_name, type_name, "", None)

    def _suggestion(self, text: str) -> str:
        known = sorted(
            {name for one in self._definitions for name in _accepted_names(one)} | {*self._journal.types()}
        )
        near = difflib.get_close_matches(text.lower(), known, n=1)
        plurals = ", ".join(sorted({one.plural for one in self._definitions}))
        return f"did you mean {near[0]}?" if near else f"there are {plurals}"


def _custom(journal: Journal, names: Names) -> Iterator[Definition]:
    """Definitions of the custom kinds that there are now. A definition that cannot be read is left out."""
    type_id = journal.type_id(definition_type(names))
    with journal.read() as view:
        for _, _, row in view.rows(type_id, "") if type_id else ():
            try:
                yield from definitions_of(parsed(row.body), row.body, 0, names).definitions
            except Exception:
                logger.debug("a custom resource definition cannot be read", exc_info=True)


def _kind(definition: Definition) -> Kind:
    return Kind(definition.type_name, definition.kind, definition.api_version, definition.namespaced)


def _accepted_names(definition: Definition) -> set[str]:
    plural, group, version = definition.plural, definition.group, definition.version
    names = {plural, definition.kind.lower(), definition.names.singular, *definition.names.short_names}
    if group:
        names |= {f"{plural}.{group}", f"{plural}.{version}.{group}"}
    return {name for name in names if name}
