"""Proof that the journal is what was written: at every opening for its tail, on demand for all of it.

`prove_tail` is called by `Journal.open`; `verify` by the command line and the tests, on a view of its own (in
another process than a busy server: it holds a read transaction for as long as it takes). `verify` reads every
record once and finds nothing to be true that it has not computed: state and counts come from a replay of
events, from the first one and once more from the newest snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from journal import keys, records, replay, snapshots, state
from journal.environment import PageError
from journal.errors import Damaged, DamagedTail, NewerLayout
from journal.records import Event, Link, decode_event, printable

if TYPE_CHECKING:
    from journal.view import View

TAIL = 512  # newest events proved at every opening: some milliseconds, whatever the journal's size
SHOWN = 20  # differences told; a damaged journal may have millions
STEP = 10_000  # records between two calls of the progress callback

Told = Callable[[int], None]


def prove_tail(view: View, depth: int = TAIL) -> None:
    """Check the newest events and the rows they led to; DamagedTail names the newest that does not hold."""
    newer: set[bytes] = set()
    offset = 0
    try:
        cursor = view.txn.cursor(view.journal.environment.events)
        for key, value in islice(cursor.iterprev(), depth):
            offset = keys.offset_of(key)
            event = decode_event(offset, value)
            _prove_indexed(view, _link_of(event))
            _prove_newest(view, event, newer)
    except Damaged as damage:
        raise DamagedTail(view.journal.path, offset, damage.what) from damage
    except PageError as damage:
        raise DamagedTail(view.journal.path, offset, str(damage)) from damage


def _prove_newest(view: View, event: Event, newer: set[bytes]) -> None:
    """The newest event of an object must be its state, and counted."""
    key = _key_of(event)
    if key in newer:
        return
    newer.add(key)
    for scope in keys.scopes_of(key):
        state.count(view.txn, view.journal.environment.counts, scope)
    row = view.get(event.type_id, event.namespace, event.name)
    if event.removed:
        if row is not None:
            raise Damaged(f"{printable(key)} was removed and is still there")
    elif row is None:
        raise Damaged(f"the state of {printable(key)} is missing")
    elif (row.offset, row.facts, row.body) != (event.offset, event.facts, event.body):
        raise Damaged(f"the state of {printable(key)} is not what its event says")


def _prove_indexed(view: View, link: Link) -> None:
    """Both indexes must know an event."""
    type_key = link.key[:2] + keys.pack_offset(link.offset)
    value = view.txn.get(type_key, db=view.journal.environment.by_type)
    if value is None or records.decode_link(type_key, value) != link:
        raise Damaged(f"the index by type does not know event {link.offset}")
    object_key = keys.by_object(link.key, link.offset)
    if view.txn.get(object_key, db=view.journal.environment.by_object) is None:
        raise Damaged(f"the index by object does not know event {link.offset}")


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
    proof = _Proof(view, told)
    try:
        proof.run()
    except PageError as damage:
        proof.report.differs(f"the file's own structure is damaged ({damage}); the rest was not read")
    return proof.report


class _Proof:
    def __init__(self, view: View, told: Told | None) -> None:
        self._view, self._environment = view, view.journal.environment
        self._told = told
        self._read = 0
        self.report = Report()

    def run(self) -> None:
        offsets = self._replayed()
        self._prove_sizes()
        self._prove_rows(offsets)
        self._prove_counts(offsets)
        self._prove_snapshot(offsets)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except Damaged as damage:
            self.report.differs(damage.what)
        except NewerLayout as newer:
            self.report.differs(str(newer))

    def _step(self) -> None:
        self._read += 1
        if self._told is not None and self._read % STEP == 0:
            self._told(self._read)

    def _replayed(self) -> replay.Offsets:
        """The state that all events lead to, each proved on the way."""
        offsets: replay.Offsets = {}
        time = 0
        for key, value in self._view.txn.cursor(self._environment.events):
            self._step()
            self.report.events += 1
            with self._reporting():
                event = decode_event(keys.offset_of(key), value)
                link = _link_of(event)
                self._prove_order(event, link, time, offsets)
                time = event.time
                replay.fold(offsets, (link,))
                _prove_indexed(self._view, link)
        return offsets

    def _prove_order(self, event: Event, link: Link, time: int, offsets: replay.Offsets) -> None:
        if event.time < time:
            self.report.differs(f"event {event.offset} is earlier than the one before it")
        # Up to the floor only one event of an object is left, and what it followed is gone.
        if event.offset > self._view.floor and event.previous != offsets.get(link.key, 0):
            self.report.differs(f"event {event.offset} does not follow the state of {printable(link.key)}")

    def _prove_sizes(self) -> None:
        """Every event is in both indexes; as many entries as events means that nothing else is."""
        for name, database in (("type", self._environment.by_type), ("object", self._environment.by_object)):
            entries = self._view.txn.stat(database)["entries"]
            if entries != self.report.events:
                text = f"the index by {name} has {entries} entries for {self.report.events} events"
                self.report.differs(text)

    def _prove_rows(self, offsets: replay.Offsets) -> None:
        left = dict(offsets)
        for key, value in self._view.txn.cursor(self._environment.state):
            self._step()
            self.report.rows += 1
            expected = left.pop(bytes(key), 0)
            with self._reporting():
                self._prove_row(bytes(key), expected, records.decode_row(bytes(key), value))
        for key in left:
            self.report.differs(f"the state of {printable(key)} is missing")

    def _prove_row(self, key: bytes, expected: int, row: tuple[int, bytes, bytes]) -> None:
        if row[0] != expected:
            raise Damaged(f"the state of {printable(key)} is of event {row[0]}, a replay says {expected}")
        event = self._view.event_of(key, expected)
        if (event.facts, event.body) != row[1:]:
            raise Damaged(f"the state of {printable(key)} is not what event {expected} says")

    def _prove_counts(self, offsets: replay.Offsets) -> None:
        expected = Counter(scope for key in offsets for scope in keys.scopes_of(key))
        stored = map(bytes, self._view.txn.cursor(self._environment.counts).iternext(values=False))
        for scope in sorted({*stored, *expected}):
            with self._reporting():
                counted = state.count(self._view.txn, self._environment.counts, scope)
                if counted != expected[scope]:
                    where = printable(scope)
                    text = f"{counted} objects are counted in {where}, a replay says {expected[scope]}"
                    raise Damaged(text)

    def _prove_snapshot(self, offsets: replay.Offsets) -> None:
        """The newest snapshot and what came behind it must lead to the same state."""
        self.report.snapshots = len(snapshots.finished(self._view))
        base = snapshots.newest(self._view)
        with self._reporting():
            if base and self._from_snapshot(base) != offsets:
                raise Damaged(f"a replay from the snapshot at {base} leads to another state")

    def _from_snapshot(self, base: int) -> replay.Offsets:
        rebuilt: replay.Offsets = {}
        for type_id in self._view.written_types():
            start = snapshots.load(self._view, base, type_id)
            rebuilt |= replay.fold(start, replay.links(self._view, type_id, base, self._view.head))
        return rebuilt


def _key_of(event: Event) -> bytes:
    return keys.of_object(event.type_id, event.namespace, event.name)


def _link_of(event: Event) -> Link:
    return Link(event.offset, _key_of(event), event.previous, event.removed)
