"""The feed of a process that reads a journal which another process writes: it publishes what that one has committed.

A notice says that there is something new; the events themselves come from LMDB, which both processes map. So nothing is
lost when a notice is, or when the writer dies between a commit and its notice.

    tail.catch_up()     before each request
    tail.record()       with each notice; the caller delivers when this process has sent the replies that came before it

`committed` is the newest offset that any process can have seen: the writer stores it right before the commit. A process
that calls `catch_up` before it looks at anything therefore knows of every write that any client knows of, from a reply
or from a read of another process: its roles, kinds and webhooks are not older than what the client has seen.

The process that writes publishes its commits by itself. If a thread commits, the others can see that a moment before
(`OwnCommits`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

AT_ONCE, BYTES_AT_ONCE = 1000, 16 << 20  # events that are in memory together, and their bytes


class Tail:
    def __init__(self, journal: Journal, feed: Feed, committed: Callable[[], int]) -> None:
        self._journal = journal
        self._feed = feed
        self._committed = committed

    @property
    def is_behind(self) -> bool:
        """If so, there may still be nothing to publish: the commit is on its way, or failed."""
        return self._committed() > self._feed.head

    def catch_up(self) -> None:
        """Publish every event that is committed. Compacted if retention has removed some of them."""
        if self.is_behind:
            self.record()
            self._feed.deliver()

    def record(self) -> None:
        """Pass every event that is committed to the followers, and none to clients yet. Compacted."""
        if not self.is_behind:
            return
        with self._journal.read() as view:
            while events := view.newer_events(self._feed.head, AT_ONCE, BYTES_AT_ONCE):
                self._feed.record(events)


class OwnCommits:
    """For requests of the process that writes, while others read what it commits."""

    def __init__(self, journal: Journal, feed: Feed, committed: Callable[[], int]) -> None:
        self._journal = journal
        self._feed = feed
        self._committed = committed

    def missing(self) -> Awaitable[None] | None:
        """What to await until the feed has all that other processes can have read; None if it has."""
        if self._committed() <= self._feed.head:
            return None
        with self._journal.read() as view:
            visible = view.head
        return None if visible <= self._feed.head else self._feed.reached(visible)
