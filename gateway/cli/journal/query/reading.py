"""Events of the log in slices, each read in a short view of its own.

An open view keeps a live server from reusing pages, and output may stand still for hours in a pager: so nothing is
printed while one is open. Between two slices the log may grow, and retention may take events away; what is gone is
left out, as in the log itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from gateway.cli.journal.query.difference import BOOKKEEPING, MANAGED_FIELDS, Change, difference
from gateway.cli.journal.query.selection import Selection
from journal import history
from journal.errors import Damaged
from journal.log import Journal
from journal.records import Event
from journal.view import View

# What is found in one view and kept until it is printed; and what is looked at, which may match nothing.
SLICE, SLICE_BYTES, SCAN = 500, 4 << 20, 20_000


@dataclass(frozen=True)
class Entry:
    """An event, and the content that it replaced."""

    event: Event
    before: bytes | None  # None: there was none, or it is no longer kept

    @property
    def follows(self) -> bool:
        return self.before is not None

    @cached_property
    def changes(self) -> list[Change]:
        return self.compared(managed_fields=False)

    def compared(self, *, managed_fields: bool) -> list[Change]:
        """Without the content before, no change is known."""
        if self.before is None:
            return []
        return compared(self.before, self.event.body, managed_fields=managed_fields)


def compared(before: bytes, after: bytes, *, managed_fields: bool) -> list[Change]:
    """What differs between two stored contents."""
    ignored = BOOKKEEPING if managed_fields else BOOKKEEPING | {MANAGED_FIELDS}
    one: Any = orjson.loads(before)
    return difference(one, orjson.loads(after), ignored)


def entry_of(view: View, event: Event) -> Entry:
    previous = view.event(event.previous)
    return Entry(event, previous.body if previous is not None else None)


class Reading:
    def __init__(self, journal: Journal, selection: Selection) -> None:
        self._journal, self._selection = journal, selection

    def forward(self, first: int, last: int) -> Iterator[list[Entry]]:
        """Entries between two offsets, both included, ascending."""
        position: int | None = first
        while position is not None and position <= last:
            with self._journal.read() as view:
                found, position = self._slice(view, position, last, backward=False)
            yield found

    def backward(self, first: int, last: int) -> Iterator[list[Entry]]:
        """The same from the last one down."""
        position: int | None = last
        while position is not None and position >= first:
            with self._journal.read() as view:
                found, position = self._slice(view, position, first, backward=True)
            yield found

    def newest(self, count: int, first: int, last: int) -> int:
        """Where the newest `count` of them begin."""
        for found in self.backward(first, last):
            if len(found) >= count:
                return found[count - 1].event.offset
            count -= len(found)
        return first

    def _slice(self, view: View, start: int, bound: int, *, backward: bool) -> tuple[list[Entry], int | None]:
        """What was found, and where to go on; None when there is no more."""
        found: list[Entry] = []
        matches, size = self._selection.test(view), 0
        walk = history.descending if backward else history.ascending
        for looked, offset in enumerate(walk(view, self._selection.way(view), start)):
            if offset < bound if backward else offset > bound:
                return found, None
            if looked == SCAN or len(found) == SLICE or size > SLICE_BYTES:
                return found, offset
            event = view.event(offset)
            if event is None:
                raise Damaged(f"event {offset} is missing")
            if matches(event):
                found.append(entry_of(view, event))
                size += len(event.body)
        return found, None
