"""The current object of each name: of the proposal that is not durable yet, or else of the journal."""

from __future__ import annotations

import orjson

from actors.kinds.declaration.definition import Versions
from actors.messages import Object
from actors.resource.decide import Current
from actors.runtime.large_work import LARGE_BYTES
from actors.runtime.time_limit import NeedsThread, need_thread
from actors.store.proposal import Proposal
from journal.log import Journal
from journal.view import View

Key = tuple[str, str]


class CurrentObjects:
    """Of one resource type, as its present definitions show them."""

    def __init__(
        self, journal: Journal, type_id: int, pending: dict[Key, Proposal], versions: Versions | None
    ) -> None:
        """`pending` has the last proposal of each object; those in it now were decided with other definitions."""
        self._journal = journal
        self._type_id = type_id
        self._pending = pending
        self._versions = versions
        self._outdated = frozenset(pending.values())

    def find(self, view: View | None, namespace: str, name: str) -> Current | None:
        """NeedsThread if it is large, or was stored under a schema that must be compiled first."""
        pending = self._pending.get((namespace, name))
        if pending is not None:
            if len(pending.body) > LARGE_BYTES:
                raise NeedsThread
            return None if pending.removed else self._of_proposal(pending)
        assert view is not None
        row = view.get(self._type_id, namespace, name)
        if row is None:
            return None
        if len(row.body) > LARGE_BYTES:
            raise NeedsThread
        return self._parsed(row.body, row.offset, row.offset)

    def find_in_thread(self, _: View | None, namespace: str, name: str) -> Current | None:
        """Read without a transaction that stays open while the thread works.

        `_pending` comes first: what a commit removes from it is in the journal then.
        """
        pending = self._pending.get((namespace, name))
        if pending is not None:
            return None if pending.removed else self._of_proposal(pending)
        with self._journal.read() as view:
            row = view.get(self._type_id, namespace, name)
        return self._parsed(row.body, row.offset, row.offset) if row is not None else None

    def written(self, view: View | None, namespace: str, name: str) -> int | Proposal:
        """The event that wrote the current object, 0 without one. A thread has no view."""
        pending = self._pending.get((namespace, name))
        if pending is not None:
            return 0 if pending.removed else pending
        if view is None:
            with self._journal.read() as own:
                row = own.get(self._type_id, namespace, name)
        else:
            row = view.get(self._type_id, namespace, name)
        return row.offset if row is not None else 0

    def _of_proposal(self, pending: Proposal) -> Current:
        return self._parsed(pending.body, 0, -1 if pending in self._outdated else LATEST, pending)

    def _parsed(self, body: bytes, offset: int, since: int, proposal: Proposal | None = None) -> Current:
        """`since`: the offset that decides whether it is older than the schema of a custom kind."""
        parsed: Object = orjson.loads(body)
        parsed["metadata"].pop("resourceVersion", None)
        if self._versions is None:
            return Current(offset, parsed, proposal)
        version = parsed.pop("apiVersion", self._versions.storage)
        if not self._versions.is_current(version, since):
            if not self._versions.is_loaded(version):
                need_thread()
            parsed = self._versions.upgrade(parsed, version)
        return Current(offset, parsed, proposal, version)


LATEST = 2**63
