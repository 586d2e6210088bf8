"""Recovers a damaged journal folder into a new one; the command line calls it.

It never writes to the damaged folder, and keeps servers out of it meanwhile. The new folder is built beside its target
and renamed when it is complete and verified.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from journal import keys, verify
from journal.errors import AlreadyOpen, CannotRecover, JournalExists, NewerLayout, NoJournal
from journal.files import identity
from journal.files.data_file import DATA, LOCK
from journal.files.identity import Identity
from journal.log import LAYOUT, Journal
from journal.pages.audit import describe
from journal.pages.layout import PageFile
from journal.recovery.decide import Plan, decide
from journal.recovery.meta_records import read_meta
from journal.recovery.rebuild import write_events, write_meta
from journal.recovery.strays import Strays, find_strays
from journal.recovery.survey import survey
from journal.transfer.restore import temporary_folder

LOCKS = (LOCK, DATA)


@dataclass(frozen=True, slots=True)
class LostObject:
    type_name: str
    namespace: str
    name: str
    newest: int  # the version that is known to have existed
    restored: int  # the older version that the new folder has; 0: none


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the new folder has, and what is lost."""

    source: str  # which version of the file was read
    dialect: str
    head: int
    floor: int
    floor_before: int
    events: int
    objects: int
    lost_objects: list[LostObject] = field(default_factory=list)
    lost_events: list[int] = field(default_factory=list)
    events_from_state: list[int] = field(default_factory=list)  # without user, verb and time
    damage: list[str] = field(default_factory=list)
    unknown: bool = False  # more may be lost, of which nothing is known


def recover(damaged: Path, path: Path, dialect: str | None = None) -> Recovered:
    """Create the journal in `path` from what is sound in the one in `damaged`."""
    if path.exists() and any(path.iterdir()):
        raise JournalExists(path)
    if not (damaged / DATA).exists():
        raise NoJournal(damaged)
    with _kept_from_servers(damaged), _opened(damaged / DATA) as file:
        found = Findings(file, damaged, dialect)
        with temporary_folder(path) as building:
            return _build(file, found, building)


@contextmanager
def _opened(path: Path) -> Iterator[PageFile]:
    file = PageFile(path)
    try:
        yield file
    finally:
        file.close()


@contextmanager
def _kept_from_servers(path: Path) -> Iterator[None]:
    """Lock what a server locks, without writing anything; AlreadyOpen while one runs."""
    with ExitStack() as opened:
        for name in LOCKS:
            if not (path / name).exists():
                continue
            handle = os.open(path / name, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(handle, 32, 0) if name == LOCKS[0] else b""
                raise AlreadyOpen(path, holder.decode(errors="replace").strip()) from None
        yield


class Findings:
    """What a damaged file has: its records, its types and its dialect."""

    def __init__(self, file: PageFile, path: Path, dialect: str | None) -> None:
        self.who = _identity(path)
        self.trees, self.newest = survey(file, self.who.transaction if self.who else 0)
        damaged = self.trees.damaged or not self.newest
        self.strays = find_strays(file, self.trees.read) if damaged else Strays()
        self._path = path
        meta = read_meta(self.trees, self.strays)
        if meta is None:
            raise CannotRecover(path, "the names of its types do not match their checksum")
        self._check_layout(meta)
        self.types = keys.types_in(meta)
        recorded = self.who.dialect if self.who else meta.get(keys.DIALECT, b"").decode(errors="replace")
        self.dialect = dialect or recorded
        self.cluster_id = self.who.cluster_id if self.who else meta.get(keys.CLUSTER_ID)
        self.floor = int.from_bytes(meta.get(keys.FLOOR, b""), "big")
        if not self.dialect:
            raise CannotRecover(path, "its dialect is lost: name it with --dialect")
        self.plan = self._plan()

    def _check_layout(self, meta: dict[bytes, bytes]) -> None:
        layout = int.from_bytes(meta.get(keys.LAYOUT, b""), "big")
        if layout > LAYOUT:
            raise NewerLayout(f"the journal in {self._path}", layout, LAYOUT)

    def _plan(self) -> Plan:
        plan = decide(
            self.trees, self.strays, self.floor, self.who.head if self.who else 0, newest=self.newest
        )
        numbers = {keys.pack_type(number) for number in self.types.values()}
        nameless = [kept for kept in plan.kept if kept.key[:2] not in numbers]
        if nameless:
            raise CannotRecover(
                self._path, f"the names of {len({kept.key[:2] for kept in nameless})} types are lost"
            )
        if not plan.kept and self.trees.damaged:
            raise CannotRecover(self._path, "no object in it can be read")
        return plan

    @property
    def damage(self) -> list[str]:
        types = {number: name for name, number in self.types.items()}
        return [
            f"page {hole.page} ({name}): {hole.why}: {describe(name, hole, types)}"
            for name, holes in self.trees.ranges.items()
            for hole in holes
        ]


def _identity(path: Path) -> Identity | None:
    try:
        return identity.read(path)
    except ValueError:
        return None


def _build(file: PageFile, found: Findings, building: Path) -> Recovered:
    plan = found.plan
    journal = Journal.open(building, dialect=found.dialect, cluster_id=found.cluster_id)
    try:
        write_meta(journal, found.types, plan.floor)
        write_events(journal, file, plan)
        with journal.read() as view:
            report = verify.verify(view)
        if not report.sound:
            raise CannotRecover(building, f"the result is not sound: {report.differences[0]}")
        return _recovered(found, journal.head, report)
    finally:
        journal.close()


def _recovered(found: Findings, head: int, report: verify.Report) -> Recovered:
    plan = found.plan
    names = {number: name for name, number in found.types.items()}
    lost = [
        LostObject(
            names.get(number := int.from_bytes(one.key[:2], "big"), f"type {number}"),
            *keys.names_of(one.key),
            one.newest,
            one.restored,
        )
        for one in plan.lost_objects
    ]
    return Recovered(
        found.trees.source,
        found.dialect,
        head,
        plan.floor,
        found.floor,
        report.events,
        report.rows,
        lost,
        plan.lost_events,
        plan.from_rows,
        found.damage,
        plan.unknown,
    )
