"""What the journal stores, and its bytes: the event, the state row, their checksums and their layouts.

Called by `log`, `state` and every reader. The invariant: nothing is decoded before its checksum held, and the
checksum covers the key too, so a sound record under a wrong key is damage as well. Layouts only ever grow: a
field is added at the end with a new layout number and one upcaster from the number before, so an old journal
opens for ever (`tests/journal/test_golden_bytes.py` keeps the bytes of each layout).

    event   layout:1 check:4 msgpack[type id, verb, namespace, name, previous, removed, time, user, manager,
                                     facts, body]
            check = crc32(key, layout, msgpack)
    row     check:4 offset:8 layout:1 facts length:4 facts body
            check = crc32(key, everything behind check)

The row's first twelve bytes name one version of one row: by them `state` knows what it has checked already.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import msgpack

from journal.errors import Damaged, NewerLayout
from journal.keys import Buffer, pack_offset


@dataclass(frozen=True, slots=True)
class Event:
    """One record of the log: what happened to one object."""

    offset: int
    type_id: int
    verb: str
    namespace: str
    name: str
    previous: int  # offset of this object's event before this one; 0 when it did not exist
    removed: (
        bool  # the object is gone after this event; body is its last content with the new resourceVersion
    )
    time: int  # microseconds since 1970, never decreasing along the log
    user: str
    manager: str
    facts: bytes  # opaque here: labels, selectable fields and the like, packed by the writer
    body: bytes  # canonical JSON, whose metadata.resourceVersion is the offset


@dataclass(frozen=True, slots=True)
class Row:
    """The latest state of one object."""

    offset: int
    facts: bytes
    body: bytes


Fields = list[Any]
Upcaster = Callable[[Fields], Fields]

EVENT_LAYOUT = 1
ROW_LAYOUT = 1
# Layout n -> fields as layout n + 1 has them. One entry a step, never changed once released.
EVENT_UPCASTERS: Mapping[int, Upcaster] = {}

_EVENT_LEAD = struct.Struct(">BI")
_ROW_LEAD = struct.Struct(">IQBI")
_ROW_CHECKED_FROM = 4
_unpack = msgpack.unpackb
_pack = msgpack.Packer().pack  # Packer reuses its buffer; packb makes one per call

# (check, offset) of a row: its identity in the cache of checked rows.
row_identity: Callable[[Buffer], tuple[Any, ...]] = struct.Struct(">IQ").unpack_from


def encode_event(event: Event) -> bytes:
    packed: bytes = _pack(
        (
            event.type_id,
            event.verb,
            event.namespace,
            event.name,
            event.previous,
            event.removed,
            event.time,
            event.user,
            event.manager,
            event.facts,
            event.body,
        )
    )
    return _EVENT_LEAD.pack(EVENT_LAYOUT, _event_check(event.offset, EVENT_LAYOUT, packed)) + packed


def decode_event(offset: int, value: Buffer) -> Event:
    return Event(offset, *event_fields(offset, value))


def event_fields(offset: int, value: Buffer) -> Fields:
    """The checked fields of an event behind its offset, raised to the newest layout."""
    if len(value) < _EVENT_LEAD.size:
        raise Damaged(f"event {offset} is cut short")
    layout, check = _EVENT_LEAD.unpack_from(value)
    packed = value[_EVENT_LEAD.size :]
    if _event_check(offset, layout, packed) != check:
        raise Damaged(f"event {offset} does not match its checksum")
    return upcast(f"event {offset}", layout, _unpack(packed), EVENT_LAYOUT, EVENT_UPCASTERS)


def upcast(what: str, layout: int, fields: Fields, newest: int, upcasters: Mapping[int, Upcaster]) -> Fields:
    """Take fields of an older layout step by step to the newest one."""
    if layout > newest:
        raise NewerLayout(what, layout, newest)
    for step in range(layout, newest):
        fields = upcasters[step](fields)
    return fields


def _event_check(offset: int, layout: int, packed: Buffer) -> int:
    return crc32(packed, crc32(pack_offset(offset) + bytes((layout,))))


def encode_row(key: bytes, offset: int, facts: bytes, body: bytes) -> bytes:
    rest = b"%b%b%b" % (_ROW_LEAD.pack(0, offset, ROW_LAYOUT, len(facts))[_ROW_CHECKED_FROM:], facts, body)
    return crc32(rest, crc32(key)).to_bytes(4, "big") + rest


def decode_row(key: Buffer, value: Buffer) -> tuple[int, bytes, bytes]:
    """(offset, facts, body) of a state value whose checksum held."""
    if len(value) < _ROW_LEAD.size:
        raise Damaged(f"the state of {printable(key)} is cut short")
    check, offset, layout, length = _ROW_LEAD.unpack_from(value)
    if crc32(value[_ROW_CHECKED_FROM:], crc32(key)) != check:
        raise Damaged(f"the state of {printable(key)} does not match its checksum")
    if layout > ROW_LAYOUT:
        raise NewerLayout(f"the state of {printable(key)}", layout, ROW_LAYOUT)
    middle = _ROW_LEAD.size + length
    return offset, bytes(value[_ROW_LEAD.size : middle]), bytes(value[middle:])


def printable(key: Buffer) -> str:
    """A state key as an operator reads it in an error: type 1, default/web."""
    raw = bytes(key)
    names = raw[2:].replace(b"\0", b"/").decode(errors="backslashreplace")
    return f"type {int.from_bytes(raw[:2], 'big')}, {names}"
