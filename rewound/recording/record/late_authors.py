"""Changes that were written before their author was known, and the audit events that come after them.

An API server collects audit events for up to 30 seconds before it sends them (`--audit-webhook-batch-max-wait`), and
sends a batch again that failed. A recording does not wait for that: it writes a change without an author, remembers it
here, and completes the event (`journal.completion`) when its request has arrived:

    at once       the request shows by itself that it made the change (`Authors.is_certain`)
    settled       after half as long again as the latest request of the last minutes was late, and a few seconds
    given up      after LATE_SECONDS: the event keeps the user `recorded`

What a killed recorder had remembered is in the journal: events without an author since then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import trio

from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.selectors.facts import unpack_uids
from rewound.actors.store.document import decode
from rewound.journal import history, keys
from rewound.journal.completion import Authorship, complete
from rewound.journal.log import Journal
from rewound.journal.records import GUESSED, USER_GUESSED, Event
from rewound.journal.view import View
from rewound.recording.record.attribution import writer_of
from rewound.recording.record.authors import LATE_SECONDS, Authors, Key
from rewound.recording.record.changes import ADDED, FOUND_DELETED, USER, Author, Change
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.writer import original_version

MOST_WAITING: Final = 100_000  # changes, some 600 bytes each
MOST_AT_ONCE: Final = 50  # objects or changes that are looked at before other tasks run
# Seconds until other requests can no longer have made a change: see `LateAuthors.patience`.
SHORTEST_PATIENCE: Final = 3.0
USUAL_DELAY: Final = 30.0  # of a batch; assumed until LATE_SECONDS of batches have been seen


@dataclass(slots=True, eq=False)
class _Waiting:
    change: Change  # without its content, which is in the journal
    offset: int
    exists: bool
    last_version: str
    written: float
    bodiless: bool  # a list no longer had the object
    settled: bool = False  # it is too old for a guess to be refuted, but had no request
    done: bool = False


class LateAuthors:
    def __init__(self, authors: Authors, journal: Journal) -> None:
        self._authors = authors
        self._journal = journal
        self._order: deque[_Waiting] = deque()
        self._unsettled: deque[_Waiting] = deque()
        self._by_key: dict[Key, list[_Waiting]] = {}
        authors.note_delay(USUAL_DELAY)
        authors.wait = self.wait

    @property
    def waiting(self) -> int:
        """How many changes have no author yet."""
        return sum(map(len, self._by_key.values()))

    @property
    def patience(self) -> float:
        """Seconds after which the requests of a change have arrived, by the latest ones of the last minutes."""
        return min(SHORTEST_PATIENCE + 1.5 * self._authors.slowest, LATE_SECONDS)

    def wait(self, change: Change, offset: int, exists: bool, last_version: str) -> None:
        """Remember a change that is written without an author."""
        if change.listed and (change.number or 0) <= self._authors.began:
            return
        kept = Change(
            change.kind,
            change.namespace,
            change.name,
            change.uid,
            change.version,
            change.removed,
            b"",
            b"",
            change.arrived,
            listed=change.listed,
        )
        self._add(_Waiting(kept, offset, exists, last_version, self._authors.clock(), not change.body))

    def reload(self, since: int) -> None:
        """Remember the changes since a time, in microseconds since 1970, that have no author in the journal."""
        found: list[_Waiting] = []
        types = {number: name for name, number in self._journal.types().items()}
        with self._journal.read() as view:
            for event in _newest(view, since):
                if len(found) == MOST_WAITING:
                    break
                if event.user == USER and not event.reason.startswith(ADDED):
                    found.append(self._reloaded(view, event, types[event.type_id]))
        for one in reversed(found):
            self._add(one)

    def _reloaded(self, view: View, event: Event, type_name: str) -> _Waiting:
        plural, _, group = type_name.partition(".")
        kind = RecordedKind(type_name, group, "", plural, "", bool(event.namespace))
        uid, version = unpack_uids(event.facts)[0], original_version(view, event.offset)
        change = Change(kind, event.namespace, event.name, uid, version, event.removed, b"", b"", event.time)
        last = original_version(view, event.previous) if event.previous else ""
        bodiless = event.reason.startswith(FOUND_DELETED)
        return _Waiting(change, event.offset, bool(event.previous), last, self._authors.clock(), bodiless)

    async def join(self) -> None:
        """Complete the events whose request has arrived, or whose time to wait is over."""
        arrived = list(self._authors.arrived())
        while arrived:
            part, arrived = arrived[:MOST_AT_ONCE], arrived[MOST_AT_ONCE:]
            await self._complete(self._certain(part))
        due = self._authors.clock() - self.patience
        while self._unsettled and self._unsettled[0].written <= due:
            await self._complete(self._settled(due, MOST_AT_ONCE))
        self._give_up(self._authors.clock() - LATE_SECONDS)

    async def _complete(self, found: list[Authorship]) -> None:
        if found:
            self._authors.statistics.late += await run_in_thread(complete, self._journal, found, USER)
        else:
            await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        """At the end of the recording: what a later request might still have refuted becomes a guess."""
        found = self._settled(self._authors.clock() - self.patience, len(self._unsettled), ends=True)
        self._authors.statistics.late += complete(self._journal, found, USER)
        self._authors.statistics.unknown += self.waiting

    def _add(self, one: _Waiting) -> None:
        self._order.append(one)
        self._unsettled.append(one)
        self._by_key.setdefault(one.change.key, []).append(one)
        if len(self._order) > MOST_WAITING:
            self._forget(self._order.popleft())

    def _forget(self, one: _Waiting) -> None:
        if one.done:
            return
        one.done = True
        left = self._by_key.get(one.change.key, [])
        left.remove(one)
        if not left:
            del self._by_key[one.change.key]

    # Asking for authors.

    def _certain(self, arrived: list[Key]) -> list[Authorship]:
        """The authors of changes of objects for which requests have arrived that leave no doubt."""
        found = []
        with self._journal.read() as view:
            for one in [one for key in arrived for one in self._by_key.get(key, ())]:
                # What is settled waits for nothing but a request that may have made it.
                if one.settled or self._authors.is_certain(one.change):
                    found.append(self._author(view, one, certain=not one.settled))
        return [one for one in found if one is not None]

    def _settled(self, due: float, most: int, *, ends: bool = False) -> list[Authorship]:
        """The authors of changes that were written up to a time, in their order; of all if the recording ends."""
        found = []
        with self._journal.read() as view:
            for _ in range(min(most, len(self._unsettled))):
                one = self._unsettled[0]
                early = one.written > due
                if early and not ends:
                    break
                self._unsettled.popleft()
                one.settled = True
                if not one.done:
                    found.append(self._author(view, one, early=early))
        return [one for one in found if one is not None]

    def _give_up(self, before: float) -> None:
        while self._order and (self._order[0].written <= before or self._order[0].done):
            one = self._order.popleft()
            if not one.done:
                self._authors.statistics.unknown += 1
                self._forget(one)

    def _author(
        self, view: View, one: _Waiting, *, certain: bool = False, early: bool = False
    ) -> Authorship | None:
        event = view.event(one.offset)
        if event is None or event.user != USER:
            self._forget(one)  # retention has removed it
            return None
        change = one.change
        change.body = b"" if one.bodiless else event.body

        def before() -> bytes:
            previous = view.event(event.previous)
            return event.body if previous is None else previous.body

        unknown = self._authors.statistics.unknown
        author = self._authors.find(
            change, one.exists, one.last_version, before, certain=certain, early=early
        )
        self._authors.statistics.unknown = unknown  # it is counted when nothing waits for it any more
        change.body = b""
        if author is None:
            return None
        self._forget(one)
        applied = False
        if author.may_apply and event.body:
            old = decode(before()) if one.exists else None
            applied = writer_of(old, decode(event.body), change.arrived).applied
        return completed(event, author, applied=applied)


def _newest(view: View, since: int) -> Iterator[Event]:
    """The events above the retention floor since a time, the newest first."""
    for offset in history.descending(view, history.whole_log(view), keys.MAX_OFFSET):
        event = view.event(offset)
        if event is None or offset <= view.floor or event.time < since:
            return
        yield event


def completed(event: Event, author: Author, *, applied: bool) -> Authorship:
    """What an event that was written without an author gets from one; `applied`: managedFields show an apply."""
    names_manager = bool(author.manager) or not author.may_apply
    parts = [one for one in event.reason.split("; ") if one]
    guessed = GUESSED in parts and not names_manager
    parts = [one for one in parts if one != GUESSED]
    if author.source:
        parts.append("with " + author.source.replace(";", ","))
    parts += [USER_GUESSED] * author.guessed + [GUESSED] * guessed
    return Authorship(
        event.offset,
        "apply" if applied else author.verb,
        author.user,
        author.manager if names_manager else event.manager,
        "; ".join(parts),
    )
