"""Writes changes of another server into a journal, with the versions that they had there.

An offset of the journal is the resourceVersion of the recorded server wherever that is possible: offsets may have gaps
but must ascend. What arrives too late for its place, or has a version that is no number or not known, gets the next
free offset; its event says in its reason which version it had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from rewound.actors.selectors.facts import unpack_uids
from rewound.actors.store.document import at_version, decode, without_version
from rewound.gateway.record.attribution import Writer, writer_of
from rewound.gateway.record.changes import USER, Change, number_of
from rewound.journal import history, keys
from rewound.journal.log import Journal
from rewound.journal.records import GUESSED, Event
from rewound.journal.retention import advance
from rewound.journal.view import View

# One durable transaction each.
BATCH: Final = 1000
RECORDED_AS: Final = "recorded as version "


class Written(NamedTuple):
    """The last event of an object that exists."""

    offset: int
    version: str  # of the recorded server
    uid: str


class RecordingWriter:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._head = journal.head
        self._time = journal.time
        self._objects: dict[tuple[str, str, str], Written] = {}
        self._batch: list[Event] = []
        self._unwritten: dict[tuple[str, str, str], bytes] = {}  # the contents of objects in the batch
        self.events = 0
        self.renumbered = 0
        with journal.read() as view:
            for type_name, type_id in journal.types().items():
                for namespace, name, row in view.rows(type_id):
                    uid, _ = unpack_uids(row.facts)
                    version = original_version(view, row.offset)
                    self._objects[type_name, namespace, name] = Written(row.offset, version, uid)

    @property
    def head(self) -> int:
        return self._head

    def names_of(self, type_name: str) -> set[tuple[str, str]]:
        """Namespace and name of the objects of a type that exist."""
        return {key[1:] for key in self._objects if key[0] == type_name}

    def newest_version(self, type_name: str) -> str:
        """The version of the newest recorded change of a type; empty without one."""
        type_id = self.journal.type_id(type_name)
        with self.journal.read() as view:
            for offset in history.descending(view, history.of_type(view, type_id), keys.MAX_OFFSET):
                if version := original_version(view, offset):
                    return version
        return ""

    def write(self, changes: Iterable[Change]) -> None:
        """Append changes, in the order of their versions; durable when this returns."""
        known: list[Change] = []
        unknown: deque[Change] = deque()
        for one in changes:
            (unknown if one.number is None else known).append(one)
        known.sort(key=lambda one: one.number or 0)
        for one in known:
            assert one.number is not None
            # What has no version goes into the gaps that others leave.
            while unknown and self._head + 1 < one.number:
                self._add(unknown.popleft())
            self._add(one)
        for one in unknown:
            self._add(one)
        self._flush()

    def forget_before(self, version: int) -> None:
        """Raise the retention floor: of versions before the first lists the recording knows only a part."""
        while not advance(self.journal, version).done:
            pass

    def _add(self, change: Change) -> None:
        known = self._objects.get(change.key)
        if change.removed:
            if known is not None:
                self._append(change, known, removed=True)
            return
        if known is not None and known.uid == change.uid and _is_recorded(change, known):
            return
        if known is not None and known.uid != change.uid:
            # It was deleted and created again, and no watch had the deletion.
            self._append(_unseen_removal(change), known, removed=True)
            known = None
        self._append(change, known, removed=False)

    def _append(self, change: Change, known: Written | None, *, removed: bool) -> None:
        if not change.body or len(self._batch) >= BATCH:
            self._flush()
        offset = self._offset(change)
        previous = 0 if known is None else known.offset
        body, facts = change.body, change.facts
        if not body:
            assert known is not None
            body, facts = self._last_content(change, known)
        writer = self._writer(change, known)
        self._head, self._time = offset, self._time_of(change, writer)
        self._batch.append(
            Event(
                offset=offset,
                type_id=self.journal.type_id(change.kind.type_name),
                verb=_verb(change, known, writer),
                namespace=change.namespace,
                name=change.name,
                previous=previous,
                removed=removed,
                time=self._time,
                user=USER,
                manager=writer.manager,
                facts=facts,
                body=at_version(body, offset),
                reason=self._reason(change, offset, writer),
            )
        )
        self._unwritten[change.key] = change.body
        self.events += 1
        if removed:
            del self._objects[change.key]
        else:
            self._objects[change.key] = Written(offset, change.version, change.uid)

    def _offset(self, change: Change) -> int:
        number = change.number
        if number is None:
            return self._head + 1
        return number if number > self._head else self._head + 1

    def _writer(self, change: Change, known: Written | None) -> Writer:
        if change.removed:
            return Writer("")
        before = None
        if known is not None:
            body = self._unwritten.get(change.key) or self._last_content(change, known)[0]
            before = decode(body)
        return writer_of(before, decode(change.body), change.arrived)

    def _reason(self, change: Change, offset: int, writer: Writer) -> str:
        reason = change.reason
        if change.version and change.version != str(offset):
            self.renumbered += 1
            reason = RECORDED_AS + change.version
        if not writer.guessed:
            return reason
        return f"{reason}; {GUESSED}" if reason else GUESSED

    def _time_of(self, change: Change, writer: Writer) -> int:
        """The time of the write if it is known, else of its arrival; times never decrease along the log."""
        time = change.arrived
        if writer.time:
            time = min(writer.time, change.arrived)
            if change.arrived - time < PRECISE:
                time = change.arrived
        return max(time, self._time)

    def _last_content(self, change: Change, known: Written) -> tuple[bytes, bytes]:
        with self.journal.read() as view:
            row = view.get(self.journal.type_id(change.kind.type_name), change.namespace, change.name)
        assert row is not None
        return without_version(row.body, known.offset), row.facts

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        self._unwritten.clear()
        self.journal.append(batch)


# managedFields has whole seconds: the arrival of a change is more precise if it comes soon after the write.
PRECISE: Final = 2_000_000  # microseconds


def original_version(view: View, offset: int) -> str:
    """The version that an event had on the recorded server; empty if it had none."""
    event = view.event(offset)
    if event is None:
        return ""
    reason = event.reason.removesuffix(GUESSED).removesuffix("; ")
    if reason.startswith(RECORDED_AS):
        return reason.removeprefix(RECORDED_AS)
    return "" if reason else str(offset)


def _is_recorded(change: Change, known: Written) -> bool:
    """Whether the journal has this version of the object, or a newer one."""
    if change.version == known.version:
        return True
    number, newest = change.number, number_of(known.version)
    return number is not None and newest is not None and number < newest


def _unseen_removal(change: Change) -> Change:
    return Change(
        change.kind,
        change.namespace,
        change.name,
        "",
        "",
        True,
        b"",
        b"",
        change.arrived,
        reason=f"found to be deleted before version {change.version}",
    )


def _verb(change: Change, known: Written | None, writer: Writer) -> str:
    if change.removed or writer.deletes:
        return "delete"
    if known is None:
        return "create"
    return "patch" if writer.applied else "update"
