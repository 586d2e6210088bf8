"""Everything that clients received, flattened: objects with their source, versions with their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.robustness.history import History, Operation
from tests.robustness.objects import TEST_KEYS, Document, Key, bare, key_of, version_of


class SeenObject(NamedTuple):
    """An object in a response or in the log."""

    where: str
    key: Key
    version: int
    body: Document


class SeenVersion(NamedTuple):
    """A version in a response, and when it arrived."""

    time: float
    version: int
    where: str


def seen_objects(history: History) -> Iterator[SeenObject]:
    """All objects in responses and in the log."""
    for operation in history.operations:
        # A replace that removes its object returns new content with the old version.
        if operation.shown is not None and not operation.returned_removed:
            yield _seen_object(str(operation), operation.key, operation.shown)
    for paged in history.lists:
        for page in paged.pages:
            keyed = ((key_of(paged.plural, item), item) for item in page.items)
            yield from (_seen_object(str(paged), key, item) for key, item in keyed if key in TEST_KEYS)
    for run in history.runs:
        for entry in run.contents.entries:
            yield _seen_object(f"event {entry.offset} after run {run.number}", entry.key, entry.body)


def _seen_object(where: str, key: Key, shown: Document) -> SeenObject:
    return SeenObject(where, key, version_of(shown), bare(shown))


def seen_versions(history: History) -> list[SeenVersion]:
    """Versions in responses, in the order in which they arrived."""
    found = [
        SeenVersion(operation.ended, version_of(operation.shown), str(operation))
        for operation in history.operations
        if operation.shown is not None
    ]
    found += [
        SeenVersion(page.ended, page.version, str(paged)) for paged in history.lists for page in paged.pages
    ]
    return sorted(found)


class Highest:
    """The highest version that a client had seen before a time; call with ascending times."""

    def __init__(self, history: History) -> None:
        self._waiting = iter(seen_versions(history))
        self._next = next(self._waiting, None)
        self._highest = SeenVersion(0.0, 0, "nothing")

    def before(self, time: float) -> SeenVersion:
        while self._next is not None and self._next.time < time:
            if self._next.version > self._highest.version:
                self._highest = self._next
            self._next = next(self._waiting, None)
        return self._highest


def by_sending(operations: list[Operation]) -> list[Operation]:
    return sorted(operations, key=lambda operation: operation.sent)
