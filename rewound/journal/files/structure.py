"""Checks the structure of an LMDB file: that its trees, counters and free list are as LMDB writes them.

Every opening of a file of moderate size does this before LMDB reads its trees (`check_structure`): LMDB can read what
passes without crashing. `rewound journal verify` does it for files of any size, and adds what the damage means.

It checks one version of the file, that of one meta page; on the file of a running server, a read transaction keeps
the pages of that version. The meta pages themselves were checked before (`meta_pages`); a failed write leaves wrong
roots in the older one, which does no harm (docs/decisions/0018-journal-identity.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rewound.journal.errors import DamagedStructure
from rewound.journal.files.meta_pages import NO_ROOT, Database, MetaPage
from rewound.journal.files.pages import (
    FIRST_PAGE,
    BadPage,
    Counted,
    Hole,
    Leaf,
    PageFile,
    Walk,
    database_of,
    free_pages,
    page_number,
)

MAIN, FREE = "main", "free list"
# Flags of the free list: integer keys, and whether the file was created in a folder of its own.
FREE_FLAGS = (0x0008, 0x4008)
LARGEST_FILE = 1 << 36  # pages; a larger number means damage

# Checked in some tens of milliseconds on an idle machine, so that a start is not noticeably slower.
CHECKED_AT_OPENING = 8 << 20
ATTEMPTS = 100  # attempts to read the meta page of a transaction before two more commits replace it

Progress = Callable[[int], None]  # number of pages read
Meaning = Callable[[str, Hole], str]  # describes which records of a database a hole contains


class Damage(msgspec.Struct, frozen=True):
    """One problem, and what it means for the data."""

    page: int | None
    database: str
    what: str
    means: str = ""

    def __str__(self) -> str:
        where = f"page {self.page}" if self.page is not None else "the file"
        of = f" ({self.database})" if self.database else ""
        return f"{where}{of}: {self.what}" + (f": {self.means}" if self.means else "")


class Audit(msgspec.Struct):
    pages: int = 0  # number of pages read
    # Pages that are neither in use nor free, if that is the only problem: space is lost, but no data.
    unused: int = 0
    damage: list[Damage] = msgspec.field(default_factory=list)
    missing: list[str] = msgspec.field(default_factory=list)  # names of missing databases


def check_structure(env: Any, data: Path, names: tuple[str, ...]) -> None:
    """Raises DamagedStructure if a page of an open environment is damaged. Skips large files, to save time."""
    with PageFile(data) as file:
        if file.size > CHECKED_AT_OPENING:
            return
        with pinned_meta(env, file) as meta:
            if meta is None:
                return
            found = audit(file, names, meta)
    if found.damage and not found.unused:
        raise DamagedStructure(data.parent, str(found.damage[0]), len(found.damage))


@contextmanager
def pinned_meta(env: Any, file: PageFile) -> Iterator[MetaPage | None]:
    """The meta page of a read transaction, which keeps its pages from being reused; None if commits kept overtaking
    it.

    To begin a transaction, LMDB reads only the meta pages.
    """
    for _ in range(ATTEMPTS):
        with env.begin() as reading:
            meta = next((meta for meta in file.metas() if meta.transaction == reading.id()), None)
            if meta is not None:
                file.update_size()
                yield meta
                return
    yield None


def audit(
    file: PageFile,
    names: tuple[str, ...],
    meta: MetaPage,
    progress: Progress | None = None,
    meaning: Meaning | None = None,
) -> Audit:
    """Check every page that can be reached from a meta page. `names` are the databases that must exist."""
    run = _Run(file, names, meta, progress, meaning)
    run.run()
    return run.audit


class _Run:
    def __init__(
        self,
        file: PageFile,
        names: tuple[str, ...],
        meta: MetaPage,
        progress: Progress | None,
        meaning: Meaning | None,
    ) -> None:
        self._file, self._names, self._progress, self._meaning = file, names, progress, meaning
        self._meta = meta
        self._last_page = min(meta.last_page, LARGEST_FILE)
        self._seen: set[int] = set()
        self._free: set[int] = set()
        self.audit = Audit()

    def run(self) -> None:
        databases = self._databases()
        for name in self._names:
            if name in databases:
                self._walk(name, databases[name])
        self._check_free_list()
        self.audit.pages = len(self._seen)

    def _add(self, page: int | None, database: str, what: str, means: str = "") -> None:
        self.audit.damage.append(Damage(None if page == NO_ROOT else page, database, what, means))

    def _walk(self, name: str, database: Database, use: Callable[[Walk, Leaf], None] | None = None) -> None:
        walk = Walk(self._file, name, database, self._last_page, self._seen, by_number=name == FREE)
        for leaf in walk.leaves():
            if self._progress is not None:
                self._progress(len(self._seen))
            if use is not None:
                use(walk, leaf)
        for hole in walk.holes:
            self._add(hole.page, name, hole.why, self._meaning(name, hole) if self._meaning else "")
        if not walk.holes:
            for what in wrong_counters(database, walk.counted, FREE_FLAGS if name == FREE else (0,)):
                self._add(None, name, what)

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
            self._add(None, MAIN, f"there is a database {name}, which no release creates")
        return found

    def _check_free_list(self) -> None:
        self._walk(FREE, self._meta.free, self._read_free_list)
        for page in sorted(self._free & self._seen)[:20]:
            what, means = "it is in use, and the free list has it", "the next writes would overwrite it"
            self._add(page, FREE, what, means)
        lost = self._last_page - 1 - len(self._free | self._seen)
        if lost and not self.audit.damage and not self.audit.missing:
            self.audit.unused = lost
            self._add(None, FREE, f"{lost} pages are neither in use nor free")

    def _read_free_list(self, walk: Walk, leaf: Leaf) -> None:
        for node in leaf.nodes:
            try:
                self._add_free(page_number(node.key), free_pages(walk.value(node)))
            except BadPage as bad:
                self._add(leaf.number, FREE, str(bad))

    def _add_free(self, transaction: int, pages: tuple[int, ...]) -> None:
        if transaction > self._meta.transaction:
            raise BadPage(
                f"a record of the free list is of transaction {transaction}, which is still to come"
            )
        if any(not FIRST_PAGE <= page <= self._last_page for page in pages):
            raise BadPage("the free list has a page that is not in the file")
        if not self._free.isdisjoint(pages) or len(set(pages)) != len(pages):
            raise BadPage("the free list has a page twice")
        self._free.update(pages)


def wrong_counters(database: Database, counted: Counted, flags: tuple[int, ...]) -> Iterator[str]:
    for word in ("branch_pages", "leaf_pages", "overflow_pages", "entries"):
        stated, found = getattr(database, word), getattr(counted, word)
        if stated != found:
            yield f"its record says {stated} {word.replace('_', ' ')}, it has {found}"
    if database.flags not in flags:
        yield f"its flags are {database.flags:#x}"
