"""The sinks of a stream: the journal of a standby, whose server publishes new events, or a backup."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgpack
import orjson
import trio

from rewound.actors.names import NAMES
from rewound.actors.selectors.facts import unpack_labels, unpack_uids
from rewound.actors.store.committer import DiskSpeed, run_beside
from rewound.actors.versions.version import stored_version
from rewound.journal.backup import BackupFile
from rewound.journal.copy import Copy, events_of
from rewound.journal.errors import CannotFollow, LeaderChanged
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.stream import Header, Stored

Publish = Callable[[list[Event]], None]


class StandbySink:
    """The journal of a standby. Like a leader, it commits in the thread of the event loop unless the disk is slow."""

    def __init__(self, folder: Path, leader: str) -> None:
        """`folder` is that of the journal. Raises CannotOpen."""
        self._folder, self._leader = folder, leader
        self._copy = Copy.open(folder, leader)
        self._disk = DiskSpeed()
        self.complete = trio.Event()  # the journal has all of a state, and can be served
        self.publish: Publish = _publish_nothing
        self.is_served = False  # a server of the journal's version of Kubernetes runs
        self._complete_or_not()

    @property
    def name(self) -> str:
        return str(self._folder)

    @property
    def is_new(self) -> bool:
        return self._copy is None

    @property
    def journal(self) -> Journal:
        return self._copied.journal

    @property
    def _copied(self) -> Copy:
        assert self._copy is not None, "nothing was received yet"
        return self._copy

    @property
    def head(self) -> int:
        return 0 if self._copy is None else self._copy.journal.head

    @property
    def base(self) -> int:
        return 0 if self._copy is None else self._copy.base

    def after(self) -> tuple[int | None, int]:
        copy = self._copy
        if copy is None or not copy.journal.head:
            return None, 0
        return copy.journal.head, 0 if copy.complete else copy.base

    def begin(self, header: Header) -> None:
        if header.dialect not in NAMES:
            raise CannotFollow(
                f"{self._leader} has the dialect {header.dialect!r}, which this release does not know: install the "
                "release of the leader here"
            )
        if self._copy is None:
            self._copy = Copy.create(self._folder, header, self._leader)
        before = self._copy.journal.kubernetes
        self._copy.begin(header)
        if self._copy.journal.kubernetes != before and self.is_served:
            raise LeaderChanged(
                f"{self._leader} is Kubernetes {stored_version(header.kubernetes)} now, this standby serves "
                f"{stored_version(before)}: start it again, and it is the same"
            )
        self._complete_or_not()

    def add_types(self, types: dict[str, int]) -> None:
        self._copied.add_types(types)

    async def store(self, stored: list[Stored]) -> None:
        """Make events durable, and pass them to the followers of this server."""
        copy = self._copied
        events = events_of(stored)
        for event in events:
            if problem := facts_problem(event):
                raise CannotFollow(
                    f"{self._leader} has sent an event that cannot be served (event {event.offset}: {problem}): look "
                    "at it there with `rewound journal log`; both servers should be of the same release"
                )
            if problem := body_problem(event):  # readers leave the object out, as at the leader
                where = f"{event.namespace}/{event.name}" if event.namespace else event.name
                self.journal.unreadable.note(event.offset, f"event {event.offset}, of {where}: {problem}")
        batch = copy.batch(stored)
        began = time.perf_counter()
        if self._disk.slow:
            await run_beside(partial(copy.write, batch))
        else:
            copy.write(batch)
        self._disk.record(time.perf_counter() - began)
        self.publish(events)
        self._complete_or_not()

    def _complete_or_not(self) -> None:
        if self._copy is not None and self._copy.complete:
            self.complete.set()

    def close(self) -> None:
        if self._copy is not None:
            self._copy.journal.close()


def body_problem(event: Event) -> str:
    """What is wrong with the object of an event, which the journal does not check; empty if nothing is.

    A removal by `rewound journal recover` or in a recording may have no content.
    """
    if event.removed and not event.body:
        return ""
    try:
        document = orjson.loads(event.body)
    except orjson.JSONDecodeError as wrong:
        return f"body: is not JSON: {wrong}"
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return "body: is not an object with metadata"
    return ""


def facts_problem(event: Event) -> str:
    """What is wrong with the facts of an event, which the server reads for selectors; empty if nothing is."""
    try:
        unpack_labels(event.facts)
        unpack_uids(event.facts)
    except (ValueError, TypeError, LookupError, AttributeError, msgpack.UnpackException) as wrong:
        return f"facts: cannot be read: {wrong!r}"
    return ""


def _publish_nothing(_: list[Event]) -> None:
    """Until the server runs."""


class BackupSink:
    def __init__(self, file: BackupFile, leader: str) -> None:
        self._file, self._leader = file, leader

    @property
    def name(self) -> str:
        return str(self._file.path)

    @property
    def is_new(self) -> bool:
        return self._file.is_new

    @property
    def head(self) -> int:
        return self._file.head

    @property
    def base(self) -> int:
        return self._file.base

    def after(self) -> tuple[int | None, int]:
        return self._file.after

    def begin(self, header: Header) -> None:
        self._file.begin(header, self._leader)

    def add_types(self, types: dict[str, int]) -> None:
        self._file.add_types(types)

    async def store(self, stored: list[Stored]) -> None:
        await trio.to_thread.run_sync(self._file.store, stored)
