"""The journal as an endless stream, which standbys and backups follow: its layout, the leader's reader (`Source`),
and the follower's parser (`StreamParser`).

    magic    16 bytes, "rewound stream 1"
    frames   (`frames`) whose payloads begin with a letter:
             H msgpack {cluster, dialect, timelines, types {name: number}, after, base, check, head, floor,
                        kubernetes, migrated, thinned}
             T msgpack {name: number}       new types
             E offset:8 the event's bytes as the journal stores them (`records`), ascending
             C offset:8 head:8 floor:8      the events since the last C are whole commits, up to this offset;
                                            without events: a heartbeat with the leader's head
             X msgpack {gone, message, damaged}
                                            why the stream ends; `gone`: retention removed what follows;
                                            `damaged`: what the leader cannot read

A stream begins after an offset. A follower that has nothing first gets the state at `base` (of the events up to the
base, only those that are the state at it, as after a retention up to there), then everything after it. If retention
never removed anything, the base is 0. Otherwise it lies a tenth of the retained time above the retention floor,
because the state at the floor itself would change while it is being sent; so the follower starts with nine tenths of
the history. Sending the state at a base can be resumed after any offset, as long as the floor is not above the base.

Between two parts a `Source` holds only offsets: each part is read in one short transaction.

A checksum proves that a frame is the one that was sent. `StreamParser` also checks that it may be stored: every
field, the order of events, their types and times.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol
from zlib import crc32

import msgpack

from rewound.journal import fields, history, keys, records
from rewound.journal.errors import Compacted, Damaged, Unreadable
from rewound.journal.frames import FrameChain, FrameParser
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.timelines import Timelines, checked_timelines
from rewound.journal.transaction import ReadTransaction
from rewound.journal.view import View

MAGIC = b"rewound stream 1"
# For one part: small enough that other requests do not wait, and that a connection that keeps breaking makes progress
# each time; large enough that a follower far behind does not mostly wait for its disk.
PART_BYTES, PART_EVENTS = 64 << 10, 100
# A new follower does not get this fraction of the retained time.
LEFT_OUT = 10

MAX_MESSAGE = 1000  # characters shown of a leader's reason for ending the stream

_COMMIT = struct.Struct(">QQQ")


@dataclass(frozen=True, slots=True)
class Header:
    cluster: bytes
    dialect: str
    timelines: Timelines
    types: dict[str, int]
    after: int
    base: int  # of the events up to it, only those that are the state at it are sent
    check: int | None  # CRC-32 of the event at `after`; None if it does not exist any more
    head: int
    floor: int
    # The version of Kubernetes whose form objects have, and since when. Earlier releases do not send them.
    kubernetes: str = ""
    migrated: int = 0
    thinned: bytes = b""  # the record of meta: what was dropped because it changed only times


@dataclass(frozen=True, slots=True)
class Types:
    types: dict[str, int]


@dataclass(frozen=True, slots=True)
class Stored:
    """An event. One from a `StreamParser` is decoded and checked; others have only the received bytes."""

    offset: int
    value: bytes
    event: Event | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Bytes in memory: a compressed event may be a thousand times as large when it is decoded."""
        return len(self.value) + (len(self.event.facts) + len(self.event.body) if self.event else 0)


@dataclass(frozen=True, slots=True)
class Commit:
    offset: int
    head: int
    floor: int


@dataclass(frozen=True, slots=True)
class Ended:
    gone: bool
    message: str
    damaged: str = ""


Message = Header | Types | Stored | Commit | Ended


def encode_message(message: Message) -> bytes:
    """The payload of a frame."""
    match message:
        case Stored(offset=offset, value=value):
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
    """The message in a payload; None if only a later release knows it. Raises ValueError naming the wrong field."""
    kind, rest = payload[:1], payload[1:]
    decode = _DECODERS.get(kind)
    return None if decode is None else decode(rest)


def _event_of(rest: bytes) -> Stored:
    if len(rest) < keys.OFFSET_SIZE:
        raise ValueError(f"event: it has {len(rest)} bytes")
    offset = keys.offset_of(rest[: keys.OFFSET_SIZE])
    return Stored(fields.number("event: offset", offset, 1, keys.LARGEST_OFFSET), rest[keys.OFFSET_SIZE :])


def _commit_of(rest: bytes) -> Commit:
    if len(rest) < _COMMIT.size:
        raise ValueError(f"commit: it has {len(rest)} bytes")
    offset, head, floor = _COMMIT.unpack_from(rest)
    fields.number("commit: head", head, 0, keys.LARGEST_OFFSET)
    fields.number("commit: offset", offset, 0, head)
    return Commit(offset, head, fields.number("commit: floor", floor, 0, head))


def _header_of(rest: bytes) -> Header:
    found = _unpacked("header", rest, _REQUIRED, _OPTIONAL)
    for name in ("after", "base", "head", "floor"):
        fields.number(f"header: {name}", found[name], 0, keys.LARGEST_OFFSET)
    if found["check"] is not None:
        fields.number("header: check", found["check"], 0, 0xFFFF_FFFF)
    fields.octets("header: cluster", found["cluster"], 16)
    fields.text("header: dialect", found["dialect"], keys.MAX_DIALECT)
    keys.check_kubernetes("header: kubernetes", found.get("kubernetes", ""))
    fields.number("header: migrated", found.get("migrated", 0), 0, keys.LARGEST_OFFSET)
    records.decode_thinned(fields.octets("header: thinned", found.get("thinned", b"")))
    keys.check_types("header: types", found["types"])
    try:
        found["timelines"] = checked_timelines(found["timelines"])
    except ValueError as wrong:
        raise ValueError(f"header: {wrong}") from None
    return Header(**found)


_OPTIONAL: Final = ("kubernetes", "migrated", "thinned")
_REQUIRED: Final = tuple(name for name in Header.__slots__ if name not in _OPTIONAL)


def _types_of(rest: bytes) -> Types:
    return Types(keys.check_types("types", _unpack("types", rest)))


def _ended_of(rest: bytes) -> Ended:
    found = _unpacked("end", rest, ("gone", "message"), ("damaged",))
    return Ended(
        fields.boolean("end: gone", found["gone"]),
        fields.text("end: message", found["message"])[:MAX_MESSAGE],
        fields.text("end: damaged", found.get("damaged", ""))[:MAX_MESSAGE],
    )


_DECODERS: Final[dict[bytes, Callable[[bytes], Message]]] = {
    b"E": _event_of,
    b"C": _commit_of,
    b"H": _header_of,
    b"T": _types_of,
    b"X": _ended_of,
}


def _unpacked(what: str, rest: bytes, names: Iterable[str], others: Iterable[str] = ()) -> dict[str, Any]:
    """The required fields of a record, and those optional ones that are there. A later release may send more."""
    found = fields.mapping(what, _unpack(what, rest))
    for name in names:
        if name not in found:
            raise ValueError(f"{what}: {name}: is missing")
    return {name: found[name] for name in (*names, *others) if name in found}


def _unpack(what: str, rest: bytes) -> Any:
    try:
        return msgpack.unpackb(rest)
    except (ValueError, TypeError, msgpack.UnpackException) as wrong:
        raise ValueError(f"{what}: cannot be unpacked: {wrong}") from wrong


class BadMessage(Exception):
    """A record that matches its checksum but that no server should send: retrying does not help."""

    def __init__(self, position: int, why: str) -> None:
        self.position, self.why = position, why
        super().__init__(f"at byte {position}: {why}")


class StreamParser:
    """Turns bytes that arrive in parts into checked messages, which may be stored."""

    def __init__(self) -> None:
        self._frames = FrameParser(MAGIC)
        self._types: dict[str, int] | None = None  # None before the header
        self._numbers: set[int] = set()
        self._newest = self._time = 0  # offset and time of the newest event

    def messages(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with this data.

        Raises BadFrame or BadMessage, and Damaged or NewerLayout for an event.
        """
        for payload in self._frames.payloads(data):
            try:
                message = decode_message(payload)
                if message is not None:
                    message = self._checked(message)
            except ValueError as wrong:
                raise BadMessage(self._frames.position, str(wrong)) from wrong
            if message is not None:
                yield message

    def _checked(self, message: Message) -> Message:
        """The same message, if it may follow those before it. Raises ValueError otherwise."""
        if (self._types is None) != isinstance(message, Header):
            raise ValueError("header: there must be exactly one, at the start")
        match message:
            case Header(types=types, after=after):
                self._types, self._numbers, self._newest = dict(types), set(types.values()), after
            case Types(types):
                self._add_types(types)
            case Stored():
                return self._checked_event(message)
            case Commit(offset):
                if offset < self._newest:
                    raise ValueError(f"commit: offset: {offset} is below that of event {self._newest}")
                self._newest = offset
        return message

    def _add_types(self, types: dict[str, int]) -> None:
        assert self._types is not None
        for name, number in types.items():
            if self._types.get(name, number) != number or (
                name not in self._types and number in self._numbers
            ):
                raise ValueError(
                    f"types: {name}: {number} is another number than before, or that of another type"
                )
        self._types |= types
        self._numbers.update(types.values())

    def _checked_event(self, stored: Stored) -> Stored:
        offset = stored.offset
        if offset <= self._newest:
            raise ValueError(f"event: offset: {offset} does not follow {self._newest}")
        event = records.checked_event(offset, stored.value)
        if event.type_id not in self._numbers:
            raise ValueError(f"event {offset}: type: {event.type_id} has no name")
        if event.time < self._time:
            raise ValueError(f"event {offset}: time: it is earlier than the event before it")
        self._newest, self._time = offset, event.time
        return Stored(offset, stored.value, event)


class CommitEnds(Protocol):
    """Knows where commits end, which the journal does not store."""

    def may_end(self, offset: int) -> bool:
        """False if an event is known not to be the last of its commit."""


class Source:
    """Reads the journal for one follower, part by part."""

    def __init__(self, journal: Journal, after: int | None, base: int = 0) -> None:
        """Start after the offset `after`, or without it with the state. Raises Compacted if events were removed."""
        self._journal = journal
        self._chain = FrameChain(MAGIC)
        self._types = journal.types()
        with journal.read() as view:
            floor = view.floor
            if after is None:
                after, base = 0, _new_base(view)
            if max(after, base) < (oldest := _oldest(view)):
                raise Compacted(max(after, base), oldest)
            self.after, self._base = after, base
            self._header = Header(
                view.cluster_id,
                view.dialect,
                view.timelines,
                self._types,
                after,
                base,
                event_checksum(view, after),
                view.head,
                floor,
                view.kubernetes,
                view.migrated,
                records.encode_thinned(view.thinned),
            )

    @property
    def in_state(self) -> bool:
        """Whether a part of the state at the base is sent next."""
        return self.after < self._base

    def begin(self) -> bytes:
        return MAGIC + self._frame(self._header)

    def state(self) -> bytes:
        """The next part of the state at the base; the last one ends with a commit. Raises Compacted."""
        part = _Part()
        with self._journal.read() as view:
            if (oldest := _oldest(view)) > self._base:
                raise Compacted(self._base, oldest)
            try:
                after = self._read_state(view, part)
            except Damaged:
                if not part.messages:
                    raise
                after = part.newest
            if after == self._base:
                part.messages.append(Commit(after, view.head, view.floor))
        return self._sent(part, after)

    def _read_state(self, view: View, part: _Part) -> int:
        """Add events to a part; return the offset up to which it is complete.

        If it raises Damaged, the events added before can be sent.
        """
        after = self.after
        for key, value in _events_after(view, after, PART_EVENTS):
            if (offset := keys.offset_of(key)) > self._base:
                return self._base
            if part.size > PART_BYTES:
                return after
            event, sent = view.copied(offset, value)
            after, part.count = offset, part.count + 1
            if _is_live(view, event, self._base):
                part.add(Stored(offset, bytes(sent)))
        return after if part.count == PART_EVENTS else self._base

    def events(self, head: int, ends: CommitEnds) -> bytes:
        """The next events up to `head`, which ends a commit; empty if there are none. Raises Compacted."""
        part = _Part()
        with self._journal.read() as view:
            if self.after < (oldest := _oldest(view)):
                raise Compacted(self.after, oldest)
            try:
                self._read_events(view, part, head, ends)
            except Damaged:
                if not part.count:
                    raise
            after = part.newest or self.after
            if part.count and ends.may_end(after):
                part.messages.append(Commit(after, view.head, view.floor))
        return self._sent(part, after)

    def _read_events(self, view: View, part: _Part, head: int, ends: CommitEnds) -> None:
        """Add events to a part. If it raises Damaged, the events added before can be sent."""
        for key, value in _events_after(view, self.after, 8 * PART_EVENTS):
            if (offset := keys.offset_of(key)) > head:
                return
            part.add(Stored(offset, bytes(view.copied_bytes(offset, value))))
            part.count += 1
            full = part.size > PART_BYTES or part.count >= PART_EVENTS
            if (full and ends.may_end(offset)) or part.size > 8 * PART_BYTES:
                return

    def heartbeat(self) -> bytes:
        """Sent to a follower that has everything: the leader is alive, and this is its floor."""
        part = _Part()
        with self._journal.read() as view:
            part.messages.append(Commit(self.after, view.head, view.floor))
        return self._sent(part, self.after)

    def end(self, message: str, *, gone: bool = False, damaged: str = "") -> bytes:
        return self._frame(Ended(gone, message, damaged))

    def _sent(self, part: _Part, after: int) -> bytes:
        """The frames of a part. Call it when nothing can fail any more: checksums of frames are chained."""
        types = self._journal.types()  # read now, so that it has the types of all events of this part
        new = {name: number for name, number in types.items() if name not in self._types}
        self._types, self.after = types, after
        messages = [Types(new), *part.messages] if new else part.messages
        return b"".join(map(self._frame, messages))

    def _frame(self, message: Message) -> bytes:
        return self._chain.frame(encode_message(message))


class _Part:
    """The messages that are sent at once."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.size = self.count = 0  # size and number of the events
        self.newest = 0

    def add(self, stored: Stored) -> None:
        self.messages.append(stored)
        self.size += len(stored.value)
        self.newest = stored.offset


def event_checksum(view: ReadTransaction, offset: int) -> int | None:
    """The CRC-32 of an event, to compare the newest events of two journals.

    None if thinning may have changed it, or if its contents cannot be read, so that copies have others.
    """
    try:
        event = view.event(offset)
    except Unreadable:
        return None
    if event is None or offset <= view.thinned.get(event.type_id, (0, 0))[0]:
        return None
    return crc32(view.txn.get(keys.pack_offset(offset), db=view.databases.events))


def _oldest(view: View) -> int:
    """The offset after which no removal of an object was dropped: followers need all of them."""
    return max([view.floor, *(one.upto for one in view.thinned.values() if one.whole)])


def _new_base(view: View) -> int:
    floor, head = _oldest(view), view.head
    if not floor:
        return 0
    first = next(view.events(floor, contents=False), None)
    newest = view.event(head, contents=False)
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
    """Whether an event is the state of its object at `base`, which must not be below the retention floor."""
    if event.removed:
        return False
    of_object = keys.of_object(event.type_id, event.namespace, event.name) + b"\0"
    cursor = view.txn.cursor(view.databases.by_object)
    if not cursor.set_range(of_object + keys.pack_offset(event.offset + 1)):
        return True
    found = bytes(cursor.key())
    return found[:-8] != of_object or keys.offset_of(found) > base
