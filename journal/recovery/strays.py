"""Finds records outside of the trees: on pages that nothing leads to any more, or whose header is damaged.

Such a page may be older than the damage: what is on it was true once. `decide` uses a record from here only where the
trees have a hole, and what they do have does not contradict it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import msgpack

from journal import keys, records
from journal.errors import Damaged, NewerLayout
from journal.pages.layout import (
    FIRST_PAGE,
    HEADER,
    LEAF,
    OVERFLOW,
    BadPage,
    Node,
    PageFile,
    kind_of,
    leaf_nodes,
    overflow_size,
    page_number,
    stray_nodes,
)
from journal.recovery.survey import FoundEvent, FoundLink, FoundRow, Place, event_in, place_of

MAX_VALUE = 64 << 20  # no record is larger
_VERSIONS = re.compile(rb'"resourceVersion":"([0-9]{1,20})"')
_EVENT_LEAD = struct.Struct(">BI")


@dataclass(slots=True)
class Strays:
    """Records that are on no readable page of the trees; several versions of one record may be found."""

    events: dict[int, list[FoundEvent]] = field(default_factory=dict)
    rows: dict[bytes, dict[int, FoundRow]] = field(default_factory=dict)
    links: dict[int, FoundLink] = field(default_factory=dict)
    meta: dict[bytes, set[bytes]] = field(default_factory=dict)


def find_strays(file: PageFile, read: set[int]) -> Strays:
    """Search all pages but those that were read already."""
    found = Strays()
    for number in range(FIRST_PAGE, file.pages):
        if number not in read:
            _search(file, number, found)
    return found


def _search(file: PageFile, number: int, found: Strays) -> None:
    page = file.page(number)
    if not any(page):
        return
    if kind_of(page) == OVERFLOW and page_number(page[:8]) == number:
        _add_long_event(file, number, page, found)
        return
    for node in _nodes(page):
        _add(file, number, node, found)


def _nodes(page: bytes) -> Iterator[Node]:
    if kind_of(page) == LEAF:
        try:
            yield from leaf_nodes(page)
            return
        except BadPage:
            pass
    yield from stray_nodes(page)


def _add(file: PageFile, number: int, node: Node, found: Strays) -> None:
    key = node.key
    if key in (keys.DIALECT, keys.FLOOR, keys.LAYOUT) or key.startswith(keys.TYPE_PREFIX):
        found.meta.setdefault(key, set()).add(node.value)
        return
    place = place_of(number, node)
    if node.size > MAX_VALUE:
        return
    value = file.bytes_at(*place)
    try:
        if len(key) == 8:
            _add_event(file, found, event_in(key, value, place))
        elif len(key) == 10 and len(value) > 14:
            link = records.decode_link(key, value)
            found.links[link.offset] = FoundLink(link.key, link.previous, link.removed)
        if len(key) > 3 and key.count(b"\0", 2) == 1:
            offset, _, _ = records.decode_row(key, memoryview(value))
            found.rows.setdefault(key, {})[offset] = FoundRow(offset, place)
    except (Damaged, NewerLayout, ValueError, TypeError, IndexError):
        return


def _add_event(file: PageFile, found: Strays, event: FoundEvent) -> None:
    """Add an event, unless a copy of it was found already."""
    copies = found.events.setdefault(event.offset, [])
    value = file.bytes_at(*event.place)
    if all(file.bytes_at(*copy.place) != value for copy in copies):
        copies.append(event)


def _add_long_event(file: PageFile, number: int, page: bytes, found: Strays) -> None:
    """An event on overflow pages whose leaf page is lost: its object's resourceVersion is its key.

    The checksum covers the key, so it proves which of the numbers in the text is the right one.
    """
    size = min(overflow_size(page, file.page_size), MAX_VALUE)
    value = file.bytes_at(number, HEADER, size)
    length = _packed_length(value[_EVENT_LEAD.size :])
    if not length:
        return
    value = value[: _EVENT_LEAD.size + length]
    layout, check = _EVENT_LEAD.unpack_from(value)
    packed = value[_EVENT_LEAD.size :]
    for text in {*_VERSIONS.findall(value)}:
        offset = int(text)
        if (
            offset <= keys.MAX_OFFSET
            and crc32(packed, crc32(keys.pack_offset(offset) + bytes((layout,)))) == check
        ):
            _add_event(
                file, found, event_in(keys.pack_offset(offset), value, Place(number, HEADER, len(value)))
            )


def _packed_length(packed: bytes) -> int:
    """The length of the msgpack array that some bytes begin with; 0 when they do not."""
    unpacker: Any = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(packed)
    try:
        if unpacker.read_array_header() != 11:
            return 0
        for _ in range(11):
            unpacker.skip()
    except (ValueError, msgpack.exceptions.UnpackException):
        return 0
    return int(unpacker.tell())
