"""Writes changes of another server into a journal, with the versions that they had there.

An offset of the journal is the resourceVersion of the recorded server wherever possible: offsets may have gaps but must
ascend. A change that arrives too late, or whose version is not a number or unknown, gets the next free offset; the
reason of its event has its original version.

    reason   recorded as version 1042; with kubectl/v1.25.0 from 10.0.0.7; user guessed; field manager guessed
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

import trio

from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors.facts import unpack_uids
from rewound.actors.store.committer import DiskSpeed, run_beside
from rewound.actors.store.document import at_version, decode, without_version
from rewound.journal import history, keys
from rewound.journal.errors import JournalError
from rewound.journal.log import Journal
from rewound.journal.records import GUESSED, USER_GUESSED, Event
from rewound.journal.retention import advance
from rewound.journal.view import View
from rewound.recording.record.attribution import Comparison, Writer, compared
from rewound.recording.record.authors import Authors
from rewound.recording.record.changes import (
    ADDED,
    FOUND_DELETED,
    USER,
    Author,
    Change,
    in_order,
    number_of,
)

# One durable transaction each.
BATCH: Final = 1000  # events
BATCH_BYTES: Final = 16 << 20
# Beside a server: a few milliseconds until other tasks run.
SHORT_BATCH: Final = 100
SHORT_BATCH_BYTES: Final = 1 << 20
# Of first lists, beside a server.
LONG_BATCH: Final = 900
LONG_BATCH_BYTES: Final = 8 << 20
LARGE: Final = 256 << 10  # bytes of an object whose writer a thread finds
RECORDED_AS: Final = "recorded as version "

logger = logging.getLogger(__name__)

Publish = Callable[[list[Event]], None]
LeaveOut = Callable[[Change, Exception], None]


def unpublished(_: list[Event]) -> None:
    """Nobody follows the journal."""


def log_left_out(change: Change, error: Exception) -> None:
    """Nothing else marks it."""
    logger.warning("%s %s/%s is left out: %r", change.kind.type_name, change.namespace, change.name, error)


class Written(NamedTuple):
    """The last event of an object that exists."""

    offset: int
    version: str  # of the recorded server
    uid: str


class RecordingWriter:
    def __init__(
        self,
        journal: Journal,
        authors: Authors | None = None,
        publish: Publish = unpublished,
        leave_out: LeaveOut = log_left_out,
    ) -> None:
        """`authors` has the requests of an audit log; `publish` gets the events that have become durable.

        `leave_out` gets the changes of which no event can be made, and why.
        """
        self.journal = journal
        self._publish = publish
        self._leave_out = leave_out
        self._disk = DiskSpeed()
        self._authors = authors
        self._head = journal.head
        self._time = journal.time
        self._objects: dict[str, dict[tuple[str, str], Written]] = {}  # by type
        self._batch: list[Event] = []
        self._batch_bytes = 0
        # Contents and facts of the objects in the batch.
        self._unwritten: dict[tuple[str, str, str], tuple[bytes, bytes]] = {}
        self.events = 0
        self.renumbered = 0
        # A batch could not be written: what it knows of objects is ahead of the journal, and nothing more may follow.
        self.failed = False
        with journal.read() as view:
            for type_name, type_id in journal.types().items():
                of_type = self._objects[type_name] = {}
                for namespace, name, row in view.rows(type_id):
                    uid, _ = unpack_uids(row.facts)
                    version = original_version(view, row.offset)
                    of_type[namespace, name] = Written(row.offset, version, uid)

    @property
    def head(self) -> int:
        return self._head

    @property
    def time(self) -> int:
        """The time of the newest event, in microseconds since 1970."""
        return self._time

    def names_of(self, type_name: str) -> set[tuple[str, str]]:
        """Namespace and name of the objects of a type that exist."""
        return set(self._objects.get(type_name, ()))

    def versions_of(self, type_name: str) -> dict[tuple[str, str], str]:
        """The versions of the objects of a type that exist, by namespace and name."""
        return {key: one.version for key, one in self._objects.get(type_name, {}).items()}

    def written(self, key: tuple[str, str, str]) -> Written | None:
        """The last event of an object that exists, by type, namespace and name."""
        type_name, namespace, name = key
        return self._objects.get(type_name, {}).get((namespace, name))

    def content(self, key: tuple[str, str, str]) -> bytes:
        """The content of an object that exists, with an empty resourceVersion."""
        type_name, namespace, name = key
        return self._last_content(key, self._objects[type_name][namespace, name])[0]

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
        for change in in_order(changes, lambda: self._head):
            self._add_if_possible(change)
        self.flush()

    async def write_in_turns(self, changes: Iterable[Change], *, many: bool = False) -> None:
        """Append changes in the order given, in short transactions with other tasks in between.

        `many` changes get longer ones, each in a thread: a disk may take long for each, however short.
        """
        most, most_bytes = (LONG_BATCH, LONG_BATCH_BYTES) if many else (SHORT_BATCH, SHORT_BATCH_BYTES)
        turn = Turn()
        for change in changes:
            if len(change.body) > LARGE:
                await self._find_large_writer(change)
            self._add_if_possible(change)
            if len(self._batch) >= most or self._batch_bytes >= most_bytes:
                await self._flush_beside(in_thread=many)
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()
        await self._flush_beside()

    async def _find_large_writer(self, change: Change) -> None:
        """Compare a large object with the one before in a thread: that may take half a second."""
        known = self.written(change.key)
        if known is not None and known.uid and change.uid and known.uid != change.uid:
            known = None  # another object: `add` ends that one first
        before = None if known is None else self._last_content(change.key, known)[0]
        try:
            change.comparison = await run_in_thread(_compared, before, change)
        except Exception:
            return  # `add` says what is wrong

    async def forget_before(self, version: int) -> None:
        """Raise the retention floor: the recording is incomplete before the first lists."""
        while not advance(self.journal, version).done:
            await trio.lowlevel.checkpoint()

    def _add_if_possible(self, change: Change) -> None:
        """Append one change; one that no event can be made of does not stop those after it."""
        try:
            self.add(change)
        except (JournalError, OSError):
            raise
        except Exception as error:  # of whatever kind: it is made of what others wrote
            self._leave_out(change, error)

    def add(self, change: Change) -> None:
        """Append one change; it is durable after `flush`."""
        known = self.written(change.key)
        if change.removed:
            if known is not None or change.alone:
                self._append(change, known, removed=True)
            return
        same = known is not None and (known.uid == change.uid or not known.uid or not change.uid)
        if same and known is not None and _is_recorded(change, known):
            return
        if known is not None and not same:
            # It was deleted and created again, and nothing showed the deletion, whose version is unknown.
            removal = _unseen_removal(change)
            if change.number is None or change.number > self._head + 1:
                self._append(removal, known, removed=True)
                known = None
            else:
                change.reason = "; ".join(filter(None, (change.reason, removal.reason)))
        self._append(change, known, removed=False)

    def _append(self, change: Change, known: Written | None, *, removed: bool) -> None:
        if len(self._batch) >= BATCH or self._batch_bytes >= BATCH_BYTES:
            self.flush()
        offset = self._offset(change)
        previous = 0 if known is None else known.offset
        body, facts = change.body, change.facts
        if not body:
            assert known is not None
            body, facts = self._last_content(change.key, known)
        if self._authors is not None and not change.reason.startswith(ADDED):
            change.author = self._find_author(self._authors, change, known)
        author, writer = change.author, self._writer(change, known)
        written_at = self._time_of(change, writer)
        event = Event(
            offset=offset,
            type_id=self.journal.type_id(change.kind.type_name),
            verb=_verb(change, known, writer),
            namespace=change.namespace,
            name=change.name,
            previous=previous,
            removed=removed,
            time=written_at,
            user=USER if author is None else author.user,
            manager=writer.manager,
            facts=facts,
            body=at_version(body, offset),
            reason=self._reason(change, offset, writer),
        )
        # Nothing below fails: an event is in the batch with all that follows from it, or not at all.
        if self._authors is not None and author is None and not change.reason.startswith(ADDED):
            self._authors.wait(change, offset, known is not None, "" if known is None else known.version)
        self._head, self._time = offset, written_at
        self._batch.append(event)
        self._unwritten[change.key] = body, facts
        self._batch_bytes += len(body)
        self.events += 1
        of_type = self._objects.setdefault(change.kind.type_name, {})
        if removed:
            of_type.pop((change.namespace, change.name), None)
        else:
            uid = change.uid or (known.uid if known is not None else "")
            version = change.version or (str(offset) if change.place else "")
            of_type[change.namespace, change.name] = Written(offset, version, uid)

    def _offset(self, change: Change) -> int:
        return max(change.number or change.place, self._head + 1)

    def _find_author(self, authors: Authors, change: Change, known: Written | None) -> Author | None:
        """The author of a change; None also if what clients sent cannot be compared with it."""
        try:
            return self._author_of(authors, change, known)
        except (JournalError, OSError):
            raise
        except Exception:
            logger.exception("the author of a change of %s cannot be found", change.kind.type_name)
            return None

    def _author_of(self, authors: Authors, change: Change, known: Written | None) -> Author | None:
        certain = authors.late
        if known is None:
            return authors.find(change, exists=False, last_version="", before=bytes, certain=certain)
        change.uid = change.uid or known.uid
        return authors.find(
            change,
            exists=True,
            last_version=known.version,
            before=lambda: self._last_content(change.key, known)[0],
            certain=certain,
        )

    def _writer(self, change: Change, known: Written | None) -> Writer:
        author = change.author
        if author is not None and not author.may_apply:
            return Writer(author.manager)
        if change.removed or not change.body:
            return Writer("" if author is None else author.manager)
        if change.comparison is None:
            before = None if known is None else self._last_content(change.key, known)[0]
            change.comparison = _compared(before, change)
        found = change.comparison.writer
        if author is None:
            return found
        if not author.manager:
            return found._replace(time=0)
        return found._replace(manager=author.manager, guessed=False, time=0)

    def _reason(self, change: Change, offset: int, writer: Writer) -> str:
        parts = [change.reason]
        if change.version and change.version != str(offset):
            self.renumbered += 1
            parts = [RECORDED_AS + change.version]
        if change.author is not None:
            source = change.author.source.replace(";", ",")
            parts += [f"with {source}" if source else "", USER_GUESSED if change.author.guessed else ""]
        parts.append(GUESSED if writer.guessed else "")
        return "; ".join(filter(None, parts))

    def _time_of(self, change: Change, writer: Writer) -> int:
        """The time of the write if it is known, else of its arrival; times never decrease along the log."""
        time = change.arrived if change.author is None else change.author.time
        if writer.time:
            time = min(writer.time, change.arrived)
            if change.arrived - time < PRECISE:
                time = change.arrived
        return max(time, self._time)

    def _last_content(self, key: tuple[str, str, str], known: Written) -> tuple[bytes, bytes]:
        """The content, with an empty resourceVersion, and the facts."""
        if (unwritten := self._unwritten.get(key)) is not None:
            return unwritten
        type_name, namespace, name = key
        with self.journal.read() as view:
            row = view.get(self.journal.type_id(type_name), namespace, name)
        assert row is not None
        return without_version(row.body, known.offset), row.facts

    def flush(self) -> None:
        batch = self._taken_batch()
        with self._noting_failure():
            self.journal.append(batch)
        if batch:
            self._publish(batch)

    async def _flush_beside(self, *, in_thread: bool = False) -> None:
        """Like `flush`; a slow disk is waited for in a thread."""
        batch = self._taken_batch()
        if not batch:
            return
        began = time.perf_counter()
        with self._noting_failure():
            encoded = self.journal.encode(batch)
            if in_thread or self._disk.slow:
                await run_beside(partial(self.journal.write, encoded))
            else:
                self.journal.write(encoded)
        self._disk.record(time.perf_counter() - began)
        self._publish(batch)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.failed = True
            raise

    def _taken_batch(self) -> list[Event]:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        self._unwritten.clear()
        return batch


def _compared(before: bytes | None, change: Change) -> Comparison:
    return compared(None if before is None else decode(before), decode(change.body), change.arrived)


# managedFields has whole seconds: the arrival is more precise if it is soon after the write.
PRECISE: Final = 2_000_000  # microseconds


def original_version(view: View, offset: int) -> str:
    """The version that an event had on the recorded server; empty if it had none."""
    event = view.event(offset, contents=False)
    if event is None:
        return ""
    first = event.reason.partition("; ")[0]
    if first.startswith(RECORDED_AS):
        return first.removeprefix(RECORDED_AS)
    return "" if first.startswith((FOUND_DELETED, ADDED)) else str(offset)


def _is_recorded(change: Change, known: Written) -> bool:
    """Whether the journal has this version of the object, or a newer one."""
    if change.version == known.version:
        return bool(change.version)
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
        reason=f"{FOUND_DELETED} before version {change.version}",
    )


def _verb(change: Change, known: Written | None, writer: Writer) -> str:
    if change.author is not None:
        return "apply" if writer.applied else change.author.verb
    if change.removed or writer.deletes:
        return "delete"
    if known is None:
        return "create"
    return "patch" if writer.applied else "update"
