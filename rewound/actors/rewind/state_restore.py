"""Restores every object as it was at an offset: content and uid, with a new resourceVersion.

No admission, finalizer or controller decides about these events, because together they are a state that was valid
before. The journal grows by one event for each object that differs; watches, caches and controllers see ordinary
events. Objects that did not exist are removed, deleted ones exist again with their old uid.

    restore = StateRestore(journal, catalog, offset)
    run(restore.read())                             what was written since, in steps
    propose = partial(restore.proposals, context)   at once: see `Committer.commit_at_once` and `commit_alone`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Versions
from rewound.actors.messages import WriteContext
from rewound.actors.rewind.long_work import LongWork, Piece, run
from rewound.actors.store.document import api_version_of, decode, encode_unversioned, without_version
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Row
from rewound.journal.view import View

Key = tuple[int, str, str]  # type id, namespace, name

_STEP: Final = 64  # events read in one step
_DEFINITIONS: Final = "customresourcedefinitions"


class StateRestore:
    def __init__(self, journal: Journal, catalog: Catalog, offset: int) -> None:
        self._journal = journal
        self._offset = offset
        self._read_to = offset
        self._wanted: dict[Key, Row | None] = {}  # in the order of the first change; None: it did not exist
        self._versions = _versions_by_type(journal, catalog)
        self._definitions = _type_of_definitions(journal, catalog)

    def read(self) -> LongWork[None]:
        """Find the objects that were written since, and their old content. Raises Compacted if the journal lacks it."""
        while self._read_some():
            yield Piece(lambda: None)

    def _read_some(self) -> bool:
        """Read some events; return whether there are more."""
        with self._journal.read() as view:
            past = view.at(self._offset)
            for count, event in enumerate(view.events(self._read_to)):
                if count == _STEP:
                    return True
                key = (event.type_id, event.namespace, event.name)
                if key not in self._wanted:
                    self._wanted[key] = past.get(*key)
                self._read_to = event.offset
        return False

    def __len__(self) -> int:
        """How many objects were written since, as far as `read` has found them."""
        return len(self._wanted)

    def proposals(self, context: WriteContext) -> list[Proposal]:
        """Yield removals, newest first, and then the restored objects, oldest first."""
        run(self.read())
        with self._journal.read() as view:
            removals = list(self._removals(view, context))
            return [*reversed(removals), *self._contents(view, context)]

    def _removals(self, view: View, context: WriteContext) -> Iterator[Proposal]:
        for key, wanted in self._wanted.items():
            row = view.get(*key)
            if wanted is None and row is not None:
                body = without_version(row.body, row.offset)
                yield _proposal(key, "delete", row.offset, context, row.facts, body, removed=True)

    def _contents(self, view: View, context: WriteContext) -> Iterator[Proposal]:
        past = [(key, row) for key, row in self._wanted.items() if row is not None]
        for key, wanted in sorted(past, key=lambda one: one[1].offset):
            row = view.get(*key)
            body = self._unversioned(key, wanted)
            if row is None:
                yield _proposal(key, "create", 0, context, wanted.facts, body)
            elif without_version(row.body, row.offset) != body:
                yield _proposal(key, "update", row.offset, context, wanted.facts, body)

    def _unversioned(self, key: Key, wanted: Row) -> bytes:
        """Return the content to write. A custom object older than its schema gets the form in which clients saw it."""
        versions = self._versions.get(key[0])
        if versions is not None and (self._definitions, "", versions.name) not in self._wanted:
            api_version = api_version_of(wanted.body) or versions.storage
            if api_version == versions.storage and not versions.is_current(api_version, wanted.offset):
                parsed = decode(wanted.body)
                parsed.pop("apiVersion", None)
                return encode_unversioned(versions.upgrade(parsed, api_version), api_version)
        return without_version(wanted.body, wanted.offset)


def _proposal(
    key: Key,
    verb: str,
    previous: int,
    context: WriteContext,
    facts: bytes,
    body: bytes,
    *,
    removed: bool = False,
) -> Proposal:
    type_id, namespace, name = key
    return Proposal(
        type_id=type_id,
        verb=verb,
        namespace=namespace,
        name=name,
        previous=previous,
        removed=removed,
        time=context.time,
        user=context.user,
        manager=context.manager,
        facts=facts,
        body=body,
        reason=context.reason,
    )


def _versions_by_type(journal: Journal, catalog: Catalog) -> dict[int, Versions]:
    """Return the versions of custom kinds by type."""
    found: dict[int, Versions] = {}
    for definition in catalog.definitions:
        if definition.is_stored and definition.storage.versions is not None:
            found[journal.type_id(definition.type_name)] = definition.storage.versions
    return found


def _type_of_definitions(journal: Journal, catalog: Catalog) -> int:
    return next(
        (journal.type_id(one.type_name) for one in catalog.definitions if one.plural == _DEFINITIONS), 0
    )
