"""Everything that clients were shown, flattened: objects with the place they were met, versions with the moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.robustness.history import History, Operation
from tests.robustness.objects import OURS, Document, Key, bare, key_of, version_of


class Sight(NamedTuple):
    """An object as it was met somewhere."""

    where: str
    key: Key
    version: int
    body: Document


class Told(NamedTuple):
    """A version that somebody had been told at a moment."""

    moment: float
    version: int
    where: str


def sights(history: History) -> Iterator[Sight]:
    """All objects in answers and in the log."""
    for operation in history.operations:
        # What a removing replace shows has new content under its old version.
        if operation.shown is not None and not operation.shows_last_of:
            yield _sight(str(operation), operation.key, operation.shown)
    for walk in history.walks:
        for page in walk.pages:
            keyed = ((key_of(walk.plural, item), item) for item in page.items)
            yield from (_sight(str(walk), key, item) for key, item in keyed if key in OURS)
    for life in history.lives:
        for entry in life.ledger.entries:
            yield _sight(f"event {entry.offset} after life {life.number}", entry.key, entry.body)


def _sight(where: str, key: Key, shown: Document) -> Sight:
    return Sight(where, key, version_of(shown), bare(shown))


def told(history: History) -> list[Told]:
    """Versions in answers, in the order in which they arrived."""
    found = [
        Told(operation.ended, version_of(operation.shown), str(operation))
        for operation in history.operations
        if operation.shown is not None
    ]
    found += [Told(page.ended, page.version, str(walk)) for walk in history.walks for page in walk.pages]
    return sorted(found)


class Highest:
    """The highest version told before a moment; asked in ascending order of moments."""

    def __init__(self, history: History) -> None:
        self._waiting = iter(told(history))
        self._next = next(self._waiting, None)
        self._highest = Told(0.0, 0, "nothing")

    def before(self, moment: float) -> Told:
        while self._next is not None and self._next.moment < moment:
            if self._next.version > self._highest.version:
                self._highest = self._next
            self._next = next(self._waiting, None)
        return self._highest


def by_sending(operations: list[Operation]) -> list[Operation]:
    return sorted(operations, key=lambda operation: operation.sent)
