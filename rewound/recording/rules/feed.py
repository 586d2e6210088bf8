"""The events that rules look at, oldest first, merged with the refused requests: of a data folder, a file or a server.

    feed = JournalFeed(source)  or  ServerFeed(source)
    for occurrence in feed.existing(start, kinds): ...     objects that were there before an event
    for occurrence in feed.between(start, end): ...

Refused requests have times, but no versions: each comes before the first event that is later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final

from rewound.client.errors import Failure
from rewound.journal.batching import in_batches, size_of_row
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.query.entries import Entry, Kind, Selection
from rewound.recording.query.folder_source import FolderSource
from rewound.recording.query.moments import Moment
from rewound.recording.query.server_source import ServerSource
from rewound.recording.rules.occurrence import Occurrence

Document = dict[str, Any]
WantsKind = Callable[[Kind], bool]

_BATCH, _BATCH_BYTES = 500, 4 << 20  # events of one read transaction, and their bytes
_PAGE: Final = 500  # objects


class Feed(ABC):
    @abstractmethod
    def ends(self) -> tuple[int, int]:
        """The version before the first event that is left, and the newest one."""

    @abstractmethod
    def version_at(self, time: int) -> int:
        """The newest version that is not later than a time; that before the first event if there is none."""

    @abstractmethod
    def existing(self, version: int, wanted: WantsKind) -> Iterator[Occurrence]:
        """The objects of some kinds at a version, each with the event that made it so."""

    @abstractmethod
    def events(self, after: int, upto: int) -> Iterator[Occurrence]:
        """The events after a version, up to another one."""

    @abstractmethod
    def refused(self, start: int, end: int) -> list[Occurrence]:
        """The requests that were refused from one time on, and before another, oldest first."""

    def between(self, after: int, upto: int, refused: list[Occurrence]) -> Iterator[Occurrence]:
        """The events, with refused requests between them."""
        waiting = refused[::-1]
        for occurrence in self.events(after, upto):
            while waiting and waiting[-1].time <= occurrence.time:
                yield waiting.pop()
            yield occurrence
        yield from reversed(waiting)


class JournalFeed(Feed):
    """Reads a journal in short transactions, also while a server writes to it."""

    def __init__(self, journal: Journal, source: FolderSource) -> None:
        self._journal, self._source = journal, source
        self._kinds: dict[str, Kind] = {}

    def ends(self) -> tuple[int, int]:
        with self._journal.read() as view:
            return view.floor, view.head

    def version_at(self, time: int) -> int:
        with self._journal.read() as view:
            return min(max(view.offset_at(time), view.floor), view.head)

    def existing(self, version: int, wanted: WantsKind) -> Iterator[Occurrence]:
        for type_id in self._journal.types().values():
            kind = self._source.kind_of(type_id)
            if not wanted(kind):
                continue
            after: tuple[str, str] | None = None
            while True:
                with self._journal.read() as view:
                    past = view.at(max(version, view.floor))
                    found: list[Event] = []
                    rows = past.rows(type_id, None, after, _PAGE)
                    for namespace, name, row in next(in_batches(rows, size_of_row, most=_PAGE), ()):
                        event = view.readable(row.offset)
                        if event is None:
                            event = Event(
                                row.offset, type_id, "", namespace, name, 0, False, 0, "", "", b"", row.body
                            )
                        found.append(event)
                        after = namespace, name
                if not found:
                    break
                yield from (Occurrence(kind, one, self.contents, exists=True) for one in found)

    def events(self, after: int, upto: int) -> Iterator[Occurrence]:
        of_type: dict[int, Kind] = {}
        while after < upto:
            with self._journal.read() as view:
                batch = view.newer_events(max(after, view.floor), _BATCH, _BATCH_BYTES)
            if not batch:
                return
            for event in batch:
                if event.offset > upto:
                    return
                kind = of_type.get(event.type_id)
                if kind is None:
                    kind = of_type[event.type_id] = self._source.kind_of(event.type_id)
                yield Occurrence(kind, event, self.contents)
            after = batch[-1].offset

    def contents(self, offset: int) -> bytes | None:
        with self._journal.read() as view:
            event = view.readable(offset)
        return None if event is None else event.body

    def refused(self, start: int, end: int) -> list[Occurrence]:
        if not self._kinds:
            self._kinds = {one.type_name: one for one in self._source.kinds()}
        return _refused(self._source.refused(), self._kinds, start, end)


class ServerFeed(Feed):
    """Reads a server by its API, as its user: what the user may not see gives no alerts."""

    def __init__(self, source: ServerSource) -> None:
        self._source = source
        self._selection = Selection()

    def ends(self) -> tuple[int, int]:
        return self._source.oldest() - 1, self._source.version(Moment()).offset

    def version_at(self, time: int) -> int:
        try:
            return self._source.version(Moment(time=time)).offset
        except Failure:
            return self.ends()[0]

    def existing(self, version: int, wanted: WantsKind) -> Iterator[Occurrence]:
        """The objects at a version; a server does not say who wrote them last."""
        import orjson

        from rewound.recording.rules.built_in import time_of

        for kind in self._source.kinds():
            if not kind.api_version or not wanted(kind):
                continue
            for one in self._source.objects(self._source.all_of(kind, "", everywhere=True), Moment(version)):
                metadata = one["metadata"]
                offset = int(metadata["resourceVersion"])
                number = self._source.number_of(kind)
                event = Event(
                    offset,
                    number,
                    "",
                    metadata.get("namespace", ""),
                    metadata["name"],
                    0,
                    False,
                    time_of(metadata.get("creationTimestamp")) or 0,
                    "",
                    "",
                    b"",
                    orjson.dumps(one),
                )
                yield Occurrence(kind, event, self.contents, exists=True)

    def events(self, after: int, upto: int) -> Iterator[Occurrence]:
        if after >= upto:
            return
        for entries in self._source.log(
            self._selection, Moment(after + 1), Moment(upto), None, reverse=False
        ):
            for entry in entries:
                yield self._occurrence(entry)

    def _occurrence(self, entry: Entry) -> Occurrence:
        event, before = entry.event, entry.before

        def contents(offset: int) -> bytes | None:
            return before if offset == event.previous else self.contents(offset)

        return Occurrence(self._source.kind_of(event.type_id), event, contents)

    def contents(self, offset: int) -> bytes | None:
        try:
            return self._source.event(offset, "", show_secrets=False).event.body or None
        except Failure:
            return None

    def refused(self, start: int, end: int) -> list[Occurrence]:
        kinds = {one.type_name: one for one in self._source.kinds()}
        return _refused(self._source.refused(), kinds, start, end)


def _refused(requests: Iterator[Document], kinds: dict[str, Kind], start: int, end: int) -> list[Occurrence]:
    found: list[Occurrence] = []
    for one in requests:
        time = one["time"]
        if not start <= time < end:
            continue
        name = str(one["type"])
        kind = kinds.get(name) or Kind(name, name, "", None)
        texts = (str(one[field]) for field in ("verb", "namespace", "name", "user", "manager"))
        verb, namespace, object_name, user, manager = texts
        event = Event(0, 0, verb, namespace, object_name, 0, False, time, user, manager, b"", b"")
        found.append(Occurrence(kind, event, _nothing, refused=one))
    found.sort(key=lambda one: one.time)
    return found


def _nothing(offset: int) -> bytes | None:
    return None


END_OF_TIME: Final = MAX_OFFSET
