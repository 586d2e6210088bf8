"""The versions of one object, newest first, across its deletions: a page at a time.

Each version is an event with the content before it, so that a caller can show what changed. Events are read in slices,
each in a transaction of its own; the log may grow in between, and retention may remove events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from actors.selectors.facts import unpack_uids
from journal import history, keys
from journal.log import Journal
from journal.records import Event
from journal.view import View

# Per transaction: events, and their bytes.
SLICE, SLICE_BYTES = 64, 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """One object of a journal, whether it exists or not. `uid` is one of the objects that had this name, if set."""

    type_id: int
    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> bytes | None:
        """Its key in the state; None for a name that no object can have."""
        return keys.find_object(self.type_id, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Version:
    event: Event
    before: bytes | None  # the content before; None if it did not exist, or if that is no longer kept

    @property
    def compacted(self) -> bool:
        """Whether retention has removed the version before this one."""
        return self.before is None and self.event.previous != 0


@dataclass(frozen=True, slots=True)
class Slice:
    versions: list[Version]
    following: int  # the offset of the next older version; 0 if there is none


def uid_of(event: Event) -> str:
    return unpack_uids(event.facts)[0]


def read_slice(journal: Journal, address: Address, start: int, count: int) -> Slice:
    """At most `count` versions from the offset `start` on, newest first."""
    key = address.key
    if key is None:
        return Slice([], 0)
    with journal.read() as view:
        return _slice(view, key, address.uid, start, min(count, SLICE))


def _slice(view: View, key: bytes, uid: str, start: int, count: int) -> Slice:
    found: list[Version] = []
    size = 0
    events = _descending(view, key, start)
    event = next(events, None)
    for _ in range(SLICE):
        if event is None or len(found) == count or size > SLICE_BYTES:
            break
        size += len(event.body)
        older = next(events, None)
        if not uid or uid_of(event) == uid:
            found.append(Version(event, _before(view, event, older)))
        event = older
    return Slice(found, 0 if event is None else event.offset)


def _descending(view: View, key: bytes, start: int) -> Iterator[Event]:
    for offset in history.descending(view, history.of_object(view, key), start):
        yield view.event_of(key, offset)


def _before(view: View, event: Event, older: Event | None) -> bytes | None:
    if not event.previous:
        return None
    if older is not None and older.offset == event.previous:
        return older.body
    previous = view.event(event.previous)
    return None if previous is None else previous.body


def newest(journal: Journal, address: Address, upto: int) -> Event | None:
    """The newest event of an object up to an offset, of the given uid if the address has one."""
    key = address.key
    if key is None:
        return None
    with journal.read() as view:
        for event in _descending(view, key, upto):
            if not address.uid or uid_of(event) == address.uid:
                return event
    return None
