"""The events of a perfect watch, computed from the log.

This does not use the server's selectors or its replay, because they are under test.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tests.robustness.interest import Interest
from tests.robustness.objects import Document, Key
from tests.robustness.observations import ADDED, DELETED, MODIFIED, WatchEvent


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of the log."""

    offset: int
    key: Key
    removed: bool
    body: Document


class ExpectedEvents:
    def __init__(self, entries: Iterable[Entry], interest: Interest) -> None:
        self.events: list[WatchEvent] = []
        self._versions: list[int] = []
        before: dict[Key, Document] = {}
        for entry in entries:
            if entry.key.plural != interest.plural:
                continue
            event = _transition(interest, entry, before.get(entry.key))
            if event is not None:
                self.events.append(event)
                self._versions.append(event.version)
            if entry.removed:
                before.pop(entry.key, None)
            else:
                before[entry.key] = entry.body

    def between(self, after: int, upto: int) -> list[WatchEvent]:
        return self.events[bisect_right(self._versions, after) : bisect_right(self._versions, upto)]

    def state(self, version: int) -> dict[Key, Document]:
        return fold({}, self.between(0, version))

    @property
    def last(self) -> int:
        return self._versions[-1] if self._versions else 0


def _transition(interest: Interest, entry: Entry, before: Document | None) -> WatchEvent | None:
    wanted = before is not None and interest.matches(entry.key, before)
    wants = not entry.removed and interest.matches(entry.key, entry.body)
    if wants:
        return WatchEvent(MODIFIED if wanted else ADDED, entry.offset, entry.key, entry.body)
    if wanted and before is not None:
        return WatchEvent(DELETED, entry.offset, entry.key, _at_version(before, entry.offset))
    return None


def _at_version(body: Document, version: int) -> Document:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def fold(state: dict[Key, Document], events: Iterable[WatchEvent]) -> dict[Key, Document]:
    """The state of a client that had `state` and received `events`."""
    state = dict(state)
    for event in events:
        if event.type == DELETED:
            state.pop(event.key, None)
        elif event.type in (ADDED, MODIFIED):
            state[event.key] = event.body
    return state
