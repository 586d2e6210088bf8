"""Recovers a damaged journal folder into a new one; called by the command line.

It never writes to the damaged folder, and keeps servers from opening it meanwhile. The new folder is built beside its
target and renamed when it is complete and verified.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rewound.journal import keys, records
from rewound.journal.batching import event_batches
from rewound.journal.errors import AlreadyOpen, CannotRecover, JournalExists, NewerLayout, NoJournal
from rewound.journal.files import identity
from rewound.journal.files.data_file import DATA, LOCK
from rewound.journal.files.identity import Identity
from rewound.journal.files.pages import PageFile
from rewound.journal.log import LAYOUT, Journal
from rewound.journal.records import Event
from rewound.journal.repair import verify
from rewound.journal.repair.damaged_file import Strays, find_strays, read_meta, survey
from rewound.journal.repair.plan import Plan, Saved, decide
from rewound.journal.repair.verify import describe
from rewound.journal.timelines import decode_timelines
from rewound.journal.transfer import temporary_folder

LOCKS = (LOCK, DATA)

# The current step, how much of it is done, and its total.
Progress = Callable[[str, int, int], None]


def _no_progress(what: str, done: int, total: int) -> None:
    """The default progress callback, which does nothing."""


@dataclass(frozen=True, slots=True)
class LostObject:
    type_name: str
    namespace: str
    name: str
    newest: int  # the newest version known to have existed
    restored: int  # the older version in the new folder; 0 if none


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the new folder contains, and what is lost."""

    source: str  # the version of the file that was read
    dialect: str
    head: int
    floor: int
    floor_before: int
    events: int
    objects: int
    lost_objects: list[LostObject] = field(default_factory=list)
    lost_events: list[int] = field(default_factory=list)
    events_from_state: list[int] = field(default_factory=list)  # events restored without user, verb and time
    damage: list[str] = field(default_factory=list)
    unknown: bool = False  # more may be lost, about which nothing is known


def recover(
    damaged: Path, path: Path, dialect: str | None = None, progress: Progress = _no_progress
) -> Recovered:
    """Create the journal in `path` from what is intact in the one in `damaged`."""
    if path.exists() and any(path.iterdir()):
        raise JournalExists(path)
    if not (damaged / DATA).exists():
        raise NoJournal(damaged)
    with _server_locks(damaged), PageFile(damaged / DATA) as file:
        found = Findings(file, damaged, dialect, progress)
        with temporary_folder(path) as building:
            return _build(file, found, building, progress)


@contextmanager
def _server_locks(path: Path) -> Iterator[None]:
    """Hold the locks of a server, without writing anything. Raises AlreadyOpen while one runs."""
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


_HISTORY = (keys.TIMELINES, keys.FOLLOWS, keys.KUBERNETES, keys.MIGRATED, keys.THINNED, keys.CUTS)


class Findings:
    """The readable contents of a damaged file: its records, its types and its dialect."""

    def __init__(
        self, file: PageFile, path: Path, dialect: str | None, progress: Progress = _no_progress
    ) -> None:
        self.identity = _identity(path)
        pages = file.pages

        def reads(what: str) -> Callable[[int], None]:
            return lambda page: progress(what, page, pages)

        self.trees, self.newest = survey(
            file,
            self.identity.transaction if self.identity else 0,
            reads("recover: read pages"),
        )
        damaged = self.trees.damaged or not self.newest
        self.strays = Strays()
        if damaged:
            self.strays = find_strays(file, self.trees.read, reads("recover: search pages for lost records"))
        self._path = path
        meta = read_meta(self.trees, self.strays)
        if meta is None:
            raise CannotRecover(path, "the names of its types do not match their checksum")
        self._check_layout(meta)
        self.types = keys.types_in(meta)
        recorded = (
            self.identity.dialect if self.identity else meta.get(keys.DIALECT, b"").decode(errors="replace")
        )
        self.dialect = dialect or recorded
        self.cluster_id = self.identity.cluster_id if self.identity else meta.get(keys.CLUSTER_ID)
        self.floor = int.from_bytes(meta.get(keys.FLOOR, b""), "big")
        # A standby's folder stays one until it is promoted: it may have lost what its leader has.
        self.history = {key: meta[key] for key in _HISTORY if key in meta}
        self._meta_damage = self._drop_wrong_timelines()
        if not self.dialect:
            raise CannotRecover(path, "its dialect is lost: name it with --dialect")
        self.plan = self._plan()

    def _check_layout(self, meta: dict[bytes, bytes]) -> None:
        layout = int.from_bytes(meta.get(keys.LAYOUT, b""), "big")
        if layout > LAYOUT:
            raise NewerLayout(f"the journal in {self._path}", layout, LAYOUT)

    def _drop_wrong_timelines(self) -> list[str]:
        """Leave out timelines that cannot be decoded.

        Without them a promoted server refuses this journal, rather than mixing two histories.
        """
        try:
            decode_timelines(self.history.get(keys.TIMELINES, b""))
        except ValueError as wrong:
            del self.history[keys.TIMELINES]
            return [f"the record of the timelines is wrong, and left out ({wrong})"]
        return []

    def _plan(self) -> Plan:
        plan = decide(
            self.trees,
            self.strays,
            self.floor,
            self.identity.head if self.identity else 0,
            newest=self.newest,
        )
        numbers = {keys.pack_type(number) for number in self.types.values()}
        nameless = [saved for saved in plan.saved if saved.key[:2] not in numbers]
        if nameless:
            raise CannotRecover(
                self._path, f"the names of {len({saved.key[:2] for saved in nameless})} types are lost"
            )
        if not plan.saved and self.trees.damaged:
            raise CannotRecover(self._path, "no object in it can be read")
        return plan

    @property
    def damage(self) -> list[str]:
        types = {number: name for name, number in self.types.items()}
        return self._meta_damage + [
            f"page {hole.page} ({name}): {hole.why}: {describe(name, hole, types)}"
            for name, holes in self.trees.holes.items()
            for hole in holes
        ]


def _identity(path: Path) -> Identity | None:
    try:
        return identity.read(path)
    except ValueError:
        return None


def _build(file: PageFile, found: Findings, building: Path, progress: Progress) -> Recovered:
    plan = found.plan
    journal = Journal.open(building, dialect=found.dialect, cluster_id=found.cluster_id)
    try:
        write_meta(journal, found.types, plan.floor, found.history)
        write_events(journal, file, plan, progress)
        total = len(plan.saved)
        with journal.read() as view:
            report = verify.verify(view, lambda read: progress("recover: check the result", read, total))
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


VERB, USER = "recover", "rewound journal recover"  # user of events that the recovery adds


def write_meta(journal: Journal, types: dict[str, int], floor: int, history: dict[bytes, bytes]) -> None:
    """Write the numbers of the types, the records of the history, and the floor."""

    changes = {keys.TYPE_PREFIX + name.encode(): keys.pack_type(number) for name, number in types.items()}
    changes[keys.FLOOR] = keys.pack_offset(floor)
    changes |= history
    meta = journal.environment.databases.meta
    journal.environment.write(lambda txn: records.put_meta(txn, meta, changes))


def write_events(journal: Journal, file: PageFile, plan: Plan, progress: Progress = _no_progress) -> None:
    """Write the planned events into a new journal.

    Versions never go back: if the newest version known to have existed is lost, some object gets a version above it.
    An object whose newest version is lost gets such a new version with its older content, so that clients which have
    seen the lost one notice.
    """
    written = 0
    for batch in event_batches(_events(file, plan), plan.floor):
        journal.append(batch, restored=batch[-1].offset <= plan.floor)
        written += len(batch)
        progress("recover: write events", written, len(plan.saved))


def _events(file: PageFile, plan: Plan) -> Iterator[Event]:
    time = 0
    newest: dict[bytes, Event] = {}  # newest events of live objects, without contents
    for saved in plan.saved:
        event = read_event(file, saved, time)
        time = event.time
        newest.pop(saved.key, None)
        if not event.removed:
            newest[saved.key] = event._replace(facts=b"", body=b"")
        yield event
    head = max(plan.head, plan.saved[-1].offset if plan.saved else 0)
    renewed = [saved for saved in plan.renewed if saved.key in newest]
    if not renewed and plan.saved and plan.saved[-1].offset < head:
        renewed = [saved for saved in plan.saved if newest.get(saved.key) is not None][-1:]
    for number, saved in enumerate(renewed):
        yield _renewed(read_event(file, saved, time), head + 1 + number, time)
    if not renewed and (not plan.saved or plan.saved[-1].offset < head):
        yield from _marker(plan, head, time)


def read_event(file: PageFile, saved: Saved, time: int) -> Event:
    """An event as it is in the damaged file. One restored from its row gets the time of the event before it."""
    value = file.bytes_at(*saved.place)
    if not saved.from_row:
        event = records.decode_event(saved.offset, value)
        return event if event.time >= time else event._replace(time=time)
    _, facts, body = records.decode_row(saved.key, memoryview(value))
    namespace, name = keys.names_of(saved.key)
    type_id = int.from_bytes(saved.key[:2], "big")
    previous = max(saved.previous, 0)
    return Event(saved.offset, type_id, VERB, namespace, name, previous, False, time, USER, "", facts, body)


def _renewed(event: Event, offset: int, time: int) -> Event:
    """The same object under a new version."""
    return event._replace(
        offset=offset,
        verb=VERB,
        previous=event.offset,
        time=time,
        user=USER,
        manager="",
        body=with_version(event.body, offset),
    )


def with_version(body: bytes, offset: int) -> bytes:
    """The JSON of an object with another resourceVersion, which must be its offset."""
    document = json.loads(body)
    document["metadata"]["resourceVersion"] = str(offset)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _marker(plan: Plan, head: int, time: int) -> Iterator[Event]:
    """An event that removes a lost object, at a new version; used if no object is left to get that version."""
    for lost in plan.lost_objects[:1]:
        namespace, name = keys.names_of(lost.key)
        metadata = {"name": name, "namespace": namespace, "resourceVersion": str(head + 1)}
        body = json.dumps({"metadata": {key: value for key, value in metadata.items() if value}}).encode()
        type_id = int.from_bytes(lost.key[:2], "big")
        yield Event(head + 1, type_id, VERB, namespace, name, 0, True, time, USER, "", b"", body)
