"""Reads a data folder or a file without a server, with the functions that the API uses.

A folder is never written to, so a rollback or undelete returns the object that a client would send.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import orjson
from msgspec.structs import replace

from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.declaration.columns import UNKNOWN
from rewound.actors.kinds.declaration.columns import since as age
from rewound.actors.names import CLUSTER, NAMES, Names
from rewound.actors.rewind.blame import blame
from rewound.actors.rewind.contents import named, parsed
from rewound.actors.rewind.difference import Change
from rewound.actors.rewind.documents import blame_document, event_document, history_page
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.moments import thinned_warning
from rewound.actors.rewind.restore import absent_fields, rolled_back, undeleted
from rewound.actors.rewind.versions import Address, looks_like_uid, name_of_uid, newest
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.selectors.matcher import matcher
from rewound.client.errors import Failure, UsageError, print_warning
from rewound.journal import history, keys, snapshots
from rewound.journal.batching import in_batches, size_of_row
from rewound.journal.errors import Compacted
from rewound.journal.files.data_file import DATA
from rewound.journal.history import ObjectChange
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.records import Row
from rewound.journal.view import View
from rewound.recording.query.entries import Document, Entry, Kind, Selection, compared, object_bytes
from rewound.recording.query.events import EventReader, entry_for, event_range, new_entries, resolve
from rewound.recording.query.folder import Folder, Masking
from rewound.recording.query.moments import Moment, after_the_last
from rewound.recording.query.source import (
    Difference,
    Progress,
    Source,
    Stats,
    TypeStats,
    Version,
    Wanted,
    did_not_exist,
)

PAGE = 500  # versions, or objects read in one view
STEP = 1000  # events between two reports of progress
MINUTE, HOUR = 60, 3600

logger = logging.getLogger(__name__)

Compare = Callable[[bytes, bytes], list[Change]]  # compares two stored contents


class FolderSource(Source):
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._journal = folder.journal
        self._kinds = folder.kinds
        self._warned: set[int] = set()  # types
        self.place = str(folder.path) if folder.temporary else f"the journal in {folder.path}"

    @property
    def folder(self) -> Folder:
        return self._folder

    def names(self) -> Names:
        return NAMES.get(self._journal.dialect, CLUSTER)

    def kubernetes(self) -> str:
        return self._journal.kubernetes

    def refused(self) -> Iterator[Document]:
        from rewound.rewind.page.refused import refused_in

        return refused_in(self._folder.path)

    def gaps(self) -> list[Document]:
        from rewound.rewind.gaps import gaps_in

        return [one.timed_document() for one in gaps_in(self._folder.path)]

    # Kinds and names.

    def kind(self, text: str) -> Kind:
        return self._kinds.find(text)

    def kinds(self, namespace: str = "") -> list[Kind]:
        return self._kinds.all()

    def kind_of(self, type_id: int) -> Kind:
        return self._kinds.of_type_id(type_id)

    def has_namespace(self, name: str) -> bool:
        """Whether there is a Namespace of this name, or was, or any object in it: an index has all of them."""
        with self._journal.read() as view:
            prefixes = [keys.scope(type_id, name) for type_id in view.types().values()]
            own = keys.find_object(self._journal.type_id("namespaces"), "", name)
            if own is not None:
                prefixes.append(own + b"\0")
            cursor = view.txn.cursor(view.databases.by_object)
            return any(
                prefix is not None and cursor.set_range(prefix) and cursor.key()[: len(prefix)] == prefix
                for prefix in prefixes
            )

    def namespaces(self) -> list[str]:
        with self._journal.read() as view:
            found = {name for _, name, _ in view.rows(self._journal.type_id("namespaces"), "")}
            # The counts of live objects have an entry for each namespace of a type.
            counted = (bytes(key[2:-1]) for key, _ in view.txn.cursor(view.databases.counts) if len(key) > 3)
            return sorted(found | {name.decode() for name in counted})

    def objects_named(self, kind: Kind, most: int) -> list[tuple[str, str]]:
        with self._journal.read() as view:
            rows = view.rows(self._kinds.type_id(kind), None)
            return [(namespace, name) for namespace, name, _ in islice(rows, most)]

    # One object.

    def history(
        self, wanted: Wanted, limit: int | None, *, managed_fields: bool = False
    ) -> Iterator[Document]:
        address, start, found = self._address(wanted), MAX_OFFSET, False
        while start and (limit is None or limit > 0):
            most = PAGE if limit is None else min(limit, PAGE)
            items, start, _ = run(
                history_page(self._journal, address, start, most, managed_fields=managed_fields, changes=True)
            )
            yield from items
            if items:
                self._warn(address.type_id, wanted.kind, int(items[-1]["version"]) if start else 0)
            found = found or bool(items)
            limit = None if limit is None else limit - len(items)
        if not found:
            raise self.never_existed(wanted)

    def contents(
        self, wanted: Wanted, ends: tuple[Moment, Moment]
    ) -> tuple[Document | None, Document | None]:
        rows = [self._row(wanted, end) for end in ends]
        if rows == [None, None]:
            self._check_known(wanted)
        before, after = (None if row is None else parsed(row.body) for row in rows)
        return before, after

    def _check_known(self, wanted: Wanted) -> None:
        """Raises Failure for an object that never existed."""
        if run(newest(self._journal, self._address(wanted), MAX_OFFSET)) is None:
            raise self.never_existed(wanted)

    def blame(self, wanted: Wanted, at: Moment) -> Document:
        address = self._address(wanted)
        with self._journal.read() as view:
            upto = self._resolve(view, at)
        self._warn(address.type_id, wanted.kind, upto)
        last = run(newest(self._journal, address, upto))
        if last is not None and last.removed:
            last = run(newest(self._journal, replace(address, uid=""), last.previous))
        if last is None:
            self._check_known(wanted)
            raise did_not_exist(wanted)
        found = run(blame(self._journal, last))
        more = {"leftOut": found.left_out} if found.left_out else {}
        return {"kind": "Blame", **event_document(last), "fields": blame_document(found), **more}

    def suspects(self, wanted: Wanted, at: Moment, since: Moment | None) -> Document:
        from rewound.rewind.suspects.past import Everything, Name, Past, short
        from rewound.rewind.suspects.suspects import find_suspects

        with self._journal.read() as view:
            upto = self._resolve(view, at)
            start = None if since is None else self._resolve(view, since)
        if start is not None and start > upto:
            raise UsageError("--since: is after --at")
        one = Name(short(wanted.kind.type_name), wanted.namespace or "", wanted.name)
        past = Past(self._journal, upto, Everything())
        found = run(find_suspects(past, one, start, list(self.refused())))
        if found is None:
            raise self.never_existed(wanted)
        return found

    def rollback(self, wanted: Wanted, to: Moment, fields: list[str], *, dry_run: bool) -> Document:
        past, present = self._row(wanted, to), self._row(wanted, Moment())
        if past is None or present is None:
            self._check_known(wanted)
            raise did_not_exist(wanted, "then" if past is None else "now")
        now, then = parsed(present.body), parsed(past.body)
        for text in absent_fields(now, then, fields):
            print_warning(text)
        return _typed(wanted.kind, unescaped(rolled_back(now, then, fields)))

    def undelete(self, wanted: Wanted, *, dry_run: bool) -> Document:
        last = run(newest(self._journal, self._address(wanted), MAX_OFFSET))
        if last is None:
            raise self.never_existed(wanted)
        if not last.removed and not wanted.uid:
            raise Failure(f"{wanted.text} exists: it was not deleted")
        return _typed(wanted.kind, unescaped(undeleted(parsed(last.body))))

    def _row(self, wanted: Wanted, at: Moment) -> Row | None:
        address = self._address(wanted)
        with self._journal.read() as view:
            version = self._resolve(view, at)
            row = view.at(version).get(address.type_id, address.namespace, address.name)
        self._warn(address.type_id, wanted.kind, version)
        return row

    def _warn(self, type_id: int, kind: Kind, version: int) -> None:
        """Warn, once for a kind, if times at a version may not be exact, or events after it are missing."""
        with self._journal.read() as view:
            warning = thinned_warning(view, type_id, kind.type_name, version)
        if warning and type_id not in self._warned:
            self._warned.add(type_id)
            print_warning(warning)

    def _address(self, wanted: Wanted) -> Address:
        type_id, namespace = self._kinds.type_id(wanted.kind), wanted.namespace or ""
        address = Address(type_id, namespace, wanted.name, wanted.uid)
        if looks_like_uid(wanted.name) and run(newest(self._journal, address, MAX_OFFSET)) is None:
            name = run(name_of_uid(self._journal, type_id, namespace, wanted.name))
            address = Address(type_id, namespace, name, wanted.name) if name else address
        return address

    # Objects of a moment.

    def _resolve(self, view: View, moment: Moment) -> int:
        """The version of a moment. Raises Failure if there is none, also for a time after the end of a file."""
        version = resolve(view, moment)
        if self._folder.temporary and moment.time is not None:
            last = _time_of(view, view.head)
            if moment.time > last:
                raise Failure(after_the_last(moment, last))
        return version

    def version(self, moment: Moment) -> Version:
        with self._journal.read() as view:
            offset = self._resolve(view, moment)
            return Version(
                offset, _time_of(view, next(history.descending(view, history.whole_log(view), offset), 0))
            )

    def objects(self, wanted: Wanted, at: Moment) -> Iterator[Document]:
        for bodies in self._bodies(wanted, at):
            yield from (_typed(wanted.kind, body) for body in bodies)

    def table(self, wanted: Wanted, at: Moment) -> Iterator[Document]:
        live = at == Moment() and not self._folder.temporary
        now = _now() if live else at.time or self.version(at).time
        for bodies in self._bodies(wanted, at):
            yield self._table(wanted.kind, bodies, now)

    def _bodies(self, wanted: Wanted, at: Moment) -> Iterator[list[bytes]]:
        """Read objects in slices, each from its own view, all at the same version."""
        if wanted.name:
            row = self._row(wanted, at)
            if row is None:
                self._check_known(wanted)
                raise did_not_exist(wanted)
            yield [named(row.body, wanted.namespace or "", wanted.name)]
            return
        with self._journal.read() as view:
            version = self._resolve(view, at)
        match = matcher(LabelSelector.parse(wanted.labels), None) if wanted.labels else None
        type_id = self._kinds.type_id(wanted.kind)
        self._warn(type_id, wanted.kind, version)
        after: tuple[str, str] | None = None
        while True:
            with self._journal.read() as view:
                found = view.at(version).rows(type_id, wanted.namespace, after)
                page = next(in_batches(found, size_of_row, most=PAGE), [])
            if not page:
                return
            bodies = [
                named(row.body, namespace, name)
                for namespace, name, row in page
                if match is None or match(row.facts, row.body)
            ]
            if bodies:
                yield bodies
            after = page[-1][:2]

    def _table(self, kind: Kind, bodies: list[bytes], now: int) -> Document:
        # Imported when needed: they import much of the server.
        from rewound.actors.store.reads import Listing
        from rewound.gateway.wire.encoders import TableEncoder

        definition = self._kinds.definition(kind)
        if definition is None:
            return _plain_table(bodies, now)
        encoder = TableEncoder(definition, self.names(), "v1", "", lambda: now)
        table: Document = orjson.loads(encoder.listing(Listing([], 0)))
        titles = [column["name"] for column in table["columnDefinitions"]]
        table["rows"] = [_row(encoder.element, titles, body, now) for body in bodies]
        return table

    # Events.

    def _reader(self, selection: Selection) -> EventReader:
        return EventReader(
            self._journal, selection, Masking(self._kinds, show_secrets=selection.show_secrets)
        )

    def log(
        self,
        selection: Selection,
        since: Moment | None,
        until: Moment | None,
        limit: int | None,
        *,
        reverse: bool,
    ) -> Iterator[Sequence[Entry]]:
        reader = self._reader(selection)
        with self._journal.read() as view:
            first, last = event_range(view, since, until)
        if limit is not None:
            first = reader.newest(limit, first, last)
        for kind in selection.kinds or self._kinds.all():
            self._warn(self._kinds.type_id(kind), kind, first)
        return (reader.backward if reverse else reader.forward)(first, last)

    def follow(self, selection: Selection, after: int) -> Iterator[Sequence[Entry]]:
        if self._folder.temporary:
            raise Failure(f"--follow: nothing is added to {self._folder.path}; follow a folder or a server")
        return new_entries(self._journal, self._reader(selection), after)

    def event(self, offset: int, namespace: str, *, show_secrets: bool) -> Entry:
        self.check_namespace(namespace)
        with self._journal.read() as view:
            event = view.event(offset)
            if event is None:
                raise Failure(_missing_event(view, offset))
            if namespace and event.namespace != namespace:
                raise Failure(f"event {offset} is not about an object in namespace {namespace}")
            return entry_for(view, event, Masking(self._kinds, show_secrets=show_secrets))

    def differences(
        self, selection: Selection, ends: tuple[int, int], progress: Progress
    ) -> Iterator[Difference]:
        low, high = sorted(ends)
        masking = Masking(self._kinds, show_secrets=selection.show_secrets)
        for done, kind in enumerate(selection.kinds or self._kinds.all()):
            progress(done)
            with self._journal.read() as view:
                _check_floor(view, low)
                number = self._kinds.type_id(kind)
                changed = history.changed_objects(view, number, low, high)
            compare = partial(compared, managed_fields=selection.managed_fields, mask=masking.applies(number))
            objects = sorted(
                item for item in changed.items() if selection.matches_names(*keys.names_of(item[0]))
            )
            for item in objects:  # one by one: objects may be large
                with self._journal.read() as view:
                    _check_floor(view, low)
                    found = _difference(view, kind, item, ends, compare)
                if found is not None:
                    yield found

    # Sizes.

    def stats(self, progress: Callable[[int, int], object]) -> Stats:
        journal, memory = self._journal, self._journal.environment.statistics()
        with journal.read() as view:
            return Stats(
                str(self._folder.path),
                journal.dialect,
                view.head,
                view.floor,
                _time_of(view, next(history.ascending(view, history.whole_log(view), 0), 0)),
                _time_of(view, view.head),
                _rates(view, _now()),
                self._types(view, progress),
                [(at, snapshots.header(view, at).rows) for at in snapshots.finished(view)],
                memory["map_bytes"],
                memory["used_bytes"],
                (journal.path / DATA).stat().st_size,
                memory["readers"],
            )

    def _types(self, view: View, progress: Callable[[int, int], object]) -> list[TypeStats]:
        databases = view.databases
        everything = view.txn.stat(databases.events)["entries"]
        found, done = [], 0
        for kind in self._kinds.all():
            number, events, total = self._kinds.type_id(kind), 0, 0
            for offset in history.ascending(view, history.of_type(view, number), 0):
                events += 1
                total += len(view.txn.get(keys.pack_offset(offset), b"", databases.events))
                if events % STEP == 0:
                    progress(done + events, everything)
            done += events
            found.append(TypeStats(kind.kind, kind.type_name, events, total, view.count(number)))
        return found


def _typed(kind: Kind, body: bytes) -> Document:
    return parsed(object_bytes(kind, body))


def _row(encode: Callable[[bytes], bytes], titles: list[str], body: bytes, now: int) -> Document:
    """A row of a Table. If the object needs a conversion webhook, or has an unknown form, its cells are empty."""
    try:
        row: Document = orjson.loads(encode(body))
        return row
    except Exception:
        logger.debug("an object has no columns", exc_info=True)
    metadata = parsed(body)["metadata"]
    known = {"Name": metadata["name"], "Age": age(metadata.get("creationTimestamp"), now)}
    return {"cells": [known.get(title, UNKNOWN) for title in titles], "object": {"metadata": metadata}}


def _plain_table(bodies: list[bytes], now: int) -> Document:
    """The Table of a kind whose columns are not known."""
    objects = [parsed(body) for body in bodies]
    names = ("Name", "Age")
    return {
        "columnDefinitions": [{"name": name, "type": "string", "priority": 0} for name in names],
        "rows": [
            {
                "cells": [one["metadata"]["name"], age(one["metadata"].get("creationTimestamp"), now)],
                "object": {"metadata": one["metadata"]},
            }
            for one in objects
        ],
    }


def _missing_event(view: View, wanted: int) -> str:
    head, floor = view.head, view.floor
    if wanted > head:
        return f"there is no event {wanted} yet: the newest is {head}"
    if wanted <= floor:
        return f"event {wanted} is no longer in the journal, which has all events after {floor}"
    near = next(history.ascending(view, history.whole_log(view), wanted))
    return f"there is no event {wanted}: nothing was committed under that version; the next one is {near}"


def _check_floor(view: View, low: int) -> None:
    """Raises Failure if retention has removed the events while they were read: it must not look like damage."""
    if low < view.floor:
        raise Compacted(low, view.floor)


def _difference(
    view: View, kind: Kind, item: tuple[bytes, ObjectChange], ends: tuple[int, int], compare: Compare
) -> Difference | None:
    key, (before, after, last) = item
    if ends[0] > ends[1]:
        before, after = after, before
    if before == after:
        return None
    changes: list[Change] = []
    if before and after:
        bodies = (view.readable_of(key, offset) for offset in (before, after))
        changes = compare(*(b"" if event is None else event.body for event in bodies))
    event = view.readable_of(key, last)
    return None if event is None else Difference(kind, *keys.names_of(key), before, after, event, changes)


def _time_of(view: View, offset: int) -> int:
    event = view.event(offset, contents=False)
    return event.time if event is not None else 0


def _rates(view: View, now: int) -> dict[str, float]:
    """Rates of the last minute, the last hour, and since the floor. Offsets count events, except for rare gaps."""
    rates = {
        name: (view.head - max(view.offset_at(now - seconds * 1_000_000), view.floor)) / seconds
        for name, seconds in (("minute", MINUTE), ("hour", HOUR))
    }
    first = next(history.ascending(view, history.whole_log(view), view.floor + 1), 0)
    passed = (_time_of(view, view.head) - _time_of(view, first)) / 1_000_000
    return {**rates, "sinceFloor": (view.head - view.floor) / passed if passed else 0.0}


def _now() -> int:
    return time.time_ns() // 1000
