"""Reads LMDB's file page by page, without LMDB, which trusts every page and crashes on a damaged one.

Every number is checked before it is used: a wrong one raises BadPage, or becomes a hole of a walk. `structure` uses
this to check a file at opening, `journal.repair` to read what is left in a damaged one.

    page      number:8 pad:2 flags:2 lower:2 upper:2       then a 2-byte position for each node
    overflow  number:8 pad:2 flags:2 pages:4               then the value, over as many pages
    node      low:2 high:2 flags:2 key size:2 key value    at the end of the page, without gaps between nodes
              leaf: size of the value = low + high << 16   branch: child page = low + high << 16 + flags << 32
    tree      pad:4 flags:2 depth:2 branch pages:8 leaf pages:8 overflow pages:8 entries:8 root:8

All numbers are in the machine's byte order (little-endian). `meta_pages` has the layout of the two meta pages.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import islice, pairwise
from operator import lt
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from rewound.journal.files import meta_pages
from rewound.journal.files.meta_pages import (
    BRANCH,
    LEAF,
    MAGIC,
    MAX_DEPTH,
    NO_ROOT,
    OVERFLOW,
    Database,
    MetaPage,
)

BIG, SUBDATABASE = (
    1,
    2,
)  # flags of a node: its value is on overflow pages; it is the record of a named database
HEADER = 16
MAX_KEY = 511
PAGE_SIZES = tuple(1 << bits for bits in range(9, 17))
FIRST_PAGE = 2  # after the meta pages
READS = 100  # attempts to read the meta pages, until two reads give the same

_PAGE_SIZE_AT = 40  # position in the first meta page
_OVERFLOW = struct.Struct("<QHHI")
_NODE = struct.Struct("<HHHH")
_DATABASE = struct.Struct("<IHHQQQQQ")
_NUMBER = struct.Struct("<Q")
_unpack_node = _NODE.unpack_from
_unpack_bounds, _BOUNDS_AT = struct.Struct("<HH").unpack_from, 12  # bounds of the free space in a page
_unpack_flags, _FLAGS_AT = struct.Struct("<H").unpack_from, 10
_NODE_FLAGS = (0, BIG, SUBDATABASE)
NODE_SIZE, DATABASE_SIZE = _NODE.size, _DATABASE.size


class BadPage(Exception):
    """A page does not match its place in the file; the text says why."""


class Node(NamedTuple):
    """A node of a leaf page. `value` is the value, or the number of its first overflow page (8 bytes)."""

    key: bytes
    value: bytes
    flags: int
    size: int  # size of the value
    position: int  # position in its page


class Child(NamedTuple):
    key: bytes  # the smallest key that may be below it; empty for the first child
    page: int


class PageFile:
    """The bytes of a data file, by page. It does not map the file: reading a truncated map kills the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._handle).st_size
        self.page_size = self._find_page_size()
        self.update_size()

    def update_size(self) -> None:
        """Read the file's size again, in the transaction whose pages are read: a running server may have
        extended it.
        """
        self.size = os.fstat(self._handle).st_size
        self.pages = -(-self.size // self.page_size)

    def close(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find_page_size(self) -> int:
        found = struct.unpack("<I", self._read(_PAGE_SIZE_AT, 4))[0]
        if found in PAGE_SIZES and self._has_meta(found):
            return int(found)
        likely = (os.sysconf("SC_PAGE_SIZE"), *PAGE_SIZES)
        return next((size for size in likely if self._has_meta(size)), likely[0])

    def _has_meta(self, position: int) -> bool:
        return self._read(position + HEADER, 4) == MAGIC.to_bytes(4, "little")

    def _read(self, position: int, size: int) -> bytes:
        """Bytes of the file; zeros where it ends, or where the disk cannot read."""
        if position >= self.size:
            return bytes(size)
        try:
            found = os.pread(self._handle, size, position)
        except OSError:
            return bytes(size)
        return found if len(found) == size else found.ljust(size, b"\0")

    def bytes_at(self, page: int, position: int, size: int) -> bytes:
        """Bytes starting at a position in a page; fewer where the file ends."""
        start = page * self.page_size + position
        return self._read(start, max(0, min(size, self.size - start)))

    def page(self, number: int) -> bytes:
        return self._read(number * self.page_size, self.page_size)

    def checked(self, number: int) -> bytes:
        """A page whose header has the right number. Raises BadPage if the file ends before it or its header differs."""
        if number >= self.pages:
            raise BadPage(f"the file ends at page {self.pages}")
        page = self.page(number)
        (stated,) = _NUMBER.unpack_from(page)
        if stated != number:
            raise BadPage("it is empty" if not any(page) else f"its header says that it is page {stated}")
        return page

    def overflow(self, number: int, size: int) -> bytes:
        """The value of a node that is stored on overflow pages."""
        self.overflow_count(number, size)
        return self._read(number * self.page_size + HEADER, size)

    def overflow_count(self, number: int, size: int) -> int:
        """How many overflow pages a value has: more than it needs, if it became shorter."""
        _, _, flags, count = _OVERFLOW.unpack_from(self.checked(number))
        needed = overflow_pages(size, self.page_size)
        if flags != OVERFLOW:
            raise BadPage(f"it should hold a long value, but its flags are {flags:#x}")
        if count < needed:
            raise BadPage(f"it says that its value has {count} pages, which should be {needed}")
        if number + needed > self.pages:
            raise BadPage(f"its value goes beyond the end of the file at page {self.pages}")
        return int(count)

    def metas(self) -> tuple[MetaPage, MetaPage]:
        """Both meta pages. A running server writes them, so two reads must give the same bytes."""
        before = b""
        for _ in range(READS):
            both = self._read(0, 2 * self.page_size)
            if both == before:
                break
            before = both
        return meta_pages.decode(0, both), meta_pages.decode(1, both[self.page_size :])

    def newest_meta(self) -> MetaPage:
        """The meta page that LMDB uses: the one with the higher transaction."""
        return max(self.metas(), key=lambda meta: meta.transaction)


def overflow_pages(size: int, page_size: int) -> int:
    return (HEADER - 1 + size) // page_size + 1


def kind_of(page: bytes) -> int:
    flags: int = _unpack_flags(page, _FLAGS_AT)[0]
    return flags


def _positions(page: bytes) -> list[int]:
    """The positions of a page's nodes. Raises BadPage if nodes cannot be there."""
    lower, upper = _unpack_bounds(page, _BOUNDS_AT)
    if not (HEADER <= lower <= upper <= len(page)) or lower % 2 or upper % 2:
        raise BadPage(f"its header gives its free space as {lower} to {upper}")
    positions = memoryview(page)[HEADER:lower].cast("H").tolist()
    if positions and (min(positions) != upper or max(positions) + NODE_SIZE > len(page)):
        raise BadPage("a node is outside of it")
    return positions


def leaf_nodes(page: bytes) -> list[Node]:
    """The nodes of a leaf page, which fill its end without gaps. Raises BadPage if they do not."""
    nodes: list[Node] = []
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
        nodes.append(Node(page[key:value], page[value:beyond], flags, size, position))
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


def database_of(node: Node) -> Database:
    if node.flags != SUBDATABASE or len(node.value) != DATABASE_SIZE:
        raise BadPage(f"the record of the database {node.key!r} is not one")
    return Database(*_DATABASE.unpack(node.value))


def page_number(value: bytes) -> int:
    number: int = _NUMBER.unpack(value)[0]
    return number


def free_pages(value: bytes) -> tuple[int, ...]:
    """The pages in a record of the free list; its first number is their count, because LMDB reserves more room."""
    count = page_number(value[:8]) if len(value) >= 8 else NO_ROOT
    if count > len(value) // 8 - 1:
        raise BadPage("a record of the free list has a wrong length")
    numbers: tuple[int, ...] = struct.unpack_from(f"<{count}Q", value, 8)
    return numbers


class Leaf(NamedTuple):
    """A readable leaf page. Every key in [`low`, `high`) is on it, or does not exist."""

    number: int
    nodes: list[Node]
    low: bytes
    high: bytes | None


class Hole(NamedTuple):
    """Keys in [`low`, `high`) that cannot be read; without `high`, all from `low` to the end."""

    page: int
    low: bytes
    high: bytes | None
    why: str
    single: bool = False  # one record, with the key `low`, rather than a page of the tree


class Counted(msgspec.Struct):
    branch_pages: int = 0
    leaf_pages: int = 0
    overflow_pages: int = 0
    entries: int = 0


class Walk(msgspec.Struct):
    """One walk over one tree. `seen` has the pages that any walk of this version of the file has reached."""

    file: PageFile
    name: str
    database: Database
    last_page: int
    seen: set[int] = msgspec.field(default_factory=set)
    by_number: bool = False  # keys are integers (of the free list) rather than bytes
    free: frozenset[int] = frozenset()  # pages that the free list has, so no tree may
    holes: list[Hole] = msgspec.field(default_factory=list)
    counted: Counted = msgspec.field(default_factory=Counted)

    def leaves(self) -> Iterator[Leaf]:
        root, depth = self.database.root, self.database.depth
        if root == NO_ROOT:
            if depth or self.database.entries:
                self.holes.append(Hole(root, b"", None, "it has records, and no pages for them"))
        elif not 0 < depth <= MAX_DEPTH:
            self.holes.append(Hole(root, b"", None, f"its record gives a depth of {depth}"))
        else:
            yield from self._below(root, depth, b"", None)

    def last_key(self) -> bytes:
        """The last key of the tree, found by reading only its last pages; empty if it has none."""
        number, depth = self.database.root, self.database.depth
        if number == NO_ROOT or not 0 < depth <= MAX_DEPTH:
            return b""
        for _ in range(depth - 1):
            number = branch_children(self._page(number, BRANCH))[-1].page
        nodes = leaf_nodes(self._page(number, LEAF))
        return nodes[-1].key if nodes else b""

    def value(self, node: Node) -> bytes:
        """The value of a leaf node. Raises BadPage if it is on overflow pages that cannot be read."""
        if node.flags != BIG:
            return node.value
        return self.file.overflow(page_number(node.value), node.size)

    def _below(self, number: int, depth: int, low: bytes, high: bytes | None) -> Iterator[Leaf]:
        try:
            if depth == 1:
                yield self._leaf(number, self._nodes(number, low, high), low, high)
                return
            children = self._children(number, low, high)
        except BadPage as bad:
            self.holes.append(Hole(number, low, high, str(bad)))
            return
        self.counted.branch_pages += 1
        starts = [low, *(child.key for child in children[1:])]
        for child, start, end in zip(children, starts, [*starts[1:], high], strict=True):
            yield from self._below(child.page, depth - 1, start, end)

    def _nodes(self, number: int, low: bytes, high: bytes | None) -> list[Node]:
        nodes = leaf_nodes(self._page(number, LEAF))
        if not nodes and self.database.entries:
            raise BadPage("it has no records")
        self._check_order([node.key for node in nodes], low, high)
        return nodes

    def _children(self, number: int, low: bytes, high: bytes | None) -> list[Child]:
        children = branch_children(self._page(number, BRANCH))
        if children[0].key:
            raise BadPage("its first child has a key")
        self._check_order([child.key for child in children[1:]], low, high)
        return children

    def _page(self, number: int, kind: int) -> bytes:
        if not FIRST_PAGE <= number <= self.last_page:
            raise BadPage(f"there is no page {number} in this file")
        if number in self.seen:
            raise BadPage("another part of the file has this page too")
        if number in self.free:
            raise BadPage("the free list has it")
        page = self.file.checked(number)
        if kind_of(page) != kind:
            wanted = "branch" if kind == BRANCH else "leaf"
            raise BadPage(f"it should be a {wanted} page, but its flags are {kind_of(page):#x}")
        self.seen.add(number)
        return page

    def _check_order(self, names: list[bytes], low: bytes, high: bytes | None) -> None:
        """Raise BadPage unless keys ascend and are inside the range that the parent page gives."""
        if self.by_number:
            _check_numbers(names)
            return
        if not all(map(lt, names, islice(names, 1, None))):
            raise BadPage("its keys do not ascend")
        if names and (names[0] < low or (high is not None and names[-1] >= high)):
            raise BadPage("it has keys that belong to another page")

    def _leaf(self, number: int, nodes: list[Node], low: bytes, high: bytes | None) -> Leaf:
        self.counted.leaf_pages += 1
        self.counted.entries += len(nodes)
        kept = [node for node in nodes if node.flags != BIG or self._take_overflow(node)]
        return Leaf(number, kept, low, high)

    def _take_overflow(self, node: Node) -> bool:
        """Count the overflow pages of a node; add a hole for its key if they are damaged."""
        first = page_number(node.value)
        try:
            if not FIRST_PAGE <= first <= self.last_page:
                raise BadPage(f"there is no page {first} in this file")
            count = self.file.overflow_count(first, node.size)
            pages = range(first, first + count)
            if first + count > self.last_page + 1 or not self.seen.isdisjoint(pages):
                raise BadPage("another part of the file has this page too")
            if not self.free.isdisjoint(pages):
                raise BadPage("the free list has it")
        except BadPage as bad:
            self.holes.append(Hole(first, node.key, node.key + b"\0", str(bad), single=True))
            return False
        self.seen.update(pages)
        self.counted.overflow_pages += count
        return True


def _check_numbers(names: list[bytes]) -> None:
    if any(len(name) != 8 for name in names):
        raise BadPage("a key of the free list has a wrong length")
    numbers = [page_number(name) for name in names]
    if any(one >= other for one, other in pairwise(numbers)):
        raise BadPage("its keys do not ascend")
