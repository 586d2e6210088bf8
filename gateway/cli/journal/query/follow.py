"""Following a live server's folder: what is appended, as it comes.

Looks for a new head every so often, which is one read of the last key. A notification between processes was
rejected: LMDB has none, and a server should not know who reads its folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from gateway.cli.journal.query.failure import Failure
from gateway.cli.journal.query.reading import Entry, Reading
from journal.environment import DATA
from journal.log import Journal

EVERY = 0.1  # seconds; what a person takes for at once

Wait = Callable[[], None]


def follow(
    journal: Journal,
    reading: Reading,
    cursor: int,
    show: Callable[[Sequence[Entry]], object],
    wait: Wait = lambda: time.sleep(EVERY),
) -> None:
    """Show what comes behind `cursor` until Ctrl-C, which is the way to end it and no failure."""
    file = _identity(journal)
    try:
        while True:
            with journal.read() as view:
                head, floor = view.head, view.floor
            if head > cursor:
                _tell_gap(cursor, floor)
                for entries in reading.forward(cursor + 1, head):
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
    """Which file this is. One that was removed stays readable for us and never changes again."""
    try:
        found = (journal.path / DATA).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _tell_gap(cursor: int, floor: int) -> None:
    if floor > cursor:
        text = f"rewound: events between {cursor} and {floor} may be missing: retention was faster than this"
        print(text, file=sys.stderr)
