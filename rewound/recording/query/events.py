"""Selects and reads events: in slices, and from a live server as they are appended.

One object has an index, one type has an index; every other selection reads all events in the range. Each slice is
read in a short view.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import orjson

from rewound.actors.rewind.difference import MANAGED_FIELDS, RESOURCE_VERSION, Change, difference
from rewound.actors.rewind.summary import compacted, summarize
from rewound.client.errors import Failure, UsageError
from rewound.journal import history, keys
from rewound.journal.errors import Damaged
from rewound.journal.files.data_file import DATA
from rewound.journal.history import Index
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.view import View
from rewound.recording.query.folder import Document, Kind, Masking, masked, masked_pair

_WILD = frozenset("*?[")
# The verbs of events in the journal.
VERBS = ("create", "update", "patch", "apply", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions on events, all of which must hold. None is no condition; texts may have wildcards."""

    kinds: tuple[Kind, ...] = ()
    namespace: str | None = None
    name: str | None = None
    user: str | None = None
    verb: str | None = None
    show_secrets: bool = False  # print the values of Secrets
    managed_fields: bool = False  # compare metadata.managedFields too
    contents: bool = True  # whether the caller needs the objects, not only what changed

    def index(self, view: View) -> Index:
        type_ids = self._type_ids(view)
        if len(type_ids) != 1:
            return history.whole_log(view)
        (type_id,) = type_ids
        if self.namespace is not None and self.name is not None and not _WILD & {*self.namespace, *self.name}:
            key = keys.find_object(type_id, self.namespace, self.name)
            if key is not None:
                return history.of_object(view, key)
        return history.of_type(view, type_id)

    def matcher(self, view: View) -> Callable[[Event], bool]:
        type_ids = self._type_ids(view)
        conditions = [
            (attribute, wanted)
            for attribute in ("namespace", "name", "user", "verb")
            if (wanted := getattr(self, attribute)) is not None
        ]

        def matches(event: Event) -> bool:
            if type_ids and event.type_id not in type_ids:
                return False
            return all(fnmatchcase(getattr(event, attribute), wanted) for attribute, wanted in conditions)

        return matches

    @property
    def one_namespace(self) -> str | None:
        """The namespace of all selected objects, if it is given without wildcards."""
        return None if self.namespace is None or _WILD & {*self.namespace} else self.namespace

    def matches_names(self, namespace: str, name: str) -> bool:
        """Whether namespace and name match."""
        return (self.namespace is None or fnmatchcase(namespace, self.namespace)) and (
            self.name is None or fnmatchcase(name, self.name)
        )

    def _type_ids(self, view: View) -> frozenset[int]:
        # Read each time: a live server may register a type while this command runs.
        types = view.types()
        return frozenset(types.get(kind.type_name, 0) for kind in self.kinds)


def check_verb(verb: str | None) -> None:
    """Raises UsageError for a verb that no event has."""
    if verb is not None and not any(fnmatchcase(known, verb) for known in VERBS):
        raise UsageError(f"--verb: {verb!r} is not a verb of the journal; there are {', '.join(VERBS)}")


# Per view: selected events, their bytes, and events read, of which none may match.
SLICE, SLICE_BYTES, SCAN = 500, 4 << 20, 20_000


@dataclass(frozen=True)
class Entry:
    """An event with the content before it."""

    event: Event
    before: bytes | None  # None: it did not exist, or retention removed it
    masked: bool = False  # a Secret whose values are not printed
    given: Document | None = None  # the summary, if a server has sent that instead of both contents

    @property
    def follows(self) -> bool:
        return self.before is not None

    @property
    def body(self) -> bytes:
        """The content to print."""
        return masked(self.event.body) if self.masked else self.event.body

    @cached_property
    def changes(self) -> list[Change]:
        return self.compared(managed_fields=False)

    @cached_property
    def summary(self) -> Document:
        """A summary of what it changed (`actors/rewind/summary.py`); meaningless for a deletion."""
        if self.given is not None:
            return self.given
        if self.before is None and self.event.previous:
            return compacted()
        return summarize(self.before, self.event.body, secret=self.masked)

    def compared(self, *, managed_fields: bool) -> list[Change]:
        """The changes; none when the content before is not known."""
        if self.before is None:
            return []
        return compared(self.before, self.event.body, managed_fields=managed_fields, mask=self.masked)


def compared(before: bytes, after: bytes, *, managed_fields: bool, mask: bool) -> list[Change]:
    """The differences between two stored contents; `mask`: of a Secret, without its values."""
    ignored = RESOURCE_VERSION if managed_fields else RESOURCE_VERSION | {MANAGED_FIELDS}
    one: Any = orjson.loads(before)
    other: Any = orjson.loads(after)
    if mask:
        one, other = masked_pair(one, other)
    return difference(one, other, ignored)


def entry_for(view: View, event: Event, masking: Masking) -> Entry:
    previous = view.event(event.previous)
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
        matches, size = self._selection.matcher(view), 0
        offsets = history.descending if backward else history.ascending
        for read, offset in enumerate(offsets(view, self._selection.index(view), start)):
            if offset < bound if backward else offset > bound:
                return found, None
            if read == SCAN or len(found) == SLICE or size > SLICE_BYTES:
                return found, offset
            event = view.event(offset)
            if event is None:
                raise Damaged(f"event {offset} is missing")
            if matches(event):
                found.append(entry_for(view, event, self._masking))
                size += len(event.body)
        return found, None


INTERVAL = 0.1  # seconds; a person does not notice it

Wait = Callable[[], None]


def new_entries(
    journal: Journal, reader: EventReader, cursor: int, wait: Wait = lambda: time.sleep(INTERVAL)
) -> Iterator[list[Entry]]:
    """Follow the journal of a live server: yields the events after `cursor`, as they are appended. Never ends.

    It polls the head, which is one read of the last key. Notifications between processes were rejected: LMDB
    has none, and the server should not need to know the readers of its folder.
    """
    file = _identity(journal)
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


def object_name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"
