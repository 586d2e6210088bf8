"""Checks that a journal contains what was written: every page of its file, then every record.

The command line runs it in a process of its own, because it holds a read transaction all the time, and LMDB may crash
on a damaged file. `verify_structure` reads the pages without LMDB. `verify` reads every record once and compares
state and counts with a replay of all events, and with a second replay from the newest snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import lmdb

from rewound.journal import history, keys, records, snapshots, state
from rewound.journal.environment import Databases, PageError
from rewound.journal.errors import Damaged, NewerLayout, NoJournal, NotAJournal
from rewound.journal.files.data_file import DATA
from rewound.journal.files.meta_pages import MAGIC, META, NO_ROOT, VERSION, Database, MetaPage
from rewound.journal.files.pages import (
    FIRST_PAGE,
    BadPage,
    Hole,
    Node,
    PageFile,
    Walk,
    database_of,
)
from rewound.journal.files.structure import (
    FREE,
    FREE_FLAGS,
    LARGEST_FILE,
    MAIN,
    Audit,
    Damage,
    audit,
    pinned_meta,
)
from rewound.journal.records import Event, Link, checked_event, printable
from rewound.journal.replay import Offsets, fold
from rewound.journal.tail import check_indexed, link_of
from rewound.journal.transaction import ReadTransaction

NAMES = Databases._fields
SHOWN = 20  # listed in a report at most: a damaged journal may have millions
STEP = 10_000  # records between two calls of the progress callback

Progress = Callable[[int], None]  # number of records read
PageProgress = Callable[[int, int], None]  # number of pages read, and of all pages


def verify_structure(path: Path, progress: PageProgress) -> Audit:
    """Check every page of the file in a folder, also while a server is running on it."""
    with open_pages(path) as file, _pinned(path, file) as pinned:
        meta = pinned or file.newest_meta()
        types = _types(file, meta)
        found = audit(
            file,
            NAMES,
            meta,
            lambda read: progress(read, file.pages),
            lambda name, hole: _meaning(name, hole, types),
        )
        found.damage[:0] = meta_problems(file)
    found.damage += [Damage(None, MAIN, f"there is no database {name}") for name in found.missing]
    return found


def open_pages(path: Path) -> PageFile:
    try:
        file = PageFile(path / DATA)
    except FileNotFoundError:
        raise NoJournal(path) from None
    if not file.size:
        file.close()
        raise NotAJournal(path, f"{DATA} is empty")
    return file


@contextmanager
def _pinned(path: Path, file: PageFile) -> Iterator[MetaPage | None]:
    """The meta page of a read transaction; None if LMDB cannot begin one."""
    try:
        environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=0, readahead=False)
    except lmdb.Error:
        yield None
        return
    try:
        with pinned_meta(environment, file) as meta:
            yield meta
    finally:
        environment.close()


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


def meta_faults(file: PageFile, meta: MetaPage) -> Iterator[str]:
    """Problems of one meta page, as sentences."""
    if meta.flags != META or meta.number != meta.slot:
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
        if root != NO_ROOT and not FIRST_PAGE <= root <= meta.last_page:
            yield f"it says that a tree begins at page {root}"


def databases_on(nodes: list[Node]) -> dict[str, Database]:
    """The databases whose records are on a page, except damaged ones."""
    found: dict[str, Database] = {}
    for node in nodes:
        try:
            found[node.key.decode()] = database_of(node)
        except (BadPage, UnicodeDecodeError):
            continue
    return found


def _types(file: PageFile, meta: MetaPage) -> dict[int, str]:
    """The names of the types by number, as far as they can be read."""
    found: dict[int, str] = {}
    for main in Walk(file, MAIN, meta.main, meta.last_page).leaves():
        database = databases_on(main.nodes).get("meta")
        if database is not None:
            for leaf in Walk(file, "meta", database, meta.last_page).leaves():
                named = keys.types_in({node.key: node.value for node in leaf.nodes})
                found |= {number: name for name, number in named.items()}
    return found


def _meaning(name: str, hole: Hole, types: dict[int, str]) -> str:
    if name == FREE:
        return "the next writes could overwrite pages that are in use"
    if name == MAIN:
        return "databases cannot be found"
    return f"{describe(name, hole, types)} cannot be read"


def describe(database: str, hole: Hole, types: dict[int, str]) -> str:
    """Which records a hole contains: events 12 to 40, objects from configmaps default/a on, ..."""
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


@dataclass(slots=True)
class Report:
    """The findings of `verify`. `differences` lists the first ones as sentences; `wrong` counts all."""

    events: int = 0
    rows: int = 0
    snapshots: int = 0
    wrong: int = 0
    differences: list[str] = field(default_factory=list)
    digest: str = ""  # SHA-256 of the offsets and bytes of the events, to compare two folders

    @property
    def sound(self) -> bool:
        return not self.wrong

    def add(self, what: str) -> None:
        self.wrong += 1
        if len(self.differences) < SHOWN:
            self.differences.append(what)


def verify(reading: ReadTransaction, progress: Progress | None = None, digest_after: int = 0) -> Report:
    """Check every record, index and count. The digest covers the events after an offset."""
    run = _Run(reading, progress, digest_after)
    try:
        run.run()
    except PageError as damage:
        run.report.add(f"the structure of the LMDB file is damaged ({damage}); the rest was not read")
    return run.report


class _Run:
    def __init__(self, reading: ReadTransaction, progress: Progress | None, digest_after: int) -> None:
        self._reading, self._databases = reading, reading.databases
        self._progress = progress
        self._digest_after = digest_after
        self._read = 0
        self.report = Report()

    def run(self) -> None:
        offsets = self._replayed()
        self._check_sizes()
        self._check_rows(offsets)
        self._check_counts(offsets)
        self._check_snapshot(offsets)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except Damaged as damage:
            self.report.add(damage.what)
        except NewerLayout as newer:
            self.report.add(str(newer))

    def _step(self) -> None:
        self._read += 1
        if self._progress is not None and self._read % STEP == 0:
            self._progress(self._read)

    def _replayed(self) -> Offsets:
        """Check every event, and replay all of them to the latest state."""
        offsets: Offsets = {}
        time = 0
        digest = sha256()
        for key, value in self._reading.txn.cursor(self._databases.events):
            self._step()
            if keys.offset_of(key) > self._digest_after:
                digest.update(key)
                digest.update(value)
            self.report.events += 1
            with self._reporting():
                event = checked_event(keys.offset_of(key), value)
                link = link_of(event)
                self._check_order(event, link, time, offsets)
                time = event.time
                fold(offsets, (link,))
                check_indexed(self._reading, link)
        self.report.digest = digest.hexdigest()
        return offsets

    def _check_order(self, event: Event, link: Link, time: int, offsets: Offsets) -> None:
        if event.time < time:
            self.report.add(f"event {event.offset} is earlier than the one before it")
        # Up to the floor only one event of each object is left, and the event before it is gone.
        if event.offset > self._reading.floor and event.previous != offsets.get(link.key, 0):
            self.report.add(f"event {event.offset} does not follow the state of {printable(link.key)}")

    def _check_sizes(self) -> None:
        """Compare the numbers of entries: every event is in both indexes, so equal numbers mean no other entries."""
        for name, database in (("type", self._databases.by_type), ("object", self._databases.by_object)):
            entries = self._reading.txn.stat(database)["entries"]
            if entries != self.report.events:
                text = f"the index by {name} has {entries} entries for {self.report.events} events"
                self.report.add(text)

    def _check_rows(self, offsets: Offsets) -> None:
        left = dict(offsets)
        for key, value in self._reading.txn.cursor(self._databases.state):
            self._step()
            self.report.rows += 1
            expected = left.pop(bytes(key), 0)
            with self._reporting():
                self._check_row(bytes(key), expected, records.decode_row(bytes(key), value))
        for key in left:
            self.report.add(f"the state of {printable(key)} is missing")

    def _check_row(self, key: bytes, expected: int, row: tuple[int, bytes, bytes]) -> None:
        if row[0] != expected:
            raise Damaged(
                f"the state of {printable(key)} is that of event {row[0]}, a replay says {expected}"
            )
        event = self._reading.event_of(key, expected)
        if (event.facts, event.body) != row[1:]:
            raise Damaged(f"the state of {printable(key)} is not what event {expected} says")

    def _check_counts(self, offsets: Offsets) -> None:
        expected = Counter(scope for key in offsets for scope in keys.scopes_of(key))
        stored = map(bytes, self._reading.txn.cursor(self._databases.counts).iternext(values=False))
        for scope in sorted({*stored, *expected}):
            with self._reporting():
                counted = state.count(self._reading.txn, self._databases.counts, scope)
                if counted != expected[scope]:
                    where = printable(scope)
                    text = f"{counted} objects are counted in {where}, a replay says {expected[scope]}"
                    raise Damaged(text)

    def _check_snapshot(self, offsets: Offsets) -> None:
        """A replay from the newest snapshot must lead to the same state."""
        self.report.snapshots = len(snapshots.finished(self._reading))
        base = snapshots.newest(self._reading)
        with self._reporting():
            if base and self._from_snapshot(base) != offsets:
                raise Damaged(f"a replay from the snapshot at {base} leads to another state")

    def _from_snapshot(self, base: int) -> Offsets:
        rebuilt: Offsets = {}
        for type_id in self._reading.written_types():
            start = snapshots.load(self._reading, base, type_id)
            rebuilt |= fold(start, history.links(self._reading, type_id, base, self._reading.head))
        return rebuilt
