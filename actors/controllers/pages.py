"""Reads a whole collection in pages, each in its own view.

A controller that scans all objects must not block the event loop: it runs a checkpoint between two pages, while no view
is open. The feed reports objects that are written at positions which the scan has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from journal.records import Row
from journal.view import View

# About two milliseconds of reading, and the size of the first batch that the journal reads.
PAGE_SIZE = 128
PAGE_BYTES = 1 << 20  # objects may be large

Position = tuple[str, str]  # namespace and name


def next_page(
    view: View, type_id: int, namespace: str | None, after: Position | None
) -> Iterator[tuple[str, str, Row]]:
    """The next objects after a position, at least one; none at the end."""
    if after is None and view.count(type_id, namespace) <= PAGE_SIZE:
        rows = view.rows(type_id, namespace)  # reads no row of the types that follow
    else:
        # No object has an empty name, so the position of the empty name is before the first object. Without any
        # position, `rows` would read everything at once.
        rows = view.rows(type_id, namespace, after or (namespace or "", ""))
    size = 0
    for count, found in enumerate(rows, 1):
        yield found
        size += len(found[2].body)
        if count == PAGE_SIZE or size >= PAGE_BYTES:
            return
