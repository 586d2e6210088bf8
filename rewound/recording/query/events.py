"""Selects and reads the events of a journal: in slices, and as a live server appends them; finds its moments.

One object has an index, one type has an index; every other selection reads all events in the range. Each slice is
read in a short view.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from rewound.client.errors import Failure
from rewound.journal import history, keys
from rewound.journal.errors import Damaged
from rewound.journal.files.data_file import DATA
from rewound.journal.history import Index
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.view import View
from rewound.recording.query.entries import Entry, Selection
from rewound.recording.query.folder import Masking
from rewound.recording.query.moments import (
    Moment,
    after_the_end,
    before_the_start,
    check_order,
    in_the_future,
    wrong_order,
)

# Per view: selected events, their bytes, and events read, of which none may match.
SLICE, SLICE_BYTES, SCAN = 500, 4 << 20, 20_000


def entry_for(view: View, event: Event, masking: Masking) -> Entry:
    previous = view.readable(event.previous)
    before = previous.body if previous is not None else None
    return Entry(event, before, masking.applies(event.type_id))


class EventReader:
    def __init__(self, journal: Journal, selection: Selection, masking: Masking) -> None:
        self._journal, self._selection, self._masking = journal, selection, masking

    def forward(self, first: int, last: int) -> Iterator[list[Entry]]:
        """Entries between two offsets, both included, ascending."""
        position: int | None = first
        while position is not None and position <= last:
            with self._journal.read() as view:
                found, position = self._slice(view, position, last, backward=False)
            yield found

    def backward(self, first: int, last: int) -> Iterator[list[Entry]]:
        """Entries between two offsets, both included, descending."""
        position: int | None = last
        while position is not None and position >= first:
            with self._journal.read() as view:
                found, position = self._slice(view, position, first, backward=True)
            yield found

    def newest(self, count: int, first: int, last: int) -> int:
        """The offset of the first of the newest `count` entries, or of fewer; after `last` if there are none."""
        oldest = last + 1
        for found in self.backward(first, last):
            if len(found) >= count:
                return found[count - 1].event.offset
            count -= len(found)
            oldest = found[-1].event.offset if found else oldest
        return oldest

    def _slice(self, view: View, start: int, bound: int, *, backward: bool) -> tuple[list[Entry], int | None]:
        """The entries of one view, and the offset of the next slice; None after the last."""
        found: list[Entry] = []
        matches, size = self._matcher(view), 0
        offsets = history.descending if backward else history.ascending
        for read, offset in enumerate(offsets(view, self._index(view), start)):
            if offset < bound if backward else offset > bound:
                return found, None
            if read == SCAN or len(found) == SLICE or size > SLICE_BYTES:
                return found, offset
            event = _existing(view, offset, contents=False) if matches is not None else None
            if matches is not None and (event is None or not matches(event)):
                continue
            event = _existing(view, offset)
            if event is None:
                continue
            found.append(entry_for(view, event, self._masking))
            size += len(event.body)
        return found, None

    def _index(self, view: View) -> Index:
        selection, type_ids = self._selection, self._type_ids(view)
        if len(type_ids) != 1:
            return history.whole_log(view)
        (type_id,) = type_ids
        namespace, name = selection.one_namespace, selection.one_name
        if namespace is not None and name is not None:
            key = keys.find_object(type_id, namespace, name)
            if key is not None:
                return history.of_object(view, key)
        return history.of_type(view, type_id)

    def _matcher(self, view: View) -> Callable[[Event], bool] | None:
        """Whether an event, of which only the contents are missing, is selected; None: all are."""
        type_ids = self._type_ids(view)
        conditions = [
            (attribute, wanted)
            for attribute in ("namespace", "name", "user", "verb")
            if (wanted := getattr(self._selection, attribute)) is not None
        ]
        if not type_ids and not conditions:
            return None

        def matches(event: Event) -> bool:
            if type_ids and event.type_id not in type_ids:
                return False
            return all(fnmatchcase(getattr(event, attribute), wanted) for attribute, wanted in conditions)

        return matches

    def _type_ids(self, view: View) -> frozenset[int]:
        # Read each time: a live server may register a type while this command runs.
        types = view.types()
        return frozenset(types.get(kind.type_name, 0) for kind in self._selection.kinds)


def _existing(view: View, offset: int, *, contents: bool = True) -> Event | None:
    """The event at an offset of an index; None if it is damaged. Raises Damaged if there is none."""
    event = view.readable(offset, contents=contents)
    if event is None and not view.has_event(offset):
        raise Damaged(f"event {offset} is missing")
    return event


INTERVAL = 0.1  # seconds; a person does not notice it
WAITS = 20  # then the caller may do something else

Wait = Callable[[], None]


def new_entries(
    journal: Journal, reader: EventReader, cursor: int, wait: Wait = lambda: time.sleep(INTERVAL)
) -> Iterator[list[Entry]]:
    """Follow the journal of a live server: yields the events after `cursor`, as they are appended. Never ends.

    It polls the head, which is one read of the last key. Notifications between processes were rejected: LMDB
    has none, and the server should not need to know the readers of its folder.
    """
    file, waits = _identity(journal), 0
    while True:
        with journal.read() as view:
            head, floor = view.head, view.floor
        if head > cursor:
            _warn_of_gap(cursor, floor)
            yield from reader.forward(cursor + 1, head)
            cursor = head
            continue
        if _identity(journal) != file:
            raise Failure(f"the journal in {journal.path} was removed or replaced; start again to follow it")
        wait()
        waits += 1
        if waits % WAITS == 0:
            yield []


def _identity(journal: Journal) -> tuple[int, int] | None:
    """Device and inode. A removed file stays readable for us and never changes again."""
    try:
        found = (journal.path / DATA).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _warn_of_gap(cursor: int, floor: int) -> None:
    if floor > cursor:
        text = f"rewound: events between {cursor} and {floor} may be missing: retention removed them first"
        print(text, file=sys.stderr)


def event_range(view: View, since: Moment | None, until: Moment | None) -> tuple[int, int]:
    """The first and the last offset.

    Raises Failure for a moment that the journal does not have, UsageError if --since is after --until.
    """
    if since is not None:
        _check_past(view, since)
    first = since.first(view) if since else 0
    last = min(resolve(view, until, past_end=True), view.head) if until else view.head
    if since is not None and until is not None:
        check_order(since, until)
        if not (since.time is not None and until.time is not None) and first > until.version(view):
            raise wrong_order(since, until)
    return first, last


def _check_past(view: View, moment: Moment) -> None:
    if moment.offset is not None and moment.offset > view.head:
        raise Failure(after_the_end(moment, view.head))
    if moment.time is not None and moment.time > time.time_ns() // 1000:
        # The journal of a test whose time passed quickly, or of a machine whose clock is fast, has later events.
        newest = view.event(view.head, contents=False)
        if newest is None or moment.time > newest.time:
            raise Failure(in_the_future(moment))


def resolve(view: View, moment: Moment, *, past_end: bool = False) -> int:
    """The version of a moment.

    Raises Failure if it is before what the journal has, or after its end and not `past_end`. Version 0 of a journal
    from which nothing was removed is the empty state before the first event.
    """
    if not past_end:
        _check_past(view, moment)
    version = moment.version(view)
    if version < view.floor or (moment.time is not None and not version):
        first = view.event(
            next(history.ascending(view, history.whole_log(view), view.floor + 1), 0), contents=False
        )
        raise Failure(before_the_start(moment, view.floor, first.time if first is not None else 0))
    return version
