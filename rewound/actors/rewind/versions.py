"""The versions of one object, newest first, across its deletions: a page at a time.

Each version is an event with the content before it, so that a caller can show what changed. Events are read in
slices, each in its own transaction; the log may grow in between, and retention may remove events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.selectors.facts import unpack_uids
from rewound.journal import history, keys, records
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.log import Journal
from rewound.journal.records import Event, Link
from rewound.journal.view import View

# Per transaction: events, their bytes, and events without their contents.
SLICE, SLICE_BYTES = 64, 1 << 20
LINKS = 200


class Address(msgspec.Struct, frozen=True):
    """One object of a journal, whether it exists or not. `uid`, if set, is that of one of the objects with
    this name.
    """

    type_id: int
    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> bytes | None:
        """Its key in the state, or None for a name that no object can have."""
        return keys.find_object(self.type_id, self.namespace, self.name)


class Version(msgspec.Struct, frozen=True):
    event: Event
    before: bytes | None  # the content before; None if there was none, or the journal no longer has it

    @property
    def compacted(self) -> bool:
        """Whether retention, or a cut, has removed the version before this one, or one of the two cannot be read."""
        return not self.event.body or (self.before is None and self.event.had_before)


class Slice(msgspec.Struct, frozen=True):
    versions: list[Version]
    following: int  # the offset of the next older version; 0 if there is none


_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def looks_like_uid(name: str) -> bool:
    return _UID.fullmatch(name) is not None


def uid_of(event: Event) -> str:
    return unpack_uids(event.facts)[0]


def read_slice(journal: Journal, address: Address, start: int, count: int) -> Slice:
    """Return at most `count` versions, newest first, starting at the offset `start`."""
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
        if (event := view.readable_of(key, offset)) is not None:
            yield event


def _before(view: View, event: Event, older: Event | None) -> bytes | None:
    if not event.previous:
        return None
    if older is not None and older.offset == event.previous:
        return older.body or None
    previous = view.readable(event.previous)
    return None if previous is None else previous.body or None


def newest(journal: Journal, address: Address, upto: int) -> LongWork[Event | None]:
    """Return the newest event of an object up to an offset, with the uid of the address if it has one."""
    start = upto
    while start:
        found = read_slice(journal, address, start, 1)
        if found.versions:
            return found.versions[0].event
        start = found.following
        yield Piece(lambda: None)
    return None


def name_of_uid(journal: Journal, type_id: int, namespace: str, uid: str) -> LongWork[str]:
    """Return the name that the object with this uid has or had, or "" if there is none.

    There is no index by uid: it reads the log of the type backwards.
    """
    upto, seen = MAX_OFFSET, set[bytes]()
    while upto:
        name, upto = _name_of_uid(journal, type_id, namespace, uid, upto, seen)
        if name:
            return name
        yield Piece(lambda: None)
    return ""


def _name_of_uid(
    journal: Journal, type_id: int, namespace: str, uid: str, upto: int, seen: set[bytes]
) -> tuple[str, int]:
    """Return the name if it is among some events up to an offset, and the offset to continue at."""
    with journal.read() as view:
        scope = keys.scope(type_id, namespace) if namespace else keys.pack_type(type_id)
        if scope is None:
            return "", 0
        offsets = history.descending(view, history.of_type(view, type_id), upto)
        for offset in islice(offsets, LINKS):
            link = link_at(view, type_id, offset)
            upto = offset - 1
            # An object has the same uid from its creation to its deletion.
            if link is None or not link.key.startswith(scope) or (link.key in seen and not link.removed):
                continue
            seen.add(link.key)
            event = view.readable_of(link.key, offset)
            if event is not None and uid_of(event) == uid:
                return keys.names_of(link.key)[1], 0
        return "", upto if next(offsets, 0) else 0


def link_at(view: View, type_id: int, offset: int) -> Link | None:
    """Return an event of a type without its contents, or None if retention has removed it."""
    type_key = keys.by_type(type_id, offset)
    value = view.txn.get(type_key, None, view.databases.by_type)
    return None if value is None else records.decode_link(type_key, value)
