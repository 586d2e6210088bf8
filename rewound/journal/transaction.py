"""One LMDB read transaction with the named databases; every reader of the journal is built on it.

`history`, `replay`, `snapshots`, `verify` and `export` take a `ReadTransaction` and nothing else from the journal.
`View` extends it with reads by type, namespace and name; `Journal.read` returns one.

A transaction is short-lived and synchronous: while it is open, LMDB cannot reuse old pages and the map cannot grow.
Its methods return copies, which stay valid after it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from rewound.journal import keys, state
from rewound.journal.environment import Databases, Environment, PageError
from rewound.journal.errors import Damaged, Unreadable
from rewound.journal.keys import Buffer
from rewound.journal.records import (
    Cut,
    Event,
    Thinned,
    decode_cuts,
    decode_event,
    decode_events,
    decode_link,
    decode_thinned,
    encode_event,
    field_problem,
    printable,
    with_escapes,
)
from rewound.journal.timelines import Timelines, decode_timelines


class ReadTransaction:
    """`txn` is LMDB's own transaction; its values are memoryviews that end with it."""

    __slots__ = ("_checked", "_environment", "_head", "databases", "txn")

    # The newest offset that may be read; `recording` has transactions with a lower one.
    limit = keys.MAX_OFFSET

    def __init__(self, environment: Environment, checked: state.CheckedRows) -> None:
        self._environment = environment
        self._checked = checked
        self.databases: Databases = environment.databases
        self.txn: Any = None
        self._head: int | None = None

    def __enter__(self) -> Self:
        self.txn = self._environment.begin_read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        txn, self.txn = self.txn, None
        self._environment.end_read(txn)
        if isinstance(error, Damaged) and not isinstance(error, Unreadable):
            self._environment.note_damage(error)
        elif isinstance(error, PageError):
            raise self._environment.damaged(error) from error

    @property
    def head(self) -> int:
        """The newest offset in this transaction; 0 if the journal is empty."""
        if self._head is None:
            cursor = self.txn.cursor(self.databases.events)
            self._head = keys.offset_of(cursor.key()) if cursor.last() else 0
        return self._head

    @property
    def floor(self) -> int:
        """The retention floor: the oldest offset whose state can still be read."""
        value = self.txn.get(keys.FLOOR, db=self.databases.meta)
        return 0 if value is None else int.from_bytes(value, "big")

    @property
    def thinned(self) -> dict[int, Thinned]:
        """By type, where events that changed nothing but times were dropped: older versions differ in times only."""
        return decode_thinned(bytes(self.txn.get(keys.THINNED, b"", db=self.databases.meta)))

    @property
    def cuts(self) -> dict[bytes, Cut]:
        """Whose oldest events were dropped because they took too much room, by scope (`cuts.scope_of`)."""
        return decode_cuts(bytes(self.txn.get(keys.CUTS, b"", db=self.databases.meta)))

    def cut_of(self, key: bytes) -> int:
        """The offset up to which events of an object may have been dropped, by its state key; 0 if none were."""
        whole = key + b"\0"
        return max((one.upto for scope, one in self.cuts.items() if whole.startswith(scope)), default=0)

    # The meta database.

    def meta(self) -> dict[bytes, bytes]:
        return {bytes(key): bytes(value) for key, value in self.txn.cursor(self.databases.meta)}

    @property
    def dialect(self) -> str:
        return bytes(self.txn.get(keys.DIALECT, db=self.databases.meta)).decode()

    @property
    def kubernetes(self) -> str:
        """The version whose form stored objects have; empty: 1.25."""
        return bytes(self.txn.get(keys.KUBERNETES, b"", db=self.databases.meta)).decode()

    @property
    def migrated(self) -> int:
        """The offset since which all objects have that form."""
        return int.from_bytes(self.txn.get(keys.MIGRATED, b"", db=self.databases.meta), "big")

    @property
    def cluster_id(self) -> bytes:
        """16 bytes; empty in a folder of an earlier release that no server has opened since."""
        return bytes(self.txn.get(keys.CLUSTER_ID, b"", db=self.databases.meta))

    @property
    def timelines(self) -> Timelines:
        return decode_timelines(bytes(self.txn.get(keys.TIMELINES, b"", db=self.databases.meta)))

    def types(self) -> dict[str, int]:
        """The numbers of the types by name."""
        return keys.types_in(self.meta())

    def written_types(self) -> list[int]:
        """The numbers of the types that have events, ascending."""
        cursor = self.txn.cursor(self.databases.by_type)
        found: list[int] = []
        while cursor.set_range(keys.by_type(found[-1] if found else 0, keys.MAX_OFFSET)):
            found.append(int.from_bytes(cursor.key()[:2], "big"))
        return found

    def check_type_names(self) -> None:
        """Raise Damaged if a type with events has no name: no server could serve them."""
        nameless = sorted({*self.written_types()} - {*self.types().values()})
        if nameless:
            raise Damaged(f"there are events of type {nameless[0]}, which has no name")

    # The latest state, by key.

    def entries(self, scope: bytes, start: bytes, wanted: int | None) -> Iterator[list[state.Entry]]:
        """Rows of a scope in chunks, starting at the key `start`; `wanted` sizes the first chunk."""
        txn, databases = self.txn, self.databases
        cursor = txn.cursor(databases.state)
        known = None
        if start == scope:
            known = state.checked_count(txn, databases, scope)
        else:
            follows = cursor.set_range(start) and cursor.key()[: len(scope)] == scope
            state.check_continued(txn, databases, cursor, start[:-1])  # see keys.after
            if not follows:
                return iter(())  # otherwise a chunk would read and check rows of other scopes for nothing
        scan = state.Scan(scope, start, known, self._mark(scope[:2]))
        return state.chunks(cursor, partial(txn.get, db=databases.state), self._checked, scan, wanted)

    def _mark(self, packed_type: bytes) -> state.Mark:
        """A value that changes whenever the state of a type changes."""
        cursor = self.txn.cursor(self.databases.by_type)
        beyond = cursor.set_range(packed_type + b"\xff" * 8)
        if not (cursor.prev() if beyond else cursor.last()) or cursor.key()[:2] != packed_type:
            return 0, 0
        return keys.offset_of(cursor.key()), state.count(self.txn, self.databases.counts, packed_type)

    def references(self, type_id: int, start: bytes, count: int) -> list[tuple[bytes, int]]:
        """(key, offset) of up to `count` rows of a type, starting at the key `start`."""
        cursor = self.txn.cursor(self.databases.state)
        return state.references(cursor, keys.pack_type(type_id), start, count)

    # Events, by offset.

    def event(self, offset: int, *, contents: bool = True) -> Event | None:
        if not 0 < offset <= keys.MAX_OFFSET:
            return None
        value = self.txn.get(keys.pack_offset(offset), db=self.databases.events)
        return None if value is None else decode_event(offset, value, contents=contents)

    def events_at(self, offsets: Sequence[int], size: int) -> list[Event]:
        """The events at these offsets that still exist, until they have `size` bytes, with `instead`."""
        cursor = self.txn.cursor(self.databases.events)
        found = cursor.getmulti([keys.pack_offset(offset) for offset in offsets])
        return decode_events(found, self.limit, size, instead=self.instead)

    def readable(self, offset: int, *, contents: bool = True) -> Event | None:
        """Like `event`, for readers of many: with `instead` of one that cannot be read."""
        try:
            return self.event(offset, contents=contents)
        except Damaged as error:
            return self.instead(
                offset, self.txn.get(keys.pack_offset(offset), db=self.databases.events), error
            )

    def readable_of(self, key: bytes, offset: int) -> Event | None:
        """Like `event_of`, with `instead`. Raises Damaged if the event does not exist, or is that of another object."""
        event = self.readable(offset)
        if event is None:
            if not self.has_event(offset):
                raise Damaged(f"event {offset} of {printable(key)} is missing")
        elif keys.find_object(event.type_id, event.namespace, event.name) != key:
            raise Damaged(f"event {offset} is not the one that {printable(key)} had")
        return event

    def version_of(self, key: bytes, offset: int) -> Event:
        """Like `event_of`, but with `instead` of an event of which only the contents cannot be read.

        For readers that must not miss an event: a damaged one raises.
        """
        try:
            return self.event_of(key, offset)
        except Unreadable:
            event = self.readable_of(key, offset)
            if event is None:
                raise
            return event

    def copied(self, offset: int, value: Buffer) -> tuple[Event, Buffer]:
        """An event and its bytes for another journal, which takes only what can be read: with `instead`, and escaped.

        Raises Damaged for a damaged one: a copy that lacks an event would be another history.
        """
        try:
            event = decode_event(offset, value)
            copied = with_escapes(event)
            is_same = copied is event
        except Unreadable as error:
            found = self.instead(offset, value, error)
            if found is None:
                raise
            copied, is_same = found, False
        if problem := field_problem(copied):
            raise Damaged(f"event {offset} has a wrong field ({problem})")
        return copied, value if is_same else encode_event(keys.pack_offset(offset), copied)

    def copied_bytes(self, offset: int, value: Buffer) -> Buffer:
        """The bytes of `copied`, for a receiver that checks the fields itself: in half the time."""
        try:
            decode_event(offset, value)
        except Unreadable:
            return self.copied(offset, value)[1]
        return value

    def has_event(self, offset: int) -> bool:
        """Whether there is an event, readable or not."""
        return self.txn.get(keys.pack_offset(offset), None, self.databases.events) is not None

    def instead(self, offset: int, value: Buffer, error: Damaged) -> Event | None:
        """What readers of many events get in place of one that cannot be read, so that it costs them nothing else.

        If only its contents cannot be read, these are taken from the row of its object if that is the same version, and
        are otherwise empty. A damaged event is left out, and writes stop, as for whoever reads just this event.
        """
        event = decode_event(offset, value, contents=False) if isinstance(error, Unreadable) else None
        if event is None or field_problem(event):
            key = self._key_of(offset)
            self._environment.unreadable.note(offset, self.named(key, error))
            self._environment.note_damage(error)
            return None
        key = keys.of_object(event.type_id, event.namespace, event.name)
        self._environment.unreadable.note(offset, self.named(key, error))
        row = None if event.removed else state.get(self.txn, self.databases.state, key)
        if row is None or row.offset != offset:
            return event
        return event._replace(facts=row.facts, body=row.body)

    def _key_of(self, offset: int) -> bytes:
        """The state key of an event's object, from the index by type; empty if that has no readable entry."""
        for type_id in self.types().values():
            type_key = keys.by_type(type_id, offset)
            value = self.txn.get(type_key, None, self.databases.by_type)
            if value is not None:
                with suppress(Damaged):
                    return decode_link(type_key, value).key
        return b""

    def named(self, key: bytes, error: Damaged) -> str:
        """What is wrong with an event, with the object that it is of."""
        if not key:
            return error.what
        number = int.from_bytes(key[:2], "big")
        name = next((name for name, known in self.types().items() if known == number), f"type {number}")
        where = "/".join(part for part in keys.names_of(key) if part)
        return f"{error.what}, of {name} {where}"

    def event_of(self, key: bytes, offset: int, *, contents: bool = True) -> Event:
        """An event that an index or another event refers to. Raises Damaged if it does not exist."""
        value = self.txn.get(keys.pack_offset(offset), None, self.databases.events)
        if value is None:
            raise Damaged(f"event {offset} of {printable(key)} is missing")
        event = decode_event(offset, value, contents=contents)
        if keys.find_object(event.type_id, event.namespace, event.name) != key:
            raise Damaged(f"event {offset} is not the one that {printable(key)} had")
        return event
