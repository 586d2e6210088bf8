"""Reads everything that is still readable in a damaged file: the records of its newest readable version, and stray
ones.

The newest readable version is that of the newer meta page, if both are as LMDB writes them and everything it leads to
is complete. Otherwise it is the best of all versions in the file: that of either meta page, or that of a page with
the records of all databases which no meta page leads to any more (because the meta page is damaged, but not the
version that it named). `find_strays` finds records outside of the trees, `read_meta` those of the database meta.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from rewound.journal import keys, records
from rewound.journal.errors import Damaged, NewerLayout
from rewound.journal.files.meta_pages import LEAF, OVERFLOW, Database, MetaPage
from rewound.journal.files.pages import (
    BIG,
    FIRST_PAGE,
    HEADER,
    MAX_KEY,
    NODE_SIZE,
    SUBDATABASE,
    BadPage,
    Hole,
    Leaf,
    Node,
    PageFile,
    Walk,
    free_pages,
    kind_of,
    leaf_nodes,
    page_number,
)
from rewound.journal.files.structure import MAIN
from rewound.journal.repair.verify import NAMES, databases_on, meta_faults


class Place(NamedTuple):
    """Where the value of a record is: a position in a page, and its size."""

    page: int
    position: int
    size: int


class FoundEvent(NamedTuple):
    """An event whose checksum matches, without its contents."""

    offset: int
    key: bytes  # the object's state key
    previous: int
    removed: bool
    place: Place


class FoundRow(NamedTuple):
    offset: int
    place: Place


class FoundLink(NamedTuple):
    """What the indexes say about an event; `previous` and `removed` are None if only the index by object has it."""

    key: bytes
    previous: int | None
    removed: bool | None


class Holes:
    """The holes of one tree, sorted for lookups."""

    def __init__(self, holes: list[Hole]) -> None:
        self._holes = sorted(holes, key=lambda hole: hole.low)
        self._lows = [hole.low for hole in self._holes]

    def __bool__(self) -> bool:
        return bool(self._holes)

    def __iter__(self) -> Iterator[Hole]:
        return iter(self._holes)

    def has(self, key: bytes) -> bool:
        at = bisect_right(self._lows, key) - 1
        return at >= 0 and ((high := self._holes[at].high) is None or key < high)


@dataclass(slots=True)
class Trees:
    """The records of one version of the file. A key without a record did not exist, unless it is in a hole."""

    source: str
    events: dict[int, FoundEvent] = field(default_factory=dict)
    rows: dict[bytes, FoundRow] = field(default_factory=dict)
    links: dict[int, FoundLink] = field(default_factory=dict)
    objects: dict[int, bytes] = field(default_factory=dict)  # by_object: offset -> key
    meta: dict[bytes, bytes] = field(default_factory=dict)
    holes: dict[str, Holes] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)  # pages whose records were all intact
    transaction: int = 0

    @property
    def head(self) -> int:
        return max((*self.events, *self.links), default=0)

    @property
    def damaged(self) -> bool:
        return any(self.holes.values())


@dataclass(frozen=True, slots=True)
class Roots:
    """The databases of one version of the file."""

    source: str
    databases: dict[str, Database]
    last_page: int
    transaction: int = 0
    free: frozenset[int] = frozenset()
    seen: frozenset[int] = frozenset()

    @property
    def complete(self) -> bool:
        return all(name in self.databases for name in NAMES)


PAGES = 1000  # between two calls of the progress callback

Progress = Callable[[int], None]  # number of pages read


def _no_progress(pages: int) -> None:
    """The default progress callback, which does nothing."""


def survey(file: PageFile, transaction: int = 0, progress: Progress = _no_progress) -> tuple[Trees, bool]:
    """The records of the newest readable version, and whether it is certainly the newest.

    `transaction` is that of a commit known to have happened (from the identity file).
    """
    metas = sorted(file.metas(), key=lambda meta: meta.transaction)
    found = [_roots_of(file, meta) for meta in metas]
    if _trusted(file, metas, found, transaction):
        return read_trees(file, found[-1], progress), True
    candidates = [roots for roots in (*found, *_stray_roots(file)) if roots.complete]
    read = [read_trees(file, roots, progress) for roots in candidates]
    if not read:
        return _nothing(), False
    return max(read, key=lambda trees: (not trees.damaged, trees.head, trees.transaction)), False


def _trusted(file: PageFile, metas: list[MetaPage], found: list[Roots], transaction: int) -> bool:
    if any(True for meta in metas for _ in meta_faults(file, meta)) or not found[-1].complete:
        return False
    older, newer = metas
    if newer.transaction - older.transaction > 1 or newer.transaction < transaction:
        return False
    before, after = (_newest_event(file, roots) for roots in found)
    return before is None or after is None or before <= after


def _newest_event(file: PageFile, roots: Roots) -> int | None:
    """The offset of the last event of a version; None if it cannot be read."""
    if "events" not in roots.databases:
        return None
    try:
        key = Walk(file, "events", roots.databases["events"], roots.last_page).last_key()
    except BadPage:
        return None
    return keys.offset_of(key.rjust(8, b"\0")[:8])


def _nothing() -> Trees:
    everything = Hole(0, b"", None, "neither meta page leads to the databases")
    trees = Trees("no version can be read")
    trees.holes = {name: Holes([everything]) for name in NAMES}
    return trees


def _roots_of(file: PageFile, meta: MetaPage) -> Roots:
    last_page = min(meta.last_page, file.pages)
    seen: set[int] = set()
    walk = Walk(file, MAIN, meta.main, last_page, seen)
    databases: dict[str, Database] = {}
    for leaf in walk.leaves():
        databases |= databases_on(leaf.nodes)
    free = _free_list(file, meta, last_page, seen)
    source = f"meta page {meta.slot}, transaction {meta.transaction}"
    return Roots(source, databases, last_page, meta.transaction, free, frozenset(seen))


def _free_list(file: PageFile, meta: MetaPage, last_page: int, seen: set[int]) -> frozenset[int]:
    """The free pages; none if the free list is damaged, because then it proves nothing."""
    walk = Walk(file, "free", meta.free, last_page, set(seen), by_number=True)
    free: set[int] = set()
    try:
        for leaf in walk.leaves():
            for node in leaf.nodes:
                free.update(free_pages(walk.value(node)))
    except BadPage:
        return frozenset()
    return frozenset() if walk.holes else frozenset(free)


def _stray_roots(file: PageFile) -> Iterator[Roots]:
    """Pages that have the records of all databases, whether or not a meta page leads to them."""
    for number in range(FIRST_PAGE, file.pages):
        page = file.page(number)
        if kind_of(page) != LEAF or b"by_object" not in page:
            continue
        try:
            nodes = leaf_nodes(page)
        except BadPage:
            continue
        if all(node.flags == SUBDATABASE for node in nodes):
            yield Roots(f"the databases on page {number}", databases_on(nodes), file.pages - 1)


def read_trees(file: PageFile, roots: Roots, progress: Progress = _no_progress) -> Trees:
    """Read and check all records of a version."""
    trees = Trees(roots.source, transaction=roots.transaction)
    seen = set(roots.seen)
    reader = _TreeReader(file, trees)
    for name in NAMES:
        walk = Walk(file, name, roots.databases[name], roots.last_page, seen, free=roots.free)
        doubtful: list[Hole] = []
        for number, leaf in enumerate(walk.leaves()):
            if (hole := reader.leaf(walk, leaf)) is not None:
                doubtful.append(hole)
            if number % PAGES == 0:
                progress(len(seen))
        trees.holes[name] = Holes([*walk.holes, *doubtful])
    return trees


Take = Callable[[Node, Place, bytes], None]


class _TreeReader:
    """Sorts the records of leaf pages into `Trees`."""

    def __init__(self, file: PageFile, trees: Trees) -> None:
        self._file, self._trees = file, trees
        self._takes: dict[str, Take] = {
            "events": self._event,
            "state": self._row,
            "by_type": self._link,
            "by_object": self._object,
            "meta": self._meta,
        }

    def leaf(self, walk: Walk, leaf: Leaf) -> Hole | None:
        """Take the records of a page. If one is wrong, the page's range becomes a hole: others may be missing."""
        take = self._takes.get(walk.name, _ignore)
        wrong = ""
        for node in leaf.nodes:
            try:
                take(node, place_of(leaf.number, node), walk.value(node))
            except (Damaged, NewerLayout, BadPage, ValueError) as bad:
                wrong = bad.what if isinstance(bad, Damaged) else str(bad)
        if wrong:
            return Hole(leaf.number, leaf.low, leaf.high, wrong)
        self._trees.read.add(leaf.number)
        return None

    def _event(self, node: Node, place: Place, value: bytes) -> None:
        event = event_in(node.key, value, place)
        self._trees.events[event.offset] = event

    def _row(self, node: Node, place: Place, value: bytes) -> None:
        offset, _, _ = records.decode_row(node.key, memoryview(value))
        self._trees.rows[node.key] = FoundRow(offset, place)

    def _link(self, node: Node, place: Place, value: bytes) -> None:
        if len(node.key) != 10:
            raise BadPage("a key of the index by type has a wrong length")
        link = records.decode_link(node.key, value)
        self._trees.links[link.offset] = FoundLink(link.key, link.previous, link.removed)

    def _object(self, node: Node, place: Place, value: bytes) -> None:
        if len(node.key) < 13 or value:
            raise BadPage("a record of the index by object is not one")
        self._trees.objects[keys.offset_of(node.key)] = node.key[:-9]

    def _meta(self, node: Node, place: Place, value: bytes) -> None:
        self._trees.meta[node.key] = value


def _ignore(node: Node, place: Place, value: bytes) -> None:
    """Skip counts and snapshots, which a new folder computes again."""


def place_of(number: int, node: Node) -> Place:
    if node.flags == BIG:
        return Place(page_number(node.value), 16, node.size)
    return Place(number, node.position + 8 + len(node.key), node.size)


def event_in(key: bytes, value: bytes, place: Place) -> FoundEvent:
    """An event in a record. Raises Damaged or ValueError if the record is not an event."""
    if len(key) != 8:
        raise Damaged(f"an event has a key of {len(key)} bytes")
    offset = keys.offset_of(key)
    if not offset:
        raise Damaged("an event has the offset 0")
    event = records.checked_event(offset, value)
    name = keys.find_object(event.type_id, event.namespace, event.name)
    if name is None:
        raise Damaged(f"event {offset} is of an object without a name")
    return FoundEvent(offset, name, event.previous, event.removed, place)


MAX_VALUE = 64 << 20  # no record is larger
_VERSIONS = re.compile(rb'"resourceVersion":"([0-9]{1,20})"')
_EVENT_LEAD = struct.Struct(">BI")
_NODE, _OVERFLOW = (
    struct.Struct("<HHHH"),
    struct.Struct("<QHHI"),
)  # `journal.files.pages` has the layout


@dataclass(slots=True)
class Strays:
    """Records that are on no readable page of the trees; there may be several versions of one record."""

    events: dict[int, list[FoundEvent]] = field(default_factory=dict)
    rows: dict[bytes, dict[int, FoundRow]] = field(default_factory=dict)
    links: dict[int, FoundLink] = field(default_factory=dict)
    meta: dict[bytes, set[bytes]] = field(default_factory=dict)


def find_strays(file: PageFile, read: set[int], progress: Progress = _no_progress) -> Strays:
    """Search all pages that were not read for records outside of the trees.

    They are on pages that nothing leads to any more, or whose header is damaged. Such a page may be older than the
    damage: what is on it was true once. So `decide` uses a record from here only where the trees have a hole and what
    they do have does not contradict it.
    """
    found = Strays()
    for number in range(FIRST_PAGE, file.pages):
        if number not in read:
            _search(file, number, found)
        if number % PAGES == FIRST_PAGE:
            progress(number)
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
    yield from _stray_nodes(page)


def _stray_nodes(page: bytes) -> Iterator[Node]:
    """Everything in a page that may be a leaf node, for a page whose header or positions are damaged.

    Most of what this yields is not a node; only a checksum can decide.
    """
    end = len(page)
    for position in range(HEADER, end - NODE_SIZE, 2):
        low, high, flags, key_size = _NODE.unpack_from(page, position)
        size = low | high << 16
        value = position + NODE_SIZE + key_size
        stored = 8 if flags == BIG else size
        if flags in (0, BIG) and 0 < key_size <= MAX_KEY and value + stored <= end:
            yield Node(
                page[position + NODE_SIZE : value], page[value : value + stored], flags, size, position
            )


def _add(file: PageFile, number: int, node: Node, found: Strays) -> None:
    key = node.key
    if key in (keys.DIALECT, keys.FLOOR, keys.LAYOUT, keys.KUBERNETES) or key.startswith(keys.TYPE_PREFIX):
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
    """Add an event, unless a copy of it was found before."""
    copies = found.events.setdefault(event.offset, [])
    value = file.bytes_at(*event.place)
    if all(file.bytes_at(*copy.place) != value for copy in copies):
        copies.append(event)


def _add_long_event(file: PageFile, number: int, page: bytes, found: Strays) -> None:
    """Add an event on overflow pages whose leaf page is lost; its object's resourceVersion is its key.

    The checksum covers the key, so it proves which of the numbers in the text is the right one.
    """
    pages: int = _OVERFLOW.unpack_from(page)[3]
    size = min(pages * file.page_size - HEADER, MAX_VALUE)
    value = file.bytes_at(number, HEADER, size)
    length = _packed_length(value[_EVENT_LEAD.size :])
    if not length:
        return
    value = value[: _EVENT_LEAD.size + length]
    layout, check = _EVENT_LEAD.unpack_from(value)
    packed = value[_EVENT_LEAD.size :]
    for text in {*_VERSIONS.findall(records.body_without_key(layout, packed))}:
        offset = int(text)
        if (
            offset <= keys.MAX_OFFSET
            and crc32(packed, crc32(keys.pack_offset(offset) + bytes((layout,)))) == check
        ):
            _add_event(
                file, found, event_in(keys.pack_offset(offset), value, Place(number, HEADER, len(value)))
            )


def _packed_length(packed: bytes) -> int:
    """The length of the msgpack array at the start of some bytes; 0 if there is none."""
    unpacker: Any = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(packed)
    try:
        fields = unpacker.read_array_header()
        if fields not in (11, 12):
            return 0
        for _ in range(fields):
            unpacker.skip()
    except (ValueError, msgpack.exceptions.UnpackException):
        return 0
    return int(unpacker.tell())


MetaRecords = dict[bytes, bytes]


def read_meta(trees: Trees, strays: Strays) -> MetaRecords | None:
    """The records of the database meta in a damaged file; None if they are damaged beyond repair.

    They are the names of types, the dialect and the floor, under one checksum. The file has no second copy, and
    without them no object can be served. So one flipped bit in them is repaired: only one single-bit change makes the
    checksum match.
    """
    stored = {key: value for key, value in trees.meta.items() if key != keys.PROBE}
    if trees.holes["meta"]:
        return _completed(stored, trees, strays)
    if not stored or is_right(stored) or _is_of_an_earlier_release(stored):
        return stored
    repaired = [meta for meta in _with_a_flipped_bit(stored) if is_right(meta)]
    if len(repaired) == 1:
        return repaired[0]
    return None if records.meta_problem(stored, earlier_release=True) else stored


def is_right(meta: MetaRecords) -> bool:
    return meta.get(keys.CHECK) == records.meta_check(meta)


def _is_of_an_earlier_release(meta: MetaRecords) -> bool:
    """Whether there is no checksum, nor anything that could be a damaged one."""
    known = (keys.LAYOUT, keys.DIALECT, keys.FLOOR, keys.CLUSTER_ID)
    return keys.CHECK not in meta and all(key in known or key.startswith(keys.TYPE_PREFIX) for key in meta)


def _completed(meta: MetaRecords, trees: Trees, strays: Strays) -> MetaRecords:
    """Records of a damaged page found on other pages, if all of them have the same value."""
    for key, values in strays.meta.items():
        if key not in meta and trees.holes["meta"].has(key):
            if key == keys.FLOOR:
                meta[key] = max(values)
            elif len(values) == 1:
                (meta[key],) = values
    return meta


def _with_a_flipped_bit(meta: MetaRecords) -> Iterator[MetaRecords]:
    for key, value in meta.items():
        others = {other: stored for other, stored in meta.items() if other != key}
        for flipped in _flips(key):
            yield {**others, flipped: value}
        for flipped in _flips(value):
            yield {**others, key: flipped}


def _flips(content: bytes) -> Iterator[bytes]:
    for at in range(len(content)):
        for bit in range(8):
            yield content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
