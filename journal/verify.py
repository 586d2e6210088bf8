"""Proof that the journal is what was written: at every opening for its tail, on demand for all of it.

`prove_tail` is called by `Journal.open`; `verify` by the command line and the tests, on a view of its own (in
another process than a busy server: it holds a read transaction for as long as it takes). `verify` reads every
record once and finds nothing to be true that it has not computed: state and counts come from a replay of
events, from the first one and once more from the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal import keys, records, replay, snapshots
from journal.errors import Damaged, DamagedTail, JournalError
from journal.records import Event, Link, decode_event

if TYPE_CHECKING:
    from journal.view import View

TAIL = 512  # newest events proved at every opening: some milliseconds, whatever the journal's size
SHOWN = 20  # differences told; a damaged journal may have millions
STEP = 10_000  # records between two calls of the progress callback

Told = Callable[[int], None]


def prove_tail(view: View, depth: int = TAIL) -> None:
    """Check the newest events and the rows they led to; DamagedTail names the newest that does not hold."""
    cursor = view.txn.cursor(view.journal.environment.events)
    newer: set[bytes] = set()
    for position, (key, value) in enumerate(cursor.iterprev()):
        if position == depth:
            return
        offset = keys.offset_of(key)
        try:
            _prove_newest(view, decode_event(offset, value), newer)
        except Damaged as damage:
            raise DamagedTail(view.journal.path, offset, damage.what) from damage


def _prove_newest(view: View, event: Event, newer: set[bytes]) -> None:
    """The newest event of an object must be its state."""
    key = _key_of(event)
    if key in newer:
        return
    newer.add(key)
    row = view.get(event.type_id, event.namespace, event.name)
    if event.removed:
        if row is not None:
            raise Damaged(f"{records.printable(key)} was removed and is still there")
    elif row is None:
        raise Damaged(f"the state of {records.printable(key)} is missing")
    elif (row.offset, row.facts, row.body) != (event.offset, event.facts, event.body):
        raise Damaged(f"the state of {records.printable(key)} is not what its event says")


@dataclass(slots=True)
class Report:
    """What `verify` found. `differences` are the first ones, as sentences; `wrong` counts all."""

    events: int = 0
    rows: int = 0
    snapshots: int = 0
    wrong: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.wrong

    def differs(self, what: str) -> None:
        self.wrong += 1
        if len(self.differences) < SHOWN:
            self.differences.append(what)


def verify(view: View, told: Told | None = None) -> Report:
    """Prove every record, index and count. `told` hears now and then how many records were read."""
    return _Proof(view, told).run()


class _Proof:
    def __init__(self, view: View, told: Told | None) -> None:
        self._view, self._environment = view, view.journal.environment
        self._told = told
        self._read = 0
        self.report = Report()

    def run(self) -> Report:
        offsets = replay.fold({}, self._links())
        self._prove_indexes()
        self._prove_rows(offsets)
        self._prove_counts(offsets)
        self._prove_snapshots(offsets)
        return self.report

    def _step(self) -> None:
        self._read += 1
        if self._told is not None and self._read % STEP == 0:
            self._told(self._read)

    def _links(self) -> Iterator[Link]:
        """Every sound event as a link; what is wrong with it is reported on the way."""
        floor, time, state = self._view.floor, 0, replay.Offsets()
        for offset, event in self._events():
            link = Link(offset, _key_of(event), event.previous, event.removed)
            if event.time < time:
                self.report.differs(f"event {offset} is earlier than the one before it")
            if offset > floor and event.previous != state.get(link.key, 0):
                self.report.differs(
                    f"event {offset} does not follow the state of {records.printable(link.key)}"
                )
            self._prove_link(link)
            time = event.time
            replay.fold(state, (link,))
            yield link

    def _events(self) -> Iterator[tuple[int, Event]]:
        cursor = self._view.txn.cursor(self._environment.events)
        for key, value in cursor:
            self._step()
            self.report.events += 1
            offset = keys.offset_of(key)
            try:
                yield offset, decode_event(offset, value)
            except JournalError as damage:
                self.report.differs(_said(damage))

    def _prove_link(self, link: Link) -> None:
        """Both indexes must know the event."""
        type_key = link.key[:2] + keys.pack_offset(link.offset)
        value = self._view.txn.get(type_key, db=self._environment.by_type)
        try:
            if value is None or records.decode_link(type_key, value) != link:
                self.report.differs(f"the index by type does not know event {link.offset}")
        except JournalError as damage:
            self.report.differs(_said(damage))
        object_key = keys.by_object(link.key, link.offset)
        if self._view.txn.get(object_key, db=self._environment.by_object) is None:
            self.report.differs(f"the index by object does not know event {link.offset}")

    def _prove_indexes(self) -> None:
        """Every event is in both indexes; as many entries as events means that nothing else is."""
        for name, database in (("type", self._environment.by_type), ("object", self._environment.by_object)):
            entries = self._view.txn.stat(database)["entries"]
            if entries != self.report.events:
                self.report.differs(
                    f"the index by {name} has {entries} entries for {self.report.events} events"
                )

    def _prove_rows(self, offsets: replay.Offsets) -> None:
        left = dict(offsets)
        for key, value in self._view.txn.cursor(self._environment.state):
            self._step()
            self.report.rows += 1
            try:
                self._prove_row(bytes(key), left.pop(bytes(key), 0), records.decode_row(key, value))
            except JournalError as damage:
                self.report.differs(_said(damage))
        for key in left:
            self.report.differs(f"the state of {records.printable(key)} is missing")

    def _prove_row(self, key: bytes, expected: int, row: tuple[int, bytes, bytes]) -> None:
        if row[0] != expected:
            self.report.differs(
                f"the state of {records.printable(key)} is of event {row[0]}, a replay says {expected}"
            )
            return
        event = self._view.required_event(expected)
        if (event.facts, event.body) != row[1:]:
            self.report.differs(f"the state of {records.printable(key)} is not what event {expected} says")

    def _prove_counts(self, offsets: replay.Offsets) -> None:
        expected: dict[bytes, int] = {}
        for key in offsets:
            for scope in keys.scopes_of(key):
                expected[scope] = expected.get(scope, 0) + 1
        cursor = self._view.txn.cursor(self._environment.counts)
        stored = {bytes(key): int.from_bytes(value, "big") for key, value in cursor}
        for scope in sorted(stored.keys() | expected.keys()):
            if stored.get(scope, 0) != expected.get(scope, 0):
                self.report.differs(
                    f"{stored.get(scope, 0)} objects are counted in {records.printable(scope)}, "
                    f"a replay says {expected.get(scope, 0)}"
                )

    def _prove_snapshots(self, offsets: replay.Offsets) -> None:
        """The newest snapshot and what came behind it must lead to the same state."""
        self.report.snapshots = len(snapshots.finished(self._view))
        base = snapshots.newest(self._view)
        if not base:
            return
        try:
            if self._from_snapshot(base) != offsets:
                self.report.differs(f"a replay from the snapshot at {base} leads to another state")
        except JournalError as damage:
            self.report.differs(_said(damage))

    def _from_snapshot(self, base: int) -> replay.Offsets:
        rebuilt: replay.Offsets = {}
        for type_id in self._view.journal.types().values():
            start = snapshots.load(self._view, base, type_id)
            rebuilt |= replay.fold(start, replay.links(self._view, type_id, base, self._view.head))
        return rebuilt


def _key_of(event: Event) -> bytes:
    return keys.of_object(event.type_id, event.namespace, event.name)


def _said(damage: JournalError) -> str:
    return damage.what if isinstance(damage, Damaged) else str(damage)
