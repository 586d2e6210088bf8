"""The feed of a process that reads a journal written by another process: it publishes the committed events.

A notice says that there are new events; the events themselves come from LMDB, which both processes map. So nothing is
lost if a notice is lost, or if the writer dies between a commit and its notice.

    tail.catch_up()     before each request
    tail.record()       with each notice; the caller delivers when this process has sent the earlier replies

`committed` is the newest offset that any process can have seen: the writer stores it right before the commit. A process
that calls `catch_up` first therefore knows of every write that any client knows of, from a reply or from a read of
another process: its roles, kinds and webhooks are not older than what the client has seen.

The writer process publishes its own commits. If a thread commits, other processes can see that a moment earlier
(`OwnCommits`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

AT_ONCE, BYTES_AT_ONCE = (
    1000,
    16 << 20,
)  # limits of the events that are in memory at once: their number and bytes


class Tail:
    def __init__(self, journal: Journal, feed: Feed, committed: Callable[[], int]) -> None:
        self._journal = journal
        self._feed = feed
        self._committed = committed

    @property
    def is_behind(self) -> bool:
        """Whether events may be missing. There may be nothing to publish: the commit is under way, or failed."""
        return self._committed() > self._feed.head

    def catch_up(self) -> None:
        """Publish all committed events. Raises Compacted if retention has removed some of them."""
        if self.is_behind:
            self.record()
            self._feed.deliver()

    def record(self) -> None:
        """Pass all committed events to the followers, and none to clients yet. Raises Compacted as `catch_up`."""
        if not self.is_behind:
            return
        with self._journal.read() as view:
            while events := view.newer_events(self._feed.head, AT_ONCE, BYTES_AT_ONCE):
                self._feed.record(events)


class OwnCommits:
    """For requests to the writer process, while other processes read its commits."""

    def __init__(self, journal: Journal, feed: Feed, committed: Callable[[], int]) -> None:
        self._journal = journal
        self._feed = feed
        self._committed = committed

    def missing(self) -> Awaitable[None] | None:
        """An awaitable for when the feed has all that other processes can have read; None if it has."""
        if self._committed() <= self._feed.head:
            return None
        with self._journal.read() as view:
            visible = view.head
        return None if visible <= self._feed.head else self._feed.reached(visible)
