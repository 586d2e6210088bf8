"""The layout of LMDB 0.9 files: pages, nodes and the two meta pages, each checked before it is used.

    page      number:8 pad:2 flags:2 lower:2 upper:2       then a 2-byte position for each node
    overflow  number:8 pad:2 flags:2 pages:4               then the value, over as many pages
    node      low:2 high:2 flags:2 key size:2 key value    at the end of the page, without gaps between nodes
              leaf: size of the value = low + high << 16   branch: child page = low + high << 16 + flags << 32
    meta      magic:4 version:4 address:8 map size:8 free list:48 main:48 last page:8 transaction:8
    tree      pad:4 flags:2 depth:2 branch pages:8 leaf pages:8 overflow pages:8 entries:8 root:8

All numbers are little-endian (those of the machine). A commit of transaction n writes meta page n % 2.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from journal.files.meta_pages import Database as Database

BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8  # flags of a page
BIG, SUBDATABASE = (
    1,
    2,
)  # flags of a node: its value is on overflow pages; it is the record of a named database
HEADER = 16
MAGIC, VERSION = 0xBEEFC0DE, 1
NO_PAGE = 0xFFFF_FFFF_FFFF_FFFF  # the root of an empty tree
MAX_KEY = 511
MAX_DEPTH = 32
PAGE_SIZES = tuple(1 << bits for bits in range(9, 17))
FIRST_PAGE = 2  # after the meta pages
READS = 100  # of the meta pages, until two are the same

_HEADER = struct.Struct("<QHHHH")
_OVERFLOW = struct.Struct("<QHHI")
_NODE = struct.Struct("<HHHH")
_META = struct.Struct("<IIQQ")
_DATABASE = struct.Struct("<IHHQQQQQ")
_TAIL = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")
_unpack_node = _NODE.unpack_from
_unpack_bounds, _BOUNDS_AT = struct.Struct("<HH").unpack_from, 12  # of the free space in a page
_unpack_flags, _FLAGS_AT = struct.Struct("<H").unpack_from, 10
_NODE_FLAGS = (0, BIG, SUBDATABASE)
NODE_SIZE, DATABASE_SIZE = _NODE.size, _DATABASE.size


class BadPage(Exception):
    """A page is not what its place in the file says; the text says why."""


class Meta(NamedTuple):
    """One of the two meta pages, unchecked."""

    slot: int
    magic: int
    version: int
    address: int
    map_size: int
    free: Database
    main: Database
    last_page: int
    transaction: int


class Node(NamedTuple):
    """A node of a leaf page. `value` is the value, or the number of its first overflow page (8 bytes)."""

    key: bytes
    value: bytes
    flags: int
    size: int  # of the value
    position: int  # in its page


class Child(NamedTuple):
    key: bytes  # the smallest key that may be below it; empty for the first child
    page: int


class PageFile:
    """The bytes of a data file, by page. It never maps the file: a truncated one would kill the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._handle).st_size
        self.page_size = self._find_page_size()
        self.update_size()

    def update_size(self) -> None:
        """Call it in the transaction whose pages are read: a live server may have extended the file before it."""
        self.size = os.fstat(self._handle).st_size
        self.pages = -(-self.size // self.page_size)

    def close(self) -> None:
        os.close(self._handle)

    def _find_page_size(self) -> int:
        found = struct.unpack("<I", self._read(HEADER + _META.size, 4))[0]
        if found in PAGE_SIZES and self._has_meta(found):
            return int(found)
        likely = (os.sysconf("SC_PAGE_SIZE"), *PAGE_SIZES)
        return next((size for size in likely if self._has_meta(size)), likely[0])

    def _has_meta(self, position: int) -> bool:
        return self._read(position + HEADER, 4) == MAGIC.to_bytes(4, "little")

    def _read(self, position: int, size: int) -> bytes:
        """Bytes of the file; zeros where it has none, or where the disk cannot read them."""
        if position >= self.size:
            return bytes(size)
        try:
            found = os.pread(self._handle, size, position)
        except OSError:
            return bytes(size)
        return found if len(found) == size else found.ljust(size, b"\0")

    def bytes_at(self, page: int, position: int, size: int) -> bytes:
        """Bytes from a position in a page on; fewer where the file ends."""
        start = page * self.page_size + position
        return self._read(start, max(0, min(size, self.size - start)))

    def page(self, number: int) -> bytes:
        return self._read(number * self.page_size, self.page_size)

    def checked(self, number: int) -> bytes:
        """A page whose header has its number; BadPage when the file ends before it or it is another page."""
        if number >= self.pages:
            raise BadPage(f"the file ends at page {self.pages}")
        page = self.page(number)
        (stated,) = _NUMBER.unpack_from(page)
        if stated != number:
            raise BadPage("it is empty" if not any(page) else f"its header says that it is page {stated}")
        return page

    def overflow(self, number: int, size: int) -> bytes:
        """The value of a node that is on overflow pages."""
        self.overflow_count(number, size)
        return self._read(number * self.page_size + HEADER, size)

    def overflow_count(self, number: int, size: int) -> int:
        """How many overflow pages a value has. A value that became shorter may have more than it needs."""
        _, _, flags, count = _OVERFLOW.unpack_from(self.checked(number))
        needed = overflow_pages(size, self.page_size)
        if flags != OVERFLOW:
            raise BadPage(f"it should hold a long value, but its flags are {flags:#x}")
        if count < needed:
            raise BadPage(f"it says that its value has {count} pages, which should be {needed}")
        if number + needed > self.pages:
            raise BadPage(f"its value goes beyond the end of the file at page {self.pages}")
        return int(count)

    def metas(self) -> tuple[Meta, Meta]:
        """Both meta pages. A live server writes them: two reads must be the same."""
        before = b""
        for _ in range(READS):
            both = self._read(0, 2 * self.page_size)
            if both == before:
                break
            before = both
        return _meta(0, both[: self.page_size]), _meta(1, both[self.page_size :])


def _meta(slot: int, page: bytes) -> Meta:
    magic, version, address, map_size = _META.unpack_from(page, HEADER)
    at = HEADER + _META.size
    free, main = (Database(*_DATABASE.unpack_from(page, at + number * DATABASE_SIZE)) for number in (0, 1))
    last_page, transaction = _TAIL.unpack_from(page, at + 2 * DATABASE_SIZE)
    return Meta(slot, magic, version, address, map_size, free, main, last_page, transaction)


def overflow_pages(size: int, page_size: int) -> int:
    return (HEADER - 1 + size) // page_size + 1


def overflow_size(page: bytes, page_size: int) -> int:
    """The room that the overflow pages have which begin with this one."""
    count: int = _OVERFLOW.unpack_from(page)[3]
    return count * page_size - HEADER


def kind_of(page: bytes) -> int:
    flags: int = _unpack_flags(page, _FLAGS_AT)[0]
    return flags


def _positions(page: bytes) -> list[int]:
    """The positions of a page's nodes; BadPage when they are not where nodes can be."""
    lower, upper = _unpack_bounds(page, _BOUNDS_AT)
    if not (HEADER <= lower <= upper <= len(page)) or lower % 2 or upper % 2:
        raise BadPage(f"its free space is said to be from {lower} to {upper}")
    positions = memoryview(page)[HEADER:lower].cast("H").tolist()
    if positions and (min(positions) != upper or max(positions) + NODE_SIZE > len(page)):
        raise BadPage("a node is outside of it")
    return positions


def leaf_nodes(page: bytes) -> list[Node]:
    """The nodes of a leaf page, which fill its end without a gap; BadPage otherwise."""
    nodes: list[Node] = []
    new_tuple = tuple.__new__
    end = len(page)
    used = 0
    positions = _positions(page)
    for position in positions:
        low, high, flags, key_size = _unpack_node(page, position)
        size = low | high << 16
        key = position + NODE_SIZE
        value = key + key_size
        beyond = value + (8 if flags == BIG else size)
        if beyond > end or not 0 < key_size <= MAX_KEY or flags not in _NODE_FLAGS:
            raise BadPage(f"the node at byte {position} has impossible sizes or flags")
        used += (beyond - position + 1) & ~1
        # Not Node(...), which takes twice as long: opening a folder reads thousands.
        nodes.append(new_tuple(Node, (page[key:value], page[value:beyond], flags, size, position)))
    _check_filled(page, positions, used)
    return nodes


def branch_children(page: bytes) -> list[Child]:
    children: list[Child] = []
    end = len(page)
    used = 0
    positions = _positions(page)
    for position in positions:
        low, high, top, key_size = _unpack_node(page, position)
        key = position + NODE_SIZE
        if key + key_size > end or key_size > MAX_KEY:
            raise BadPage(f"the node at byte {position} has impossible sizes")
        used += (NODE_SIZE + key_size + 1) & ~1
        children.append(Child(page[key : key + key_size], low | high << 16 | top << 32))
    if len(children) < 2:
        raise BadPage(f"a branch page with {len(children)} children")
    _check_filled(page, positions, used)
    return children


def _check_filled(page: bytes, positions: list[int], used: int) -> None:
    upper = _unpack_bounds(page, _BOUNDS_AT)[1]
    if used != len(page) - upper or len(set(positions)) != len(positions):
        raise BadPage(f"its nodes have {used} bytes and fill {len(page) - upper}")


def stray_nodes(page: bytes) -> Iterator[Node]:
    """Everything in a page that may be a leaf node, for a page whose header or positions are damaged.

    Most of what this yields is not a node: the caller must have a checksum to tell.
    """
    end = len(page)
    for position in range(HEADER, end - NODE_SIZE, 2):
        low, high, flags, key_size = _unpack_node(page, position)
        size = low | high << 16
        value = position + NODE_SIZE + key_size
        stored = 8 if flags == BIG else size
        if flags in (0, BIG) and 0 < key_size <= MAX_KEY and value + stored <= end:
            yield Node(
                page[position + NODE_SIZE : value], page[value : value + stored], flags, size, position
            )


def database_of(node: Node) -> Database:
    if node.flags != SUBDATABASE or len(node.value) != DATABASE_SIZE:
        raise BadPage(f"the record of the database {node.key!r} is not one")
    return Database(*_DATABASE.unpack(node.value))


def page_number(value: bytes) -> int:
    number: int = _NUMBER.unpack(value)[0]
    return number


def free_pages(value: bytes) -> tuple[int, ...]:
    """The pages in a record of the free list. LMDB may reserve more room than it needs: the first number counts."""
    count = page_number(value[:8]) if len(value) >= 8 else NO_PAGE
    if count > len(value) // 8 - 1:
        raise BadPage("a record of the free list has a wrong length")
    numbers: tuple[int, ...] = struct.unpack_from(f"<{count}Q", value, 8)
    return numbers
