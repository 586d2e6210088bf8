"""Copies a journal up to an offset into a new one, which goes on from there on its own.

`rewound replay --writable` calls it. Offsets, times, users, contents, type numbers and the retention floor are the
same; indexes and state are built again. The first journal is only read, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path

from journal import keys, records
from journal.errors import Compacted, JournalExists
from journal.log import Journal
from journal.records import Event
from journal.view import View

BATCH = 1000  # events of one durable transaction

Progress = Callable[[int], None]  # the offset that was reached


def fork(view: View, path: Path, version: int, progress: Progress | None = None) -> None:
    """Create the journal in `path`. Compacted below the retention floor."""
    if path.exists() and any(path.iterdir()):
        raise JournalExists(path)
    if version < view.floor:
        raise Compacted(version, view.floor)
    journal = Journal.open(path, dialect=view.dialect)
    try:
        _copy(view, journal, version, progress)
    finally:
        journal.close()


def _copy(view: View, journal: Journal, version: int, progress: Progress | None) -> None:
    types = sorted(view.types().items(), key=lambda item: item[1])
    journal.register_types(name for name, _ in types)
    assert journal.types() == dict(types), "types are numbered in the order of their names here"
    meta, floor = journal.environment.databases.meta, view.floor
    journal.environment.write(lambda txn: records.put_meta(txn, meta, {keys.FLOOR: keys.pack_offset(floor)}))
    upto = takewhile(lambda event: event.offset <= version, view.all_events(0))
    for batch in _batches(upto, floor):
        journal.append(batch, restored=batch[-1].offset <= floor)
        if progress is not None:
            progress(batch[-1].offset)


def _batches(events: Iterable[Event], floor: int) -> Iterator[list[Event]]:
    """Runs of events, all of each on one side of the floor."""
    remaining = iter(events)
    while batch := list(islice(remaining, BATCH)):
        below = [event for event in batch if event.offset <= floor]
        above = [event for event in batch if event.offset > floor]
        yield from (run for run in (below, above) if run)
