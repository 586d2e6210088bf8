"""The current object of each name: of the proposal that is not durable yet, or else of the journal."""

from __future__ import annotations

import orjson

from rewound.actors.kinds.declaration.definition import Versions
from rewound.actors.messages import Object
from rewound.actors.resource.rules import Current
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.time_limit import NeedsThread, need_thread
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Row
from rewound.journal.view import View

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
        """NeedsThread if it is large, or was stored under a schema that must be compiled first.

        Without a view this reads in a transaction of its own.
        """
        pending = self._pending.get((namespace, name))
        if pending is not None:
            if len(pending.body) > LARGE_BYTES:
                raise NeedsThread
            return None if pending.removed else self._of_proposal(pending)
        row = self._row(view, namespace, name)
        if row is None:
            return None
        if len(row.body) > LARGE_BYTES:
            raise NeedsThread
        return self._parsed(row.body, row.offset, row.offset)

    def find_in_thread(self, view: View | None, namespace: str, name: str) -> Current | None:
        """`_pending` comes first: what a commit removes from it is in the journal then."""
        pending = self._pending.get((namespace, name))
        if pending is not None:
            return None if pending.removed else self._of_proposal(pending)
        row = self._row(view, namespace, name)
        return self._parsed(row.body, row.offset, row.offset) if row is not None else None

    def _row(self, view: View | None, namespace: str, name: str) -> Row | None:
        if view is not None:
            return view.get(self._type_id, namespace, name)
        with self._journal.read() as own:
            return own.get(self._type_id, namespace, name)

    def is_written_by(self, written: int | Proposal, namespace: str, name: str) -> bool:
        """Whether an event is still the one that wrote the current object; 0 stands for none."""
        now: int | Proposal = 0
        if (pending := self._pending.get((namespace, name))) is not None:
            now = 0 if pending.removed else pending
        elif (row := self._row(None, namespace, name)) is not None:
            now = row.offset
        if now is written or isinstance(written, int):
            return now == written
        # It was not committed then. If it is now, its offset is known.
        return written.event is not None and now == written.event.offset

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
