"""Rows of old versions: (key, offset) in sorted lists, and their contents from the events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

from journal import records, state
from journal.errors import Damaged
from journal.records import Link
from journal.state import Entry
from journal.transaction import ReadTransaction

CHUNK_ROWS = 128  # contents read at a time
STEP_EVENTS = 32  # between two questions whether to stop: less than half a millisecond
TYPE_SIZE = 2  # bytes of a scope that is a whole type

Offsets = dict[bytes, int]  # state key -> offset of the event that is its row; 0: not there
Reference = tuple[bytes, int]  # one of them


def fold(offsets: Offsets, links: Iterable[Link]) -> Offsets:
    """Apply events in order."""
    for offset, key, _, removed in links:
        if removed:
            offsets.pop(key, None)
        else:
            offsets[key] = offset
    return offsets


def undo(offsets: Offsets, links: Iterable[Link], undone: set[bytes]) -> None:
    """Undo events in order: the first event of an object names the row that it had before. `undone` has those."""
    for _, key, previous, _ in links:
        if key not in undone:
            undone.add(key)
            if previous:
                offsets[key] = previous
            else:
                offsets.pop(key, None)


def sorted_with(ordered: list[bytes], fresh: list[bytes]) -> list[bytes]:
    """A sorted list with more keys; a new list unless there are none."""
    if not fresh:
        return ordered
    merged: list[bytes] = []
    position = 0
    for key in sorted(fresh):
        following = bisect_left(ordered, key, position)
        merged += ordered[position:following]
        merged.append(key)
        position = following
    return merged + ordered[position:]


def with_contents(reading: ReadTransaction, rows: list[Any]) -> Iterator[list[Entry]]:
    """Rows in chunks; those that are only (key, offset) get their contents."""
    chunk: list[Entry] = []
    size = 0
    for row in rows:
        if len(row) == 2:
            row = row_of(reading, *row)
            size += len(row[3])
        chunk.append(row)
        if len(chunk) == CHUNK_ROWS or size > state.CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def row_of(reading: ReadTransaction, key: bytes, offset: int) -> Entry:
    fields = reading.fields_of(key, offset)
    if fields[records.REMOVED]:
        raise Damaged(f"event {offset} of {records.printable(key)} removed it; it cannot be its state")
    return key, offset, fields[records.FACTS], fields[records.BODY]


def end_of(ordered: list[bytes], scope: bytes) -> int:
    """The position after the last key of a scope in a sorted list of one type's keys."""
    return len(ordered) if len(scope) == TYPE_SIZE else bisect_left(ordered, scope[:-1] + b"\1")
