"""The journal as a stream without an end: what a standby and a backup follow. Its layout, its reader on the side of the
leader (`Source`), and its parser on the other (`StreamParser`).

    magic    16 bytes, "rewound stream 1"
    frames   (`frames`) whose payloads begin with a letter:
             H msgpack {cluster, dialect, timelines, types {name: number}, after, base, check, head, floor}
             T msgpack {name: number}       types that are new since
             E offset:8 the event's bytes as the journal stores them (`records`), ascending
             C offset:8 head:8 floor:8      the events since the last one are whole commits, up to this offset;
                                            without events it says that the leader is there, and how far
             X msgpack {gone, message}      the stream ends, and why; `gone`: what follows was removed by retention

A stream begins after an offset. A follower that has nothing gets the state at `base` first, then everything after
it: of the events up to the base, those that are the state at it (as after a retention that ended there). If retention
never removed anything, the base is 0. Else it lies a tenth of the kept time above the retention floor: the state at
the floor itself would change while it is being sent, and the follower has nine tenths of the history from its
beginning on. The state at a base can be resumed after any offset, as long as the floor is not above the base.

A `Source` holds nothing between two parts but offsets: each part is read in one short transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from zlib import crc32

import msgpack

from rewound.journal import history, keys, records
from rewound.journal.errors import Compacted, Damaged
from rewound.journal.frames import BadFrame, FrameChain, FrameParser
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.timelines import Timeline, Timelines
from rewound.journal.transaction import ReadTransaction
from rewound.journal.view import View

MAGIC = b"rewound stream 1"
# Of one part: small enough that other requests do not wait, and that a connection that breaks again and again brings
# something each time; large enough that a follower far behind does not wait for its disk most of the time.
PART_BYTES, PART_EVENTS = 64 << 10, 100
# Of the time that retention keeps, what a new follower does not get.
LEFT_OUT = 10

_COMMIT = struct.Struct(">QQQ")


@dataclass(frozen=True, slots=True)
class Header:
    cluster: bytes
    dialect: str
    timelines: Timelines
    types: dict[str, int]
    after: int
    base: int  # of the events up to it, only those follow that are the state at it
    check: int | None  # CRC-32 of the event at `after`; None if there is none any more
    head: int
    floor: int


@dataclass(frozen=True, slots=True)
class Types:
    types: dict[str, int]


@dataclass(frozen=True, slots=True)
class Stored:
    """An event; its bytes are checked by whoever decodes them."""

    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    offset: int
    head: int
    floor: int


@dataclass(frozen=True, slots=True)
class Ended:
    gone: bool
    message: str


Message = Header | Types | Stored | Commit | Ended


def encode_message(message: Message) -> bytes:
    """The payload of a frame."""
    match message:
        case Stored(offset, value):
            return b"E%b%b" % (keys.pack_offset(offset), value)
        case Commit(offset, head, floor):
            return b"C" + _COMMIT.pack(offset, head, floor)
        case Header():
            return b"H" + _packed(asdict(message) | {"timelines": [list(one) for one in message.timelines]})
        case Types(types):
            return b"T" + _packed(types)
        case Ended():
            return b"X" + _packed(asdict(message))


def _packed(fields: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed


def decode_message(payload: bytes) -> Message | None:
    """None for a message that a later release may send. ValueError."""
    kind, rest = payload[:1], payload[1:]
    try:
        match kind:
            case b"E":
                return Stored(keys.offset_of(rest[:8]), rest[8:])
            case b"C":
                return Commit(*_COMMIT.unpack_from(rest))
            case b"H":
                fields = msgpack.unpackb(rest)
                fields["timelines"] = tuple(Timeline(*one) for one in fields["timelines"])
                return Header(**{name: fields[name] for name in Header.__slots__})
            case b"T":
                return Types({str(name): int(number) for name, number in msgpack.unpackb(rest).items()})
            case b"X":
                fields = msgpack.unpackb(rest)
                return Ended(bool(fields["gone"]), str(fields["message"]))
        return None
    except (struct.error, KeyError, TypeError, AttributeError, msgpack.UnpackException) as wrong:
        raise ValueError(f"a record {kind!r} cannot be read: {wrong!r}") from wrong


class StreamParser:
    """Messages of bytes that arrive in parts."""

    def __init__(self) -> None:
        self._frames = FrameParser(MAGIC)

    def messages(self, data: bytes) -> Iterator[Message]:
        """Those that are complete. BadFrame."""
        for payload in self._frames.payloads(data):
            try:
                message = decode_message(payload)
            except ValueError as wrong:
                raise BadFrame(self._frames.position, str(wrong)) from wrong
            if message is not None:
                yield message


class CommitEnds(Protocol):
    """What is known about where commits end; the journal does not store it."""

    def may_end(self, offset: int) -> bool:
        """False if a commit is known to go on after an event."""


class Source:
    """Reads the journal for one follower, part by part."""

    def __init__(self, journal: Journal, after: int | None, base: int = 0) -> None:
        """Without `after` the follower has nothing yet. Compacted if what it needs was removed."""
        self._journal = journal
        self._chain = FrameChain(MAGIC)
        self._types = journal.types()
        with journal.read() as view:
            floor = view.floor
            if after is None:
                after, base = 0, _new_base(view)
            if max(after, base) < floor:
                raise Compacted(max(after, base), floor)
            self.after, self._base = after, base
            self._header = Header(
                view.cluster_id,
                view.dialect,
                view.timelines,
                self._types,
                after,
                base,
                check_of(view, after),
                view.head,
                floor,
            )

    @property
    def in_state(self) -> bool:
        """Whether a part of the state at the base is next."""
        return self.after < self._base

    def begin(self) -> bytes:
        return MAGIC + self._frame(self._header)

    def state(self) -> bytes:
        """The next part of the state at the base; the last one ends with a commit. Compacted."""
        parts: list[bytes] = []
        size = count = 0
        with self._journal.read() as view:
            if view.floor > self._base:
                raise Compacted(self._base, view.floor)
            for key, value in _events_after(view, self.after, PART_EVENTS):
                if (offset := keys.offset_of(key)) > self._base or size > PART_BYTES:
                    break
                self.after, count = offset, count + 1
                if _is_live(view, records.decode_event(offset, value), self._base):
                    parts.append(self._frame(Stored(offset, bytes(value))))
                    size += len(value)
            if size <= PART_BYTES and count < PART_EVENTS:  # there are no more
                self.after = self._base
            if not self.in_state:
                parts.append(self._commit(view, self._base))
        return b"".join(parts)

    def events(self, head: int, ends: CommitEnds) -> bytes:
        """The next events, up to `head`, which ends a commit. Empty if there are none. Compacted."""
        parts = self._new_types()
        size = count = 0
        with self._journal.read() as view:
            if self.after < view.floor:
                raise Compacted(self.after, view.floor)
            for key, value in _events_after(view, self.after, 8 * PART_EVENTS):
                if (offset := keys.offset_of(key)) > head:
                    break
                records.check_event(offset, value)
                parts.append(self._frame(Stored(offset, bytes(value))))
                self.after = offset
                size, count = size + len(value), count + 1
                if (size > PART_BYTES or count >= PART_EVENTS) and ends.may_end(offset):
                    break
                if size > 8 * PART_BYTES:
                    break
            if count and ends.may_end(self.after):
                parts.append(self._commit(view, self.after))
        return b"".join(parts)

    def heartbeat(self) -> bytes:
        """What a follower gets that has everything: that the leader is there, and its floor."""
        parts = self._new_types()
        with self._journal.read() as view:
            parts.append(self._commit(view, self.after))
        return b"".join(parts)

    def end(self, message: str, *, gone: bool = False) -> bytes:
        return self._frame(Ended(gone, message))

    def _new_types(self) -> list[bytes]:
        types = self._journal.types()
        if len(types) == len(self._types):
            return []
        new = {name: number for name, number in types.items() if name not in self._types}
        self._types = types
        return [self._frame(Types(new))]

    def _commit(self, view: View, offset: int) -> bytes:
        return self._frame(Commit(offset, view.head, view.floor))

    def _frame(self, message: Message) -> bytes:
        return self._chain.frame(encode_message(message))


def check_of(view: ReadTransaction, offset: int) -> int | None:
    """The CRC-32 of an event, by which two journals compare their newest one."""
    value = view.txn.get(keys.pack_offset(offset), db=view.databases.events) if offset else None
    return None if value is None else crc32(value)


def _new_base(view: View) -> int:
    floor, head = view.floor, view.head
    if not floor:
        return 0
    first = next(view.events(floor), None)
    newest = view.event(head)
    if first is None or newest is None:
        raise Damaged("the newest event is missing")
    found = history.offset_at(view, first.time + (newest.time - first.time) // LEFT_OUT)
    return max(floor, min(found, head - 1))


def _events_after(view: View, offset: int, count: int) -> Iterator[tuple[memoryview, memoryview]]:
    cursor = view.txn.cursor(view.databases.events)
    if cursor.set_range(keys.pack_offset(offset + 1)):
        for pair in cursor.iternext():
            if not count:
                return
            count -= 1
            yield pair


def _is_live(view: View, event: Event, base: int) -> bool:
    """Whether an event is the state of its object at an offset, which retention has not passed."""
    if event.removed:
        return False
    of_object = keys.of_object(event.type_id, event.namespace, event.name) + b"\0"
    cursor = view.txn.cursor(view.databases.by_object)
    if not cursor.set_range(of_object + keys.pack_offset(event.offset + 1)):
        return True
    found = bytes(cursor.key())
    return found[:-8] != of_object or keys.offset_of(found) > base
