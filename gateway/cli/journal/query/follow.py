"""Follows the journal of a live server and shows events as they are appended.

It polls the head, which is one read of the last key. Notifications between processes were rejected: LMDB has
none, and the server should not need to know the readers of its folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from gateway.cli.journal.query.event_reader import Entry, EventReader
from gateway.cli.journal.query.failure import Failure
from journal.files.data_file import DATA
from journal.log import Journal

INTERVAL = 0.1  # seconds; a person does not notice it

Wait = Callable[[], None]


def follow(
    journal: Journal,
    reader: EventReader,
    cursor: int,
    show: Callable[[Sequence[Entry]], object],
    wait: Wait = lambda: time.sleep(INTERVAL),
) -> None:
    """Show the events after `cursor` until Ctrl-C, which ends it without an error."""
    file = _identity(journal)
    try:
        while True:
            with journal.read() as view:
                head, floor = view.head, view.floor
            if head > cursor:
                _warn_of_gap(cursor, floor)
                for entries in reader.forward(cursor + 1, head):
                    show(entries)
                cursor = head
                continue
            if _identity(journal) != file:
                raise Failure(
                    f"the journal in {journal.path} was removed or replaced; start again to follow it"
                )
            wait()
    except KeyboardInterrupt:
        return


def _identity(journal: Journal) -> tuple[int, int] | None:
    """Device and inode. A removed file stays readable here and never changes again."""
    try:
        found = (journal.path / DATA).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _warn_of_gap(cursor: int, floor: int) -> None:
    if floor > cursor:
        text = f"rewound: events between {cursor} and {floor} may be missing: retention removed them first"
        print(text, file=sys.stderr)
