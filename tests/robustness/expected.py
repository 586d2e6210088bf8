"""What a perfect watch of an interest shows, folded from the log by a few lines of its own.

The server's filter and fold are not asked: they are what is being judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tests.robustness.course import ADDED, DELETED, MODIFIED, Seen
from tests.robustness.interest import Interest
from tests.robustness.objects import Document, Key


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the log."""

    offset: int
    key: Key
    removed: bool
    body: Document


class Expected:
    def __init__(self, entries: Iterable[Entry], interest: Interest) -> None:
        self.events: list[Seen] = []
        self._versions: list[int] = []
        before: dict[Key, Document] = {}
        for entry in entries:
            if entry.key.plural != interest.plural:
                continue
            shown = _transition(interest, entry, before.get(entry.key))
            if shown is not None:
                self.events.append(shown)
                self._versions.append(shown.version)
            if entry.removed:
                before.pop(entry.key, None)
            else:
                before[entry.key] = entry.body

    def between(self, after: int, upto: int) -> list[Seen]:
        return self.events[bisect_right(self._versions, after) : bisect_right(self._versions, upto)]

    def state(self, version: int) -> dict[Key, Document]:
        return fold({}, self.between(0, version))

    @property
    def last(self) -> int:
        return self._versions[-1] if self._versions else 0


def _transition(interest: Interest, entry: Entry, before: Document | None) -> Seen | None:
    wanted = before is not None and interest.wants(entry.key, before)
    wants = not entry.removed and interest.wants(entry.key, entry.body)
    if wants:
        return Seen(MODIFIED if wanted else ADDED, entry.offset, entry.key, entry.body)
    if wanted and before is not None:
        return Seen(DELETED, entry.offset, entry.key, _at_version(before, entry.offset))
    return None


def _at_version(body: Document, version: int) -> Document:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def fold(state: dict[Key, Document], events: Iterable[Seen]) -> dict[Key, Document]:
    """What a client holds that held `state` and was told `events`."""
    state = dict(state)
    for event in events:
        if event.type == DELETED:
            state.pop(event.key, None)
        elif event.type in (ADDED, MODIFIED):
            state[event.key] = event.body
    return state
