"""The feed of a process that reads a journal which another process writes: it publishes what that one has committed.

A notice says that there is something new; the events themselves come from LMDB, which both processes map. So nothing is
lost when a notice is, or when the writer dies between a commit and its notice.

    tail.catch_up()     before each request, and with each notice

`committed` is the newest offset that any process can have seen: the writer stores it right before the commit. A process
that calls `catch_up` before it looks at anything therefore knows of every write that any client knows of, from a reply
or from a read of another process: its roles, kinds and webhooks are not older than what the client has seen.
"""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

AT_ONCE, BYTES_AT_ONCE = 1000, 16 << 20  # events that are in memory together, and their bytes


class Tail:
    def __init__(self, journal: Journal, feed: Feed, committed: Callable[[], int]) -> None:
        self._journal = journal
        self._feed = feed
        self._committed = committed

    def catch_up(self) -> None:
        """Publish every event that is committed. Compacted if retention has removed some of them."""
        if self._committed() <= self._feed.head:
            return  # otherwise there may still be nothing: the commit is on its way, or failed
        with self._journal.read() as view:
            while events := view.newer_events(self._feed.head, AT_ONCE, BYTES_AT_ONCE):
                self._feed.publish(events)
