"""The records of the journal and their bytes: events, state rows, counts and links, with checksums.

`log`, `state` and every reader call it. No record is decoded before its checksum is verified. The checksum covers the
key too, so a valid record under a wrong key is damage. Layouts only grow: a new layout number adds a field at the
end, with one upcaster from the number before, so every release can open an old journal
(`tests/journal/test_golden_bytes.py` has the bytes of each layout).

    event   layout:1 check:4 msgpack[type id, verb, namespace, name, previous, removed, time, user, manager,
                                     contents, reason]                 layout 3; contents are compressed (`contents`),
                                                                       the body is escaped
            layout:1 check:4 msgpack[..., facts, body, reason]         layout 2, of an earlier release
            layout:1 check:4 msgpack[..., facts, body]                 layout 1, the same
            check = crc32(key, layout, msgpack)
    row     check:4 offset:8 layout:1 facts length:4 facts body       layout 0, the body is escaped
            the same                                                   layout 1, of an earlier release
            check = crc32(key, everything after check)
    count   check:4 live:8                                                  check = crc32(key, live)
    link    check:4 layout:1 removed:1 previous:8 namespace 00 name         (the value in by_type)
            check = crc32(key, everything after check)
    meta    values without a checksum; the record `check` has that of all of them

The row's first twelve bytes identify one version of one row: `state` caches checked rows by them.

Bodies written by earlier releases may contain characters that `escapes` escapes; readers get all bodies escaped. Rows
of layout 0, which earlier releases read like 1, and events of layout 3, which they cannot read, have none: a `Batch`
escapes what it writes.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import msgpack
import msgspec

from rewound.journal import fields as checks
from rewound.journal import keys
from rewound.journal.contents import BadContents, TooLarge, compressed, decompressed
from rewound.journal.errors import Damaged, EventTooLarge, NewerLayout, Unreadable
from rewound.journal.escapes import escaped
from rewound.journal.keys import Buffer, pack_offset
from rewound.journal.timelines import decode_timelines

# How recordings mark guesses in reasons; `GUESSED` is at the end of the text.
USER_GUESSED = "user guessed"
CUT = "older versions were dropped to keep --max-disk"  # in the reason of the oldest event that is left (`cuts`)
GUESSED = "field manager guessed"


class Event(NamedTuple):
    """One record of the log: a change of one object."""

    offset: int
    type_id: int
    verb: str
    namespace: str
    name: str
    previous: int  # offset of this object's event before this one; 0 if it did not exist
    removed: bool  # the object was removed; body is its last content, with the new resourceVersion
    time: int  # microseconds since 1970, never decreasing along the log
    user: str
    manager: str
    facts: bytes  # opaque here: labels, selectable fields and more, packed by the writer
    body: bytes  # canonical, escaped JSON, whose metadata.resourceVersion is the offset; both empty without contents
    reason: str = ""  # why it was written, if the writer gave a reason

    @property
    def is_guess(self) -> bool:
        """Whether the field manager of a recorded event is a guess."""
        return self.reason.endswith(GUESSED)

    @property
    def is_user_guess(self) -> bool:
        """Whether the user of a recorded event is a guess: another request in the audit log may have made it."""
        return USER_GUESSED in self.reason and USER_GUESSED in self.reason.split("; ")

    @property
    def is_cut(self) -> bool:
        """Whether the versions before it were dropped, although it follows nothing."""
        return CUT in self.reason

    @property
    def had_before(self) -> bool:
        """Whether the object existed before this event, in the journal or not."""
        return self.previous != 0 or self.is_cut

    @property
    def user_text(self) -> str:
        """The user for a person, marked if the audit log of a recording did not name it."""
        return f"{self.user} (guessed)" if self.is_user_guess else self.user

    @property
    def manager_text(self) -> str:
        """The field manager for a person, marked if a recording could only guess it."""
        return f"{self.manager} (guessed)" if self.is_guess else self.manager


class Row(NamedTuple):
    """The latest state of one object."""

    offset: int
    facts: bytes
    body: bytes


class Link(NamedTuple):
    """An event without its content. A tuple, because a replay reads many of them."""

    offset: int
    key: bytes  # the object's state key
    previous: int
    removed: bool


Fields = list[Any]
Upcaster = Callable[[Fields], Fields]

EVENT_LAYOUT = 3
COMPRESSED_LAYOUT = 3  # from here on
ROW_LAYOUT = 1
ESCAPED_ROW = 0  # the layout of rows whose bodies need no escapes when they are read
LINK_LAYOUT = 1
# Layout n -> function that converts to layout n + 1. An entry never changes once released.
EVENT_UPCASTERS: Mapping[int, Upcaster] = {1: lambda fields: fields, 2: lambda fields: fields}

_EVENT_LEAD = struct.Struct(">BI")
_EVENT_LEAD_SIZE = _EVENT_LEAD.size
# What the checksum of an event covers between its key and its fields.
_TAIL = bytes((EVENT_LAYOUT,))
# How the last byte of an offset, and the layout after it, change the checksum of both: a CRC is linear, so the
# checksums of 256 consecutive keys differ only in this.
_LAST_BYTE = [crc32(pack_offset(last) + b"\0") ^ crc32(bytes(9)) for last in range(256)]
_LAYOUT_BYTE = [crc32(bytes(8) + bytes((layout,))) ^ crc32(bytes(9)) for layout in range(256)]
_CONTENTS = 9  # their place in the fields
_NO_CONTENTS = b"", b""  # facts and body
_ROW_LEAD = struct.Struct(">IQBI")
_LINK_LEAD = struct.Struct(">IBBQ")
_LINK_LEAD_SIZE = _LINK_LEAD.size
_LINK_PREVIOUS = 6  # position of `previous` in a link
_CHECKED_FROM = 4  # position after the checksum, in rows and links
_ROW_LEAD_SIZE = _ROW_LEAD.size
# Rows and links without their checksums.
_pack_row_head = struct.Struct(">QBI").pack
_pack_link_head = struct.Struct(">BBQ").pack
_pack_check = struct.Struct(">I").pack
_pack_event_lead = _EVENT_LEAD.pack
_unpack_row_lead = _ROW_LEAD.unpack_from
_unpack_link_lead = _LINK_LEAD.unpack_from
_unpack_offset = struct.Struct(">Q").unpack_from
# The fields of the newest layout. Lists and maps inside them would take a hundred times their bytes in memory.
_unpack: Callable[[Buffer], Any] = msgspec.msgpack.Decoder(
    tuple[int, str, str, str, int, bool, int, str, str, bytes, str]
).decode
_pack = msgpack.Packer().pack  # a Packer reuses its buffer; packb allocates one for each call

# (checksum, offset) of a row: its identity in the cache of checked rows.
row_identity: Callable[[Buffer], tuple[Any, ...]] = struct.Struct(">IQ").unpack_from


def encode_event(key: bytes, event: Event) -> bytes:
    """The stored bytes of an event. `key` is its packed offset; the record has the other fields, in order.

    Like rows, it must have an escaped body (`with_escapes`). Raises EventTooLarge.
    """
    try:
        contents = compressed(event.facts, event.body)
    except TooLarge as error:
        raise EventTooLarge(described(event), error.size) from None
    packed = _pack((*event[1:10], contents, event.reason))
    encoded: bytes = _pack_event_lead(EVENT_LAYOUT, crc32(packed, crc32(key + _TAIL))) + packed
    return encoded


def decode_event(offset: int, value: Buffer, *, contents: bool = True) -> Event:
    """An event whose checksum is right. Without `contents`, its facts and body are empty, and not decompressed."""
    if len(value) < _EVENT_LEAD.size:
        raise Damaged(f"event {offset} is cut short")
    layout, check = _EVENT_LEAD.unpack_from(value)
    packed = value[_EVENT_LEAD.size :]
    if _event_check(offset, layout, packed) != check:
        raise Damaged(f"event {offset} does not match its checksum")
    try:
        if layout == EVENT_LAYOUT:
            fields = [*_unpack(packed)]
            fields[_CONTENTS : _CONTENTS + 1] = decompressed(fields[_CONTENTS]) if contents else _NO_CONTENTS
            return Event(offset, *fields)
        fields = _unpack_any(packed)
        if COMPRESSED_LAYOUT <= layout <= EVENT_LAYOUT:
            fields[_CONTENTS : _CONTENTS + 1] = decompressed(fields[_CONTENTS]) if contents else _NO_CONTENTS
        elif not contents:
            fields[_CONTENTS : _CONTENTS + 2] = _NO_CONTENTS
        fields = upcast(f"event {offset}", layout, fields, EVENT_LAYOUT, EVENT_UPCASTERS)
        event = Event(offset, *fields)
        return event if layout >= COMPRESSED_LAYOUT else with_escapes(event)
    except BadContents as wrong:
        raise Unreadable(f"event {offset} {_unreadable(offset, layout, packed, wrong)}") from wrong
    except (ValueError, TypeError, AttributeError, IndexError) as wrong:
        raise Damaged(f"event {offset} {_unreadable(offset, layout, packed, wrong)}") from wrong


def with_cut(event: Event) -> Event:
    """The event marked as the oldest one that is left of its object. What recordings read in reasons stays in place."""
    parts = [part for part in event.reason.split("; ") if part and part != CUT]
    parts.insert(len(parts) - event.is_guess, CUT)
    return event._replace(reason="; ".join(parts))


def _unpack_any(packed: Buffer) -> Any:
    """The fields of a record whose types may be wrong. Raises ValueError; takes no more memory than a record may."""
    lists = 0

    def count(made: list[Any]) -> list[Any]:
        nonlocal lists
        lists += 1
        if lists > _MOST_FIELDS:
            raise ValueError("it has lists in lists")
        return made

    return msgpack.unpackb(packed, max_array_len=_MOST_FIELDS, max_map_len=_MOST_FIELDS, list_hook=count)


_MOST_FIELDS = 16


def with_escapes(event: Event) -> Event:
    """The event with an escaped body: it may be of an earlier release, also by way of etcd or an export."""
    body = escaped(event.body)
    return event if body is event.body else event._replace(body=body)


def _unreadable(offset: int, layout: int, packed: Buffer, wrong: Exception) -> str:
    """Why an event cannot be decoded although its checksum is right."""
    try:
        fields = checks.sequence("its fields", _unpack_any(packed))
    except (ValueError, TypeError) as unpacked:
        return f"cannot be read ({unpacked})"
    if len(fields) not in (len(Event._fields) - 2, len(Event._fields) - 1):
        return f"has {len(fields)} fields"
    if layout >= COMPRESSED_LAYOUT:
        try:
            contents = checks.octets("contents", fields[_CONTENTS])
            fields = [*fields[:_CONTENTS], *decompressed(contents), *fields[_CONTENTS + 1 :]]
        except TooLarge as large:
            fields[_CONTENTS : _CONTENTS + 1] = _NO_CONTENTS
            event = Event(offset, *fields)
            return f"has a wrong field ({field_problem(event) or f'{large}; of {described(event)}'})"
        except ValueError as unpacked:
            return f"has a wrong field ({unpacked})"
    return f"has a wrong field ({field_problem(Event(offset, *fields)) or wrong})"


def described(event: Event) -> str:
    """The object of an event as errors show it: type 1, default/web."""
    return f"type {event.type_id}, {event.namespace}/{event.name}"


def body_without_key(layout: int, packed: Buffer) -> bytes:
    """The body of an event whose key is lost, unchecked, so that it can say which one it was; empty if unreadable."""
    try:
        fields = checks.sequence("its fields", _unpack_any(packed))
        if layout < COMPRESSED_LAYOUT:
            return checks.octets("body", fields[_CONTENTS + 1])
        return decompressed(checks.octets("contents", fields[_CONTENTS]))[1]
    except (ValueError, TypeError, IndexError):
        return b""


def checked_event(offset: int, value: Buffer) -> Event:
    """Like `decode_event`, but also checks every field: another program may have written it. Raises Damaged."""
    event = decode_event(offset, value)
    if problem := field_problem(event):
        raise Damaged(f"event {offset} has a wrong field ({problem})")
    return event


MAX_TIME = 253_402_300_799_999_999  # microseconds: the end of the year 9999, the last one that dates support


def field_problem(event: Event) -> str:
    """Which field of an event is impossible, and why; empty if none is. Ignores what facts and body say."""
    offset = event.offset
    try:
        checks.number("offset", offset, 1, keys.LARGEST_OFFSET)
        checks.number("type", event.type_id, 1, keys.MAX_TYPES)
        for name in _TEXTS:
            checks.text(name, getattr(event, name))
        checks.number("previous", event.previous, 0, offset - 1)
        checks.boolean("removed", event.removed)
        checks.number("time", event.time, 0, MAX_TIME)
        checks.octets("facts", event.facts)
        checks.octets("body", event.body)
    except ValueError as wrong:
        return str(wrong)
    if keys.find_object(event.type_id, event.namespace, event.name) is None:
        return f"name: no object can be called {checks.described(f'{event.namespace}/{event.name}')[9:]}"
    if escaped(event.body) != event.body:
        return "body: it has characters that are escaped in stored objects"
    return ""


_TEXTS = ("verb", "namespace", "name", "user", "manager", "reason")


# What a reader of many events gets in place of one that cannot be read; None: nothing. It may raise the error.
Instead = Callable[[int, Buffer, Damaged], Event | None]


def raised(_offset: int, _value: Buffer, error: Damaged) -> Event | None:
    raise error


def decode_events(
    pairs: Iterable[tuple[Buffer, Buffer]],
    end: int,
    size: int,
    count: int = keys.MAX_OFFSET,
    instead: Instead = raised,
) -> list[Event]:
    """Up to `count` events from keys and values, up to the offset `end`, until their contents have `size` bytes.

    Like `decode_event` for each, in half the time: a replay reads all of them.
    """
    found: list[Event] = []
    add, crc, to_offset = found.append, crc32, int.from_bytes
    unpack, unpack_lead, last_byte = _unpack, _EVENT_LEAD.unpack_from, _LAST_BYTE
    of_layout = _LAYOUT_BYTE[EVENT_LAYOUT]
    # All bytes of the offset but the last, and the checksum of a key that starts with them.
    higher, check_of_higher = -1, 0
    for key, value in pairs:
        offset = to_offset(key, "big")
        if offset > end:
            break
        if offset >> 8 != higher:
            higher = offset >> 8
            check_of_higher = crc(pack_offset(higher << 8) + b"\0") ^ of_layout
        packed = value[_EVENT_LEAD_SIZE:]
        layout, check = unpack_lead(value) if len(value) >= _EVENT_LEAD_SIZE else (0, 0)
        if layout == EVENT_LAYOUT and crc(packed, check_of_higher ^ last_byte[offset & 255]) == check:
            event: Event | None
            try:
                fields = [*unpack(packed)]
                fields[_CONTENTS : _CONTENTS + 1] = decompressed(fields[_CONTENTS])
                event = Event(offset, *fields)
            except (ValueError, TypeError, AttributeError, IndexError):
                event = _event_or(instead, offset, value)
        else:
            event = _event_or(instead, offset, value)
        if event is None:
            continue
        add(event)
        size -= len(event.facts) + len(event.body)
        if size <= 0 or len(found) >= count:
            break
    return found


def _event_or(instead: Instead, offset: int, value: Buffer) -> Event | None:
    """`decode_event`, which says what is wrong with an event that cannot be read."""
    try:
        return decode_event(offset, value)
    except Damaged as error:
        return instead(offset, value, error)


def upcast(what: str, layout: int, fields: Fields, newest: int, upcasters: Mapping[int, Upcaster]) -> Fields:
    """Convert the fields of an older layout step by step to the newest one."""
    if layout > newest:
        raise NewerLayout(what, layout, newest)
    if layout < 1:
        raise Damaged(f"{what} has layout {layout}")
    for step in range(layout, newest):
        fields = upcasters[step](fields)
    return fields


def _event_check(offset: int, layout: int, packed: Buffer) -> int:
    return crc32(packed, crc32(pack_offset(offset) + bytes((layout,))))


def encode_row(key: bytes, offset: int, facts: bytes, body: bytes) -> bytes:
    head = _pack_row_head(offset, ESCAPED_ROW, len(facts)) + facts
    return _pack_check(crc32(body, crc32(key + head))) + head + body


def decode_row(key: bytes, value: Buffer) -> tuple[int, bytes, bytes]:
    """(offset, facts, body) of a state value. Raises Damaged if its checksum does not match."""
    raw = bytes(value)
    if len(raw) < _ROW_LEAD_SIZE:
        raise Damaged(f"the state of {printable(key)} is cut short")
    check, offset, layout, length = _unpack_row_lead(raw)
    if crc32(value[_CHECKED_FROM:], crc32(key)) != check:
        raise Damaged(f"the state of {printable(key)} does not match its checksum")
    if layout > ROW_LAYOUT:
        raise NewerLayout(f"the state of {printable(key)}", layout, ROW_LAYOUT)
    middle = _ROW_LEAD_SIZE + length
    body = raw[middle:]
    return offset, raw[_ROW_LEAD_SIZE:middle], body if layout == ESCAPED_ROW else escaped(body)


def row_offset(key: bytes, value: memoryview) -> int:
    """The offset of a state value, checked as by `decode_row` but without copying its contents."""
    return _row_lead(key, value)[0]


def row_facts(key: bytes, value: memoryview) -> bytes:
    """The facts of a state value, checked as by `decode_row` but without copying its body."""
    return value[_ROW_LEAD_SIZE : _ROW_LEAD_SIZE + _row_lead(key, value)[1]].tobytes()


def _row_lead(key: bytes, value: memoryview) -> tuple[int, int]:
    """The offset of a state value, and the length of its facts."""
    if len(value) < _ROW_LEAD_SIZE:
        raise Damaged(f"the state of {printable(key)} is cut short")
    check, offset, layout, length = _unpack_row_lead(value)
    if crc32(value[_CHECKED_FROM:], crc32(key)) != check:
        raise Damaged(f"the state of {printable(key)} does not match its checksum")
    if layout > ROW_LAYOUT:
        raise NewerLayout(f"the state of {printable(key)}", layout, ROW_LAYOUT)
    return offset, length


def encode_link(type_key: bytes, state_key: bytes, previous: int, removed: bool) -> bytes:
    """The value of an event in by_type; its type is in the key."""
    rest = _pack_link_head(LINK_LAYOUT, removed, previous) + state_key[2:]
    return _pack_check(crc32(type_key + rest)) + rest


def decode_link(type_key: bytes, value: Buffer) -> Link:
    raw = bytes(value)
    (offset,) = _unpack_offset(type_key, 2)
    if len(raw) < _LINK_LEAD_SIZE:
        raise Damaged(f"the index entry of event {offset} is cut short")
    check, layout, removed, previous = _unpack_link_lead(raw)
    if crc32(raw[_CHECKED_FROM:], crc32(type_key)) != check:
        raise Damaged(f"the index entry of event {offset} does not match its checksum")
    if layout > LINK_LAYOUT:
        raise NewerLayout(f"the index entry of event {offset}", layout, LINK_LAYOUT)
    return Link(offset, type_key[:2] + raw[_LINK_LEAD_SIZE:], previous, removed == 1)


def previous_in_link(value: Buffer) -> int:
    """The previous offset in a link. Not checked: the caller compares it with the event."""
    if len(value) < _LINK_LEAD_SIZE:
        raise Damaged("an index entry is cut short")
    previous: int = _unpack_offset(value, _LINK_PREVIOUS)[0]
    return previous


def encode_count(scope: bytes, live: int) -> bytes:
    packed = pack_offset(live)
    return crc32(packed, crc32(scope)).to_bytes(4, "big") + packed


def decode_count(scope: Buffer, value: Buffer) -> int:
    packed = value[_CHECKED_FROM:]
    if crc32(packed, crc32(scope)) != int.from_bytes(value[:_CHECKED_FROM], "big"):
        raise Damaged(f"the count of {printable(scope)} does not match its checksum")
    return int.from_bytes(packed, "big")


_META_KEYS = (
    *(keys.LAYOUT, keys.DIALECT, keys.FLOOR, keys.CLUSTER_ID, keys.CHECK, keys.PROBE),
    *(keys.TIMELINES, keys.FOLLOWS, keys.KUBERNETES, keys.MIGRATED, keys.THINNED, keys.CUTS),
)


def meta_check(stored: Mapping[bytes, bytes]) -> bytes:
    """The value of the record `check`: the checksum of all records, the highest type number, and the floor.

    Earlier releases do not know the record and change only the last two, so `meta_problem` can detect their writes.
    """
    return _check_of_sorted(sorted(stored.items()))


def _check_of_sorted(records: list[tuple[bytes, bytes]]) -> bytes:
    covered = [_covered(key, value) for key, value in records if key not in _NOT_COVERED]
    newest = max([value for key, value in records if key.startswith(keys.TYPE_PREFIX)], default=_NO_TYPE)
    floor = next((value for key, value in records if key == keys.FLOOR), b"")
    return crc32(b"".join(covered)).to_bytes(4, "big") + newest + floor


def _covered(key: bytes, value: bytes) -> bytes:
    return b"%d %d %b%b" % (len(key), len(value), key, value)


_NOT_COVERED = (keys.CHECK, keys.PROBE)
_NO_TYPE = keys.pack_type(0)


def meta_problem(stored: Mapping[bytes, bytes], *, earlier_release: bool) -> str:
    """What is wrong with the records of the database meta, in a few words; empty if nothing is.

    With `earlier_release`, a release that knows neither the identity file nor the checksum may have written since, so
    types may have been added and the floor may be higher.
    """
    for key in (keys.LAYOUT, keys.DIALECT, keys.FLOOR):
        if key not in stored:
            return f"has no record {key.decode()!r}"
    check = stored.get(keys.CHECK)
    if check not in (None, meta_check(stored)) and not (earlier_release and _was_right(stored, check)):
        return "does not match its checksum"
    for key in stored:
        if key not in _META_KEYS and not key.startswith(keys.TYPE_PREFIX):
            return f"has an unknown record {key!r}"
    try:
        check_meta_values(stored)
    except ValueError as wrong:
        return f"has a wrong record ({wrong})"
    return ""


def check_meta_values(stored: Mapping[bytes, bytes]) -> None:
    """Check the records that opening a journal uses. Raises ValueError naming the wrong one."""
    checks.octets("floor", stored[keys.FLOOR], 8)
    checks.number("floor", int.from_bytes(stored[keys.FLOOR], "big"), 0, keys.LARGEST_OFFSET)
    decode_timelines(stored.get(keys.TIMELINES, b""))
    keys.check_kubernetes("kubernetes", stored.get(keys.KUBERNETES, b"").decode())
    checks.octets("migrated", stored.get(keys.MIGRATED, bytes(8)), 8)
    decode_thinned(stored.get(keys.THINNED, b""))
    decode_cuts(stored.get(keys.CUTS, b""))
    names: dict[int, str] = {}
    for name, number in keys.types_in(stored).items():
        checks.number(f"type {name}", number, 1, keys.MAX_TYPES)
        if number in names:
            raise ValueError(f"type {name}: has the number {number}, which {names[number]} has too")
        names[number] = name


class Thinned(NamedTuple):
    """How much of a type was dropped: what changed nothing but times, or all that no present object needs."""

    upto: int  # versions from here on are exact
    dropped: int  # events, in all
    whole: bool = False  # not only what changed nothing but times


def thinned_before(marks: Mapping[int, Thinned], head: int) -> dict[int, Thinned]:
    """The same for a copy of the journal that ends at `head`: what is written there afterwards is exact."""
    return {type_id: one._replace(upto=min(one.upto, head)) for type_id, one in marks.items()}


def encode_thinned(marks: Mapping[int, Thinned]) -> bytes:
    """The record `thinned`: type:2 upto:8 dropped:8 for each type, ascending; the first bit of the last is `whole`."""
    return b"".join(
        _THINNED.pack(type_id, mark.upto, mark.dropped | mark.whole << _WHOLE)
        for type_id, mark in sorted(marks.items())
    )


def decode_thinned(value: bytes) -> dict[int, Thinned]:
    """What was thinned, by type. Raises ValueError if the record is wrong."""
    if len(value) % _THINNED.size:
        raise ValueError(f"thinned: it has {len(value)} bytes")
    return {
        type_id: Thinned(upto, dropped & ((1 << _WHOLE) - 1), bool(dropped >> _WHOLE))
        for type_id, upto, dropped in _THINNED.iter_unpack(value)
    }


_THINNED = struct.Struct(">HQQ")
_WHOLE = 63


class Cut(NamedTuple):
    """What was dropped of the objects of a type in a namespace, or of one object."""

    upto: int  # versions from here on are exact
    dropped: int  # events
    size: int  # their bytes


def encode_cuts(marks: Mapping[bytes, Cut]) -> bytes:
    """The record `cuts`: upto:8 dropped:8 size:8 length:2 scope, for each, in the order in which they were cut.

    A scope is type:2 namespace 00, or type:2 namespace 00 name 00.
    """
    return b"".join(_CUT.pack(*cut, len(scope)) + scope for scope, cut in marks.items())


def decode_cuts(value: bytes) -> dict[bytes, Cut]:
    """What was cut, by scope. Raises ValueError if the record is wrong."""
    marks: dict[bytes, Cut] = {}
    position = 0
    while position < len(value):
        try:
            upto, dropped, size, length = _CUT.unpack_from(value, position)
        except struct.error:
            raise ValueError("cuts: it is cut short") from None
        position += _CUT.size
        scope = value[position : position + length]
        position += length
        if len(scope) != length or scope[2:].count(b"\0") not in (1, 2) or scope[-1:] != b"\0":
            raise ValueError("cuts: a scope is wrong")
        marks[scope] = Cut(upto, dropped, size)
    return marks


_CUT = struct.Struct(">QQQH")


def _was_right(stored: Mapping[bytes, bytes], check: bytes) -> bool:
    """Whether the records were right before types were added and the floor was raised."""
    newest, floor = check[4:6], check[6:]
    before = {
        key: value
        for key, value in stored.items()
        if not (key.startswith(keys.TYPE_PREFIX) and value > newest)
    }
    return floor <= stored[keys.FLOOR] and check == meta_check({**before, keys.FLOOR: floor})


def put_meta(txn: Any, database: Any, changes: Mapping[bytes, bytes | None]) -> None:
    """Store records of the database meta, or delete those that are None, and store the checksum of all."""
    for key, value in changes.items():
        if value is None:
            txn.delete(key, db=database)
        else:
            txn.put(key, value, db=database)
    in_order = [(bytes(key), bytes(value)) for key, value in txn.cursor(database)]
    txn.put(keys.CHECK, _check_of_sorted(in_order), db=database)


class MetaWriter:
    """Stores records like `put_meta`, but caches what the checksum covers, so that a new type need not read all
    others.

    The cache is valid as long as the checksum in the database is the one that this object wrote.
    """

    def __init__(self) -> None:
        self._keys: list[bytes] = []  # sorted
        self._covered: list[bytes] = []  # the part of each record that the checksum covers
        self._newest = self._floor = self._check = b""

    def put(self, txn: Any, database: Any, changes: Mapping[bytes, bytes]) -> None:
        if not self._check or txn.get(keys.CHECK, db=database) != self._check:
            self._read(txn, database)
        for key, value in changes.items():
            txn.put(key, value, db=database)
            self._set(key, value)
        self._check = crc32(b"".join(self._covered)).to_bytes(4, "big") + self._newest + self._floor
        txn.put(keys.CHECK, self._check, db=database)

    def _read(self, txn: Any, database: Any) -> None:
        self._keys, self._covered, self._newest, self._floor = [], [], _NO_TYPE, b""
        for key, value in txn.cursor(database):
            self._set(bytes(key), bytes(value))

    def _set(self, key: bytes, value: bytes) -> None:
        if key in _NOT_COVERED:
            return
        if key.startswith(keys.TYPE_PREFIX):
            self._newest = max(self._newest, value)
        elif key == keys.FLOOR:
            self._floor = value
        index = bisect_left(self._keys, key)
        if index == len(self._keys) or self._keys[index] != key:
            self._keys.insert(index, key)
            self._covered.insert(index, b"")
        self._covered[index] = _covered(key, value)


def printable(key: Buffer) -> str:
    """A state key as errors show it: type 1, default/web."""
    raw = bytes(key)
    names = raw[2:].replace(b"\0", b"/").decode(errors="backslashreplace")
    return f"type {int.from_bytes(raw[:2], 'big')}, {names}"
