"""The journal of a standby: written only from a stream, until it is promoted by a command.

`Copy` applies the messages of a stream (`stream`). It keeps the leader's offsets, event bytes (except `previous`, see
`thinning.relinked`), type numbers, retention floor, cluster id and timelines. Each commit is written in one durable
transaction, so that a kill at any moment leaves a folder that can continue after its newest event.

A new copy first gets the state at a base. Until that is complete, its newest event is not above its floor, and
nothing is served from it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rewound.journal import keys, records
from rewound.journal.batch import Batch
from rewound.journal.errors import (
    BadName,
    CannotFollow,
    Diverged,
    JournalError,
    LeaderChanged,
    NameTooLong,
    NoJournal,
)
from rewound.journal.files import identity
from rewound.journal.files.opening import is_new
from rewound.journal.log import Journal, OnPut, version_records
from rewound.journal.records import Event
from rewound.journal.stream import Header, Stored, event_checksum
from rewound.journal.thinning import relinked
from rewound.journal.timelines import Timeline, Timelines, before, branch, encode_timelines


@dataclass(frozen=True, slots=True)
class Position:
    """How much of a history a follower has."""

    cluster: bytes
    dialect: str
    timelines: Timelines
    head: int
    check: int | None  # checksum of the event at the head (`stream.event_checksum`)


def check_header(header: Header, own: Position, leader: str, what: str) -> None:
    """Raises CannotFollow if a stream does not continue what the follower has.

    `what` names the follower in the error, for example "the journal in DIR".
    """
    if header.cluster != own.cluster:
        raise CannotFollow(
            f"{leader} serves another cluster, {_uuid(header.cluster)}, than that of {what}, {_uuid(own.cluster)}: "
            "give the URL of a server of the same cluster, or start over with another folder or file"
        )
    if header.dialect != own.dialect:
        raise CannotFollow(f"{leader} has the dialect {header.dialect}, {what} has {own.dialect}")
    if not own.head:
        return
    mine, theirs = before(own.timelines, own.head), before(header.timelines, own.head)
    if mine != theirs:
        raise Diverged(_diverged(mine, theirs, own, leader, what))
    if header.head < own.head:
        raise Diverged(
            f"{what} has events up to {own.head}, and {leader} only up to {header.head} of the same history: that "
            "server lost commits, or was restored from a copy of its disk; do not let it write, promote this standby "
            "instead (`rewound promote`) or restore a backup"
        )
    if None not in (header.check, own.check) and header.check != own.check:
        raise Diverged(
            f"event {own.head} of {what} is not that of {leader}, although both have the same timelines: one of them "
            f"was written to from a copy of its disk; {_START_OVER}"
        )


_START_OVER = (
    "keep what is here if it is needed (`rewound journal export`), then start over with another folder or file, which "
    "gets everything from the leader"
)


def _diverged(mine: Timelines, theirs: Timelines, own: Position, leader: str, what: str) -> str:
    if len(mine) > len(theirs) and mine[: len(theirs)] == theirs:
        return (
            f"{leader} is on an older timeline than {what}, which was promoted after {mine[len(theirs)].start}: "
            "follow the server that was promoted, or let that one follow it"
        )
    common = [one for one, other in zip(mine, theirs, strict=False) if one == other]
    split = min(one.start for one in (*mine[len(common) :], *theirs[len(common) :]))
    return (
        f"{what} and {leader} are two histories since {split}, after which another server was promoted or a backup "
        f"restored: the events from {split + 1} to {own.head} here are not there; {_START_OVER}"
    )


def _uuid(cluster: bytes) -> str:
    return str(uuid.UUID(bytes=cluster)) if len(cluster) == 16 else "unknown"


class StandbyJournal(Journal):
    """The journal of a standby, whose types have the numbers that the leader gave them.

    Types that the leader does not have get numbers in memory only; nothing is stored under them.
    """

    is_copy = True

    def register_types(self, names: Iterable[str]) -> None:
        free = min((number for number in self._types.values() if number > _RESERVED), default=keys.MAX_TYPES)
        fresh: dict[str, int] = {}
        for name in names:
            if name not in self._types and name not in fresh:
                fresh[name] = free = free - 1
        self._types = {**self._types, **fresh}

    def adopt_types(self, types: Mapping[str, int]) -> None:
        """Raises LeaderChanged, after they are stored, if this standby already serves some of them as empty."""
        if any(number > _RESERVED for number in types.values()):
            raise CannotFollow(f"the leader has more than {_RESERVED} types, which a standby cannot have")
        empty = [name for name in types if self._types.get(name, 0) > _RESERVED]
        self._types = {name: number for name, number in self._types.items() if name not in empty}
        super().adopt_types(types)
        if empty:
            raise LeaderChanged(
                f"the leader has begun to store {', '.join(sorted(empty))}, which this standby serves as empty: "
                "start it again"
            )

    def types(self) -> dict[str, int]:
        return {name: number for name, number in self._types.items() if number <= _RESERVED}


_RESERVED = keys.MAX_TYPES - 4096  # higher numbers exist only in memory


class Copy:
    def __init__(self, journal: StandbyJournal, leader: str) -> None:
        """`leader` is the URL shown in errors."""
        self.journal, self._leader = journal, leader
        with journal.read() as view:
            self._floor = view.floor

    @classmethod
    def open(cls, path: Path, leader: str) -> Copy | None:
        """Open the copy in a folder; None if there is none yet."""
        try:
            dialect = dialect_of(path)
        except NoJournal:
            return None
        return cls(_opened(path, dialect), leader)

    @classmethod
    def create(cls, path: Path, header: Header, leader: str) -> Copy:
        return cls(_opened(path, header.dialect, header.cluster), leader)

    @property
    def position(self) -> Position:
        with self.journal.read() as view:
            head = view.head
            return Position(view.cluster_id, view.dialect, view.timelines, head, event_checksum(view, head))

    @property
    def base(self) -> int:
        return self._floor

    @property
    def complete(self) -> bool:
        """Whether it has all of the state at its floor, and at least one event after it."""
        return self.journal.head > self._floor

    def begin(self, header: Header) -> None:
        """Check the header of a stream, and adopt its types, timelines and floor. Raises CannotFollow if it differs."""
        journal = self.journal
        position = self.position
        check_header(header, position, self._leader, f"the journal in {journal.path}")
        if not position.head and 0 < header.head <= header.base:
            raise CannotFollow(
                f"{self._leader} begins with the state at {header.base} and has events up to {header.head} only: check "
                "its data folder with `rewound journal verify`"
            )
        self.add_types(header.types)
        changes: dict[bytes, bytes | None] = {keys.FOLLOWS: b"1"}
        if header.kubernetes != journal.kubernetes:
            changes |= version_records(header.kubernetes, header.migrated)
            journal.kubernetes = header.kubernetes
        if header.thinned:
            changes[keys.THINNED] = self._thinned(header.thinned)
        if header.timelines:
            changes[keys.TIMELINES] = encode_timelines(header.timelines)
        if not position.head:
            changes[keys.FLOOR] = keys.pack_offset(header.base)
            self._floor = header.base
        with journal.read() as view:
            stored = view.meta()
        if any(stored.get(key) != value for key, value in changes.items()):
            journal.put_meta(changes)

    def _thinned(self, leader: bytes) -> bytes:
        """The record of what is thinned, here or at the leader."""
        with self.journal.read() as view:
            here = view.thinned
        for type_id, mark in records.decode_thinned(leader).items():
            known = here.get(type_id, mark)
            here[type_id] = max(mark, known)._replace(whole=mark.whole or known.whole)
        return records.encode_thinned(here)

    def add_types(self, types: Mapping[str, int]) -> None:
        """Adopt new types of the leader. Raises CannotFollow if their numbers contradict those stored here."""
        try:
            self.journal.adopt_types(types)
        except ValueError as wrong:
            raise self._does_not_continue(wrong) from wrong

    def batch(self, stored: Sequence[Stored]) -> Batch:
        """Encode events for `write`; all of them must be at or below the floor, or all above it.

        Raises CannotFollow if they do not continue this journal.
        """
        events = events_of(stored)
        try:
            if events[0].time < self.journal.time:
                raise ValueError(f"event {events[0].offset} is earlier than the one before it")
            restored = events[-1].offset <= self._floor
            values = [one.value for one in stored]
            if not restored:
                with self.journal.read() as view:
                    events, values = relinked(view, events, values)
            return self.journal.encode(events, restored=restored, stored=values)
        except (ValueError, NameTooLong, BadName) as wrong:
            raise self._does_not_continue(wrong) from wrong

    def write(self, batch: Batch, on_put: OnPut | None = None) -> None:
        """Make a batch durable. Raises CannotFollow if it does not continue the journal, CannotStore if that fails."""
        try:
            self.journal.write(batch, on_put)
        except ValueError as wrong:
            raise self._does_not_continue(wrong) from wrong

    def _does_not_continue(self, wrong: Exception) -> CannotFollow:
        return CannotFollow(
            f"what {self._leader} has sent does not continue the journal in {self.journal.path} ({wrong}): check both "
            f"with `rewound journal verify`; {_START_OVER}"
        )


def events_of(stored: Sequence[Stored]) -> list[Event]:
    """The decoded events of a stream."""
    return [one.event or records.checked_event(one.offset, one.value) for one in stored]


def dialect_of(path: Path) -> str:
    """The dialect that a journal was created with. Raises NoJournal or CannotOpen."""
    if not path.exists() or is_new(path):
        raise NoJournal(path)
    try:
        recorded = identity.read(path)
    except ValueError:
        recorded = None
    if recorded is not None:
        return recorded.dialect
    journal = Journal.open(path, readonly=True, check_tail=False)
    journal.close()
    return journal.dialect


def _opened(path: Path, dialect: str, cluster: bytes | None = None) -> StandbyJournal:
    journal = StandbyJournal.open(path, dialect=dialect, cluster_id=cluster, follows=True)
    assert isinstance(journal, StandbyJournal)
    return journal


class NotPromoted(JournalError):
    """The folder cannot be promoted to that of a leader."""


def promote(path: Path) -> Timeline:
    """Promote the journal of a standby: it gets a timeline of its own and can be served as a leader's.

    Raises NotPromoted, or CannotOpen (also while the standby is running).
    """
    journal = Journal.open(path, dialect=dialect_of(path), follows=True)
    try:
        with journal.read() as view:
            meta, timelines, head, floor = view.meta(), view.timelines, view.head, view.floor
        if keys.FOLLOWS not in meta:
            raise NotPromoted(
                f"the journal in {path} is not that of a standby, and needs no promotion: serve it without --follow"
            )
        if head <= floor:
            raise NotPromoted(
                f"the journal in {path} has not received everything from its leader yet: promote another standby, or "
                "restore a backup"
            )
        following = branch(timelines, head)
        journal.put_meta({keys.FOLLOWS: None, keys.TIMELINES: encode_timelines(following)})
    finally:
        journal.close()
    return following[-1]
