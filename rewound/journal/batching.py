"""Cuts long reads into batches of a bounded number and a bounded size: the only way in which journals are copied.

A thousand events may have a thousand objects of a megabyte, so no number alone bounds what a batch holds. What is held
at any time is at most `MOST_BYTES` and one item, as long as the caller drops a batch before it asks for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from rewound.journal.records import Event, Row

T = TypeVar("T")

# For one durable transaction: large enough that the fsync costs little, small enough for any memory.
MOST: Final = 1000
MOST_BYTES: Final = 4 << 20


def in_batches(
    items: Iterable[T],
    size_of: Callable[[T], int],
    *,
    most: int = MOST,
    most_bytes: int = MOST_BYTES,
    apart: Callable[[T, T], bool] = lambda before, item: False,
) -> Iterator[list[T]]:
    """Items in batches of at most `most`, and of at most `most_bytes` unless a single item has more.

    An item begins a batch of its own if it must be `apart` from the one before it.
    """
    batch: list[T] = []
    size = 0
    for item in items:
        added = size_of(item)
        if batch and (len(batch) == most or size + added > most_bytes or apart(batch[-1], item)):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += added
    if batch:
        yield batch


def event_batches(events: Iterable[Event], floor: int) -> Iterator[list[Event]]:
    """Events for one transaction each, entirely at or below the retention floor or entirely above it."""
    return in_batches(events, size_of, apart=lambda before, event: before.offset <= floor < event.offset)


def size_of(event: Event) -> int:
    """Bytes of the contents of an event."""
    return len(event.facts) + len(event.body)


def size_of_row(item: tuple[str, str, Row]) -> int:
    """The same of an object, as views list them."""
    return len(item[2].facts) + len(item[2].body)
