"""Checks that the journal holds what was written: its tail at every opening, all of it on demand.

`Journal.open` calls `check_tail`; the command line and tests call `verify`, in another process than a busy
server, because it holds a read transaction for as long as it takes. `verify` reads every record once and
compares state and counts with a replay of all events, and with a second replay from the newest snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from journal import history, keys, records, snapshots, state
from journal.environment import PageError
from journal.errors import Damaged, DamagedTail, NewerLayout
from journal.records import Event, Link, decode_event, printable
from journal.replay import Offsets, fold
from journal.transaction import ReadTransaction

TAIL = 512  # newest events checked at every opening: some milliseconds, whatever the journal's size
SHOWN = 20  # differences that a report lists; a damaged journal may have millions
STEP = 10_000  # records between two calls of the progress callback

Progress = Callable[[int], None]  # how many records were read


def check_tail(reading: ReadTransaction, path: Path, depth: int = TAIL) -> None:
    """Check the newest events and their rows; DamagedTail names the newest event that fails."""
    newer: set[bytes] = set()
    counted: set[bytes] = set()
    offset = 0
    try:
        cursor = reading.txn.cursor(reading.databases.events)
        for key, value in islice(cursor.iterprev(), depth):
            offset = keys.offset_of(key)
            event = decode_event(offset, value)
            link = _link_of(event)
            _check_indexed(reading, link)
            if link.key not in newer:
                newer.add(link.key)
                _check_counts(reading, link.key, counted)
                _check_newest(reading, link.key, event)
    except Damaged as damage:
        raise DamagedTail(path, offset, damage.what) from damage
    except PageError as damage:
        raise DamagedTail(path, offset, str(damage)) from damage


def _check_counts(reading: ReadTransaction, key: bytes, counted: set[bytes]) -> None:
    """The counts of an object's scopes must be readable. `counted` has the scopes that were checked before."""
    for scope in keys.scopes_of(key):
        if scope not in counted:
            counted.add(scope)
            state.count(reading.txn, reading.databases.counts, scope)


def _check_newest(reading: ReadTransaction, key: bytes, event: Event) -> None:
    """The newest event of an object must be its state."""
    row = state.get(reading.txn, reading.databases.state, key)
    if event.removed:
        if row is not None:
            raise Damaged(f"{printable(key)} was removed and is still there")
    elif row is None:
        raise Damaged(f"the state of {printable(key)} is missing")
    elif (row.offset, row.facts, row.body) != (event.offset, event.facts, event.body):
        raise Damaged(f"the state of {printable(key)} is not what its event says")


def _check_indexed(reading: ReadTransaction, link: Link) -> None:
    """Both indexes must have the event."""
    type_key = link.key[:2] + keys.pack_offset(link.offset)
    value = reading.txn.get(type_key, db=reading.databases.by_type)
    if value is None or records.decode_link(type_key, value) != link:
        raise Damaged(f"the index by type does not have event {link.offset}")
    object_key = keys.by_object(link.key, link.offset)
    if reading.txn.get(object_key, db=reading.databases.by_object) is None:
        raise Damaged(f"the index by object does not have event {link.offset}")


@dataclass(slots=True)
class Report:
    """What `verify` found. `differences` lists the first ones, as sentences; `wrong` counts all."""

    events: int = 0
    rows: int = 0
    snapshots: int = 0
    wrong: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.wrong

    def add(self, what: str) -> None:
        self.wrong += 1
        if len(self.differences) < SHOWN:
            self.differences.append(what)


def verify(reading: ReadTransaction, progress: Progress | None = None) -> Report:
    """Check every record, index and count."""
    run = _Run(reading, progress)
    try:
        run.run()
    except PageError as damage:
        run.report.add(f"the structure of the LMDB file is damaged ({damage}); the rest was not read")
    return run.report


class _Run:
    def __init__(self, reading: ReadTransaction, progress: Progress | None) -> None:
        self._reading, self._databases = reading, reading.databases
        self._progress = progress
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
        """Check every event, and replay them to the latest state."""
        offsets: Offsets = {}
        time = 0
        for key, value in self._reading.txn.cursor(self._databases.events):
            self._step()
            self.report.events += 1
            with self._reporting():
                event = decode_event(keys.offset_of(key), value)
                link = _link_of(event)
                self._check_order(event, link, time, offsets)
                time = event.time
                fold(offsets, (link,))
                _check_indexed(self._reading, link)
        return offsets

    def _check_order(self, event: Event, link: Link, time: int, offsets: Offsets) -> None:
        if event.time < time:
            self.report.add(f"event {event.offset} is earlier than the one before it")
        # Up to the floor only one event of each object is left; the event before it is gone.
        if event.offset > self._reading.floor and event.previous != offsets.get(link.key, 0):
            self.report.add(f"event {event.offset} does not follow the state of {printable(link.key)}")

    def _check_sizes(self) -> None:
        """Every event is in both indexes, so as many entries as events means that they hold nothing else."""
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


def _link_of(event: Event) -> Link:
    key = keys.of_object(event.type_id, event.namespace, event.name)
    return Link(event.offset, key, event.previous, event.removed)
