"""Reading a whole collection a slice at a time, each slice in a view of its own.

A controller that walks through everything must hold up nobody: between two slices the event loop turns, and
no view stays open meanwhile. Objects written behind the walk are the feed's to tell of.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from journal.records import Row
from journal.view import View

# About two milliseconds of reading, and what the journal reads at a time at first.
SLICE = 128

Place = tuple[str, str]  # namespace and name


def next_slice(
    view: View, type_id: int, namespace: str | None, after: Place | None
) -> Iterator[tuple[str, str, Row]]:
    """The next objects behind a place; none at the end."""
    # Nothing has an empty name, so behind one is the beginning; without one all is read at once.
    return islice(view.rows(type_id, namespace, after or (namespace or "", "")), SLICE)
