"""Takes and removes snapshots (`snapshots` has their layout and reads them).

The caller decides when (`snapshots.due`) and drives `take` chunk by chunk, between other work. Each chunk is read and
written in short transactions of its own. `View.at` undoes what is appended meanwhile, so that all chunks have the
state at the same offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rewound.journal import keys, snapshots
from rewound.journal.errors import Compacted
from rewound.journal.log import Journal
from rewound.journal.snapshots import HEADER, LAYOUT, chunk_key

# About 20 KiB compressed, and two milliseconds of reading before other tasks can run.
CHUNK_ROWS = 1000


def take(journal: Journal, *, chunk_rows: int = CHUNK_ROWS) -> Iterator[int]:
    """Take a snapshot at the head, one chunk per step; yields the number of rows written so far.

    Ends without a snapshot if the retention floor or a cut passes its offset, or if nothing was appended since the last
    one.
    """
    remove_unfinished(journal)
    with journal.read() as view:
        offset, types = view.head, view.written_types()
        if not offset or snapshots.newest(view) == offset:
            return
    writer = _Writer(journal, offset, types, chunk_rows)
    try:
        while writer.step():
            yield writer.rows
    except Compacted:
        remove_unfinished(journal)


class _Writer:
    """The progress of one snapshot: the next key to read, and the chunks written."""

    def __init__(self, journal: Journal, offset: int, types: list[int], chunk_rows: int) -> None:
        self._journal, self._offset, self._chunk_rows = journal, offset, chunk_rows
        self._types = types  # types that are not completely read yet
        self._start = b""
        self._first_keys: list[bytes] = []
        self.rows = 0

    def step(self) -> bool:
        """Write the next chunk, or the header after the last one; return False when all is written."""
        rows = self._read()
        if not rows:
            _write(self._journal, chunk_key(self._offset, HEADER), [LAYOUT, self.rows, self._first_keys])
            return False
        key = chunk_key(self._offset, len(self._first_keys))
        _write(self._journal, key, [field for row in rows for field in row])
        self._first_keys.append(rows[0][0])
        self.rows += len(rows)
        return True

    def _read(self) -> list[tuple[bytes, int]]:
        rows: list[tuple[bytes, int]] = []
        with self._journal.read() as view:
            if any(one.upto > self._offset for one in view.cuts.values()):
                raise Compacted(
                    self._offset, view.floor
                )  # the chunks written before have events that are gone
            past = view.at(self._offset)
            while self._types and len(rows) < self._chunk_rows:
                start = max(self._start, keys.pack_type(self._types[0]))
                found = past.references(self._types[0], start, self._chunk_rows)
                rows += found
                if len(found) < self._chunk_rows:
                    del self._types[0]
                if found:
                    self._start = found[-1][0] + b"\0"
        return rows


def _write(journal: Journal, key: bytes, fields: list[Any]) -> None:
    value, database = snapshots.encode(key, fields), journal.environment.databases.snapshots
    journal.environment.write(lambda txn: txn.put(key, value, db=database))


def remove_unfinished(journal: Journal) -> None:
    with journal.read() as view:
        stored = {offset for offset, _ in snapshots.chunks_in(view.txn, view.databases)}
        unfinished = stored - set(snapshots.finished(view))
    _remove(journal, unfinished)


def prune(journal: Journal, keep: int) -> None:
    """Remove all but the newest `keep` finished snapshots, and those below the retention floor."""
    with journal.read() as view:
        finished = snapshots.finished(view)
        usable = [offset for offset in finished if offset >= view.floor]
        surplus = set(finished) - set(usable[-keep:] if keep else [])
    _remove(journal, surplus)


def _remove(journal: Journal, offsets: set[int]) -> None:
    if offsets:
        journal.environment.write(lambda txn: _delete(txn, journal, offsets))


def _delete(txn: Any, journal: Journal, offsets: set[int]) -> None:
    databases = journal.environment.databases
    for offset, number in list(snapshots.chunks_in(txn, databases)):
        if offset in offsets:
            txn.delete(chunk_key(offset, number), db=databases.snapshots)
