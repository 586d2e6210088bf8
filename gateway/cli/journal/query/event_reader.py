"""Reads events of the log in slices, each in a short view.

An open view keeps a live server from reusing pages, and output may block for hours in a pager: so no command
prints while a view is open. Between two slices the log may grow, and retention may remove events; the reader
skips removed ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from actors.rewind.difference import MANAGED_FIELDS, RESOURCE_VERSION, Change, difference
from gateway.cli.journal.query.secrets import Masking, masked, masked_pair
from gateway.cli.journal.query.selection import Selection
from journal import history
from journal.errors import Damaged
from journal.log import Journal
from journal.records import Event
from journal.view import View

# Per view: selected events, their bytes, and events read, of which none may match.
SLICE, SLICE_BYTES, SCAN = 500, 4 << 20, 20_000


@dataclass(frozen=True)
class Entry:
    """An event with the content before it."""

    event: Event
    before: bytes | None  # None: it did not exist, or retention removed it
    masked: bool = False  # a Secret whose values are not printed

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
        """The same, descending."""
        position: int | None = last
        while position is not None and position >= first:
            with self._journal.read() as view:
                found, position = self._slice(view, position, first, backward=True)
            yield found

    def newest(self, count: int, first: int, last: int) -> int:
        """The offset of the first of the newest `count` entries."""
        for found in self.backward(first, last):
            if len(found) >= count:
                return found[count - 1].event.offset
            count -= len(found)
        return first

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
