"""Checks the structure of a whole LMDB file: meta pages, trees, counters and the free list.

`verify` runs it before LMDB reads anything: what this finds sound, LMDB can read without dying. It checks one
version of the file, that of the newer meta page; a caller beside a live server holds a read transaction meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from journal import keys
from journal.errors import DamagedStructure
from journal.pages.layout import (
    FIRST_PAGE,
    MAGIC,
    META,
    NO_PAGE,
    VERSION,
    BadPage,
    Database,
    Meta,
    PageFile,
    database_of,
    free_pages,
    kind_of,
    page_number,
)
from journal.pages.tree import Counted, Hole, Leaf, Walk

MAIN, FREE = "main", "free list"
# Flags of the free list: integer keys, and whether the file was created with a folder of its own.
FREE_FLAGS = (0x0008, 0x4008)
LARGEST_FILE = 1 << 36  # pages; a larger number is damage

Progress = Callable[[int], None]  # how many pages were read


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong, and what it means."""

    page: int | None
    database: str
    what: str
    means: str = ""

    def __str__(self) -> str:
        where = f"page {self.page}" if self.page is not None else "the file"
        of = f" ({self.database})" if self.database else ""
        return f"{where}{of}: {self.what}" + (f": {self.means}" if self.means else "")


@dataclass(slots=True)
class Audit:
    pages: int = 0  # that were read
    unused: int = (
        0  # pages that are neither in use nor free, if nothing else is wrong: lost space, but no lost data
    )
    damage: list[Damage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # databases


def newest_meta(file: PageFile) -> Meta:
    """The meta page that LMDB uses: that of the higher transaction."""
    return max(file.metas(), key=lambda meta: meta.transaction)


def audit(
    file: PageFile, names: tuple[str, ...], meta: Meta | None = None, progress: Progress | None = None
) -> Audit:
    """Check every page that a meta page (the newer one) leads to. `names` are the databases that there must be."""
    run = _Run(file, names, meta or newest_meta(file), progress)
    run.run()
    return run.audit


class _Run:
    def __init__(self, file: PageFile, names: tuple[str, ...], meta: Meta, progress: Progress | None) -> None:
        self._file, self._names, self._progress = file, names, progress
        self._meta = meta
        self._seen: set[int] = set()
        self._types: dict[int, str] = {}
        self.audit = Audit()

    def run(self) -> None:
        for problem in meta_problems(self._file):
            self.audit.damage.append(problem)
        databases = self._databases()
        for name in ("meta", *(name for name in self._names if name != "meta")):
            if name in databases:
                self._walk(name, databases[name], self._remember_types if name == "meta" else None)
        self._check_free_list()
        self.audit.pages = len(self._seen)

    def _add(self, page: int | None, database: str, what: str, means: str = "") -> None:
        self.audit.damage.append(Damage(None if page == NO_PAGE else page, database, what, means))

    def _walk(self, name: str, database: Database, use: Callable[[Walk, Leaf], None] | None) -> None:
        walk = Walk(self._file, name, database, self._last_page, self._seen, by_number=name == FREE)
        for leaf in walk.leaves():
            if self._progress is not None:
                self._progress(len(self._seen))
            if use is not None:
                use(walk, leaf)
        for hole in walk.holes:
            self._add(hole.page, name, hole.why, self._lost(name, hole))
        if not walk.holes:
            for what in wrong_counters(database, walk.counted, FREE_FLAGS if name == FREE else (0,)):
                self._add(None, name, what)

    @property
    def _last_page(self) -> int:
        return min(self._meta.last_page, LARGEST_FILE)

    def _databases(self) -> dict[str, Database]:
        found: dict[str, Database] = {}

        def use(walk: Walk, leaf: Leaf) -> None:
            for node in leaf.nodes:
                try:
                    found[node.key.decode(errors="backslashreplace")] = database_of(node)
                except BadPage as bad:
                    self._add(leaf.number, MAIN, str(bad))

        self._walk(MAIN, self._meta.main, use)
        self.audit.missing = [name for name in self._names if name not in found]
        for name in sorted(found.keys() - set(self._names)):
            self._add(None, MAIN, f"there is a database {name}, which no release has made")
        return found

    def _remember_types(self, walk: Walk, leaf: Leaf) -> None:
        records = {node.key: node.value for node in leaf.nodes}
        for name, number in keys.types_in(records).items():
            self._types[number] = name

    def _check_free_list(self) -> None:
        free: set[int] = set()

        def use(walk: Walk, leaf: Leaf) -> None:
            for node in leaf.nodes:
                try:
                    self._add_free(free, page_number(node.key), free_pages(walk.value(node)))
                except BadPage as bad:
                    self._add(leaf.number, FREE, str(bad))

        self._walk(FREE, self._meta.free, use)
        for page in sorted(free & self._seen)[:20]:
            self._add(
                page, FREE, "it is in use, and the free list has it", "the next writes would overwrite it"
            )
        lost = self._last_page - 1 - len(free | self._seen)
        if lost and not self.audit.damage and not self.audit.missing:
            self.audit.unused = lost
            self._add(None, FREE, f"{lost} pages are neither in use nor free")

    def _add_free(self, free: set[int], transaction: int, pages: tuple[int, ...]) -> None:
        if transaction > self._meta.transaction:
            raise BadPage(
                f"a record of the free list is of transaction {transaction}, which is still to come"
            )
        if any(not FIRST_PAGE <= page <= self._last_page for page in pages):
            raise BadPage("the free list has a page that is not in the file")
        if not free.isdisjoint(pages) or len(set(pages)) != len(pages):
            raise BadPage("the free list has a page twice")
        free.update(pages)

    def _lost(self, name: str, hole: Hole) -> str:
        if name == FREE:
            return "the next writes could overwrite pages that are in use"
        if name == MAIN:
            return "databases cannot be found"
        return f"{describe(name, hole, self._types)} cannot be read"


def meta_problems(file: PageFile) -> Iterator[Damage]:
    """What is wrong with the two meta pages by themselves."""
    one, other = file.metas()
    for meta in (one, other):
        for what in meta_faults(file, meta):
            yield Damage(meta.slot, "", what, "LMDB may use an older version of the file, or none")
    distance = abs(one.transaction - other.transaction)
    if distance > 1:
        text = f"the meta pages are of the transactions {one.transaction} and {other.transaction}"
        yield Damage(0, "", text, "one of them is wrong, because a commit writes them in turn")


def meta_faults(file: PageFile, meta: Meta) -> Iterator[str]:
    """Sentences about one meta page."""
    page = file.page(meta.slot)
    if kind_of(page) != META or page_number(page[:8]) != meta.slot:
        yield "its header is not that of a meta page"
    if meta.magic != MAGIC or meta.version != VERSION:
        yield "it does not begin like a meta page of LMDB"
    if meta.free.pad != file.page_size:
        yield f"it says that pages have {meta.free.pad} bytes, and they have {file.page_size}"
    if meta.free.flags not in FREE_FLAGS or meta.main.flags or meta.main.pad:
        yield "the flags of its databases are wrong"
    if meta.address:
        yield f"it asks for the address {meta.address:#x}"
    if meta.transaction and meta.transaction % 2 != meta.slot:
        yield f"transaction {meta.transaction} never writes this meta page"
    if (
        meta.last_page < 1
        or meta.last_page > LARGEST_FILE
        or (meta.last_page + 1) * file.page_size > meta.map_size
    ):
        yield f"it says that the last page is {meta.last_page}, in a map of {meta.map_size} bytes"
    for root in (meta.free.root, meta.main.root):
        if root != NO_PAGE and not FIRST_PAGE <= root <= meta.last_page:
            yield f"it says that a tree begins at page {root}"


def wrong_counters(database: Database, counted: Counted, flags: tuple[int, ...]) -> Iterator[str]:
    for word in ("branch_pages", "leaf_pages", "overflow_pages", "entries"):
        stated, found = getattr(database, word), getattr(counted, word)
        if stated != found:
            yield f"its record says {stated} {word.replace('_', ' ')}, it has {found}"
    if database.flags not in flags:
        yield f"its flags are {database.flags:#x}"


def describe(database: str, hole: Hole, types: dict[int, str]) -> str:
    """Which records a hole is about: events 12 to 40, objects from configmaps default/a on, ..."""
    words = {
        "events": "events",
        "state": "objects",
        "by_type": "the index by type",
        "by_object": "the index by object",
        "counts": "counts",
        "snapshots": "snapshots",
    }
    if database == "meta":
        return "the names of types, the dialect and the retention floor"
    what = words.get(database, database)
    if hole.single:
        return f"{what} {_printable(database, hole.low, types)}"
    low = f" from {_printable(database, hole.low, types)}" if hole.low else " from the first"
    high = f" up to {_printable(database, hole.high, types)}" if hole.high is not None else " to the last"
    return what + low + high


def _printable(database: str, key: bytes, types: dict[int, str]) -> str:
    if database in ("events", "snapshots"):
        return str(int.from_bytes(key[:8].ljust(8, b"\0"), "big"))
    number = int.from_bytes(key[:2].ljust(2, b"\0"), "big")
    name = types.get(number, f"type {number}")
    rest = key[2:]
    if database == "by_type":
        return f"{name} {int.from_bytes(rest[:8].ljust(8, bytes(1)), 'big')}"
    if database == "by_object" and len(rest) > 9:
        rest, offset = rest[:-9], int.from_bytes(rest[-8:], "big")
        return f"{name} {rest.replace(bytes(1), b'/').decode(errors='backslashreplace')} {offset}"
    return f"{name} {rest.replace(bytes(1), b'/').decode(errors='backslashreplace')}"


# Some tens of milliseconds on an idle machine: a start should not take noticeably longer.
CHECKED_AT_OPENING = 8 << 20
ATTEMPTS = 100  # to read the meta page of a transaction before two commits replace it


def check_structure(env: Any, data: Path, names: tuple[str, ...]) -> None:
    """Checks the structure of a file before LMDB reads its trees: a damaged page would end the process.

    Every opening of a file of moderate size does this; a larger one would take too long, and its pages are
    checked by `rewound journal verify`.

    DamagedStructure when a page of an open environment is damaged. The file may be that of a running writer.
    """
    file = PageFile(data)
    try:
        if file.size > CHECKED_AT_OPENING:
            return
        for _ in range(ATTEMPTS):
            with env.begin() as reading:  # keeps its pages
                meta = next((meta for meta in file.metas() if meta.transaction == reading.id()), None)
                if meta is None:
                    continue
                file.update_size()
                # The meta pages were checked before; a failed write leaves wrong roots in the older one, which does
                # no harm (docs/decisions/0018-journal-identity.md).
                result = audit(file, names, meta)
                found = [one for one in result.damage if one.page not in (0, 1)]
                if found and not result.unused:
                    raise DamagedStructure(data.parent, str(found[0]), len(found))
                return
    finally:
        file.close()
