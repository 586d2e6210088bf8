"""A read-only journal that ends at an offset which its owner moves: the data of a replay.

`rewound replay` opens a data folder this way. Everything that reads a `Journal` can read a `Recording`, and finds the
state and the log as they were when the event at `position` was the newest. Nothing is written or copied: the state is
that of `View.at`, so moving the position in either direction costs nothing.

Rejected: a second journal to which replayed events are appended. It took 16 microseconds per event, and one step back
meant rebuilding everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from rewound.journal import history, keys, records, state
from rewound.journal.environment import Environment
from rewound.journal.errors import NotWritable
from rewound.journal.log import Journal, OnPut
from rewound.journal.records import Event, Row
from rewound.journal.replay import PastView, Versions
from rewound.journal.state import Entry
from rewound.journal.view import View


class Recording(Journal):
    """`end` is the newest event at opening; a server that writes to the folder may append more."""

    is_copy = True

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.position = self.end = keys.MAX_OFFSET  # empty until it is open

    @classmethod
    def open_folder(cls, path: Path) -> Self:
        """Open the journal in a folder at its end, without changing the folder."""
        journal = cls.open(path, readonly=True)
        assert isinstance(journal, cls)
        journal.end = journal.position = journal._head
        return journal

    @property
    def head(self) -> int:
        return self.position

    @property
    def time(self) -> int:
        """The time of the newest event up to the position; 0 if there is none."""
        with self.read() as view:
            offsets = history.descending(view, history.whole_log(view), self.position)
            newest = view.event(next(offsets, 0), contents=False)
        return 0 if newest is None else newest.time

    def read(self) -> View:
        if self.position == keys.MAX_OFFSET:
            return self.read_all()
        return LimitedView(self.environment, self.checked, self.versions, self.position)

    def read_all(self) -> View:
        """A view of everything recorded, including events after the position and those appended since it was opened."""
        return super().read()

    def body(self, type_id: int, namespace: str, name: str) -> bytes | None:
        with self.read() as view:
            row = view.get(type_id, namespace, name)
        return None if row is None else row.body

    def register_types(self, names: Iterable[str]) -> None:
        """Types that were never recorded get numbers in memory only; nothing is stored under them."""
        for name in names:
            if name not in self._types:
                self._types[name] = max(self._types.values(), default=0) + 1

    def type_id(self, name: str) -> int:
        return self._types.get(name, 0)

    def types(self) -> dict[str, int]:
        return dict(self._types)

    def append(self, events: Sequence[Event], on_put: OnPut | None = None, *, restored: bool = False) -> None:
        raise NotWritable(self.path)

    def following(self, count: int, size: int) -> list[Event]:
        """Up to `count` events after the position, or until they have `size` bytes; none after the end."""
        with self.read_all() as view:
            cursor = view.txn.cursor(view.databases.events)
            if not cursor.set_range(keys.pack_offset(self.position + 1)):
                return []
            return records.decode_events(cursor.iternext(), self.end, size, count, view.instead)


class LimitedView(View):
    """A view in which events after `limit` do not exist."""

    __slots__ = ("_past", "limit")

    def __init__(
        self, environment: Environment, checked: state.CheckedRows, versions: Versions, limit: int
    ) -> None:
        super().__init__(environment, checked, versions)
        self.limit = limit
        self._past: PastView | View | None = None

    @property
    def head(self) -> int:
        return self.limit

    @property
    def is_newest(self) -> bool:
        return isinstance(self._state(), View)

    def _state(self) -> PastView | View:
        """The state at the limit."""
        if self._past is None:
            self._past = self._unlimited().at(self.limit)
        return self._past

    def _unlimited(self) -> View:
        """The whole journal, in the same transaction."""
        view = View(self._environment, self._checked, self._versions)
        view.txn = self.txn
        return view

    def at(self, offset: int) -> View | PastView:
        return self._unlimited().at(offset) if offset <= self.limit else super().at(offset)

    def get(self, type_id: int, namespace: str, name: str) -> Row | None:
        return self._state().get(type_id, namespace, name)

    def count(self, type_id: int, namespace: str | None = None) -> int:
        return self._state().count(type_id, namespace)

    def _entries_of(
        self, type_id: int, scope: bytes, start: bytes, wanted: int | None
    ) -> Iterator[list[Entry]]:
        return self._state()._entries_of(type_id, scope, start, wanted)

    def _found(self, type_id: int, scope: bytes, start: bytes, find: state.FindKeys) -> Iterator[state.Run]:
        return self._state()._found(type_id, scope, start, find)

    def references(self, type_id: int, start: bytes, count: int) -> list[tuple[bytes, int]]:
        return self._state().references(type_id, start, count)

    def event(self, offset: int, *, contents: bool = True) -> Event | None:
        return super().event(offset, contents=contents) if offset <= self.limit else None
