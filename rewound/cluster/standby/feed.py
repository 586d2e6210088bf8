"""GET /journal/feed: the journal as a stream, for standbys and backups.

    ?after=1042             the events after an offset; 410 if retention has removed some of them
    ?after=500&base=1042    the rest of the state at an offset, then the events after that
    (neither)               the state at an offset that the server chooses, then everything after it

The stream has all objects, Secrets too: it needs the right to `get` this path, which no default role but cluster-admin
has. A follower costs only its offset: its next part is read from the journal when it has received the last. Ends of
commits are not stored: while there are followers, the newest are remembered, so that followers which keep up get whole
commits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final
from weakref import WeakSet

import trio

from rewound.actors.errors import BadRequest, Expired
from rewound.actors.store.feed import Feed
from rewound.actors.store.tail import AT_ONCE
from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import MethodNotAllowed
from rewound.gateway.store import Store
from rewound.journal.errors import Compacted, Damaged, NewerLayout
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.stream import Source

logger = logging.getLogger(__name__)

HEARTBEAT: Final = 5.0  # seconds; followers take a silence of three of them for a broken connection
REMEMBERED: Final = 10_000  # ends of commits


class JournalFeed:
    def __init__(self, store: Store, stop: trio.Event) -> None:
        self._journal = store.journal
        self._stop = stop
        self._ends = Ends(store.journal, store.feed)

    async def __call__(self, context: RequestContext) -> Response:
        if context.request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(("GET",))
        after, base = _offset(context, "after"), _offset(context, "base")
        if after is None and base is not None:
            raise BadRequest("base: needs after")
        try:
            source = Source(self._journal, after, base or 0)
        except Compacted as gone:
            raise Expired(
                f"the events after {gone.asked} are gone, the oldest that are left follow {gone.floor}: start over "
                "without `after`, which sends the state first"
            ) from gone
        parts = FeedParts(source, self._ends, self._stop)
        return Response(200, b"", b"application/vnd.rewound.stream", parts=parts)

    def followers(self) -> int:
        return len(self._ends.followers)


def _offset(context: RequestContext, name: str) -> int | None:
    text = context.parameters.first(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise BadRequest(f"{name}: {text!r} is not an offset; give a number such as 1042")
    return int(text)


class Ends:
    """The offsets at which the newest commits end, while there are followers."""

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._journal, self._feed = journal, feed
        self.followers: WeakSet[FeedParts] = WeakSet()
        self._following = False
        self._since = 0  # the ends above it are known
        self._order: deque[int] = deque()
        self._known: set[int] = set()
        self._committed_more = trio.lowlevel.ParkingLot()
        self.newest = 0  # the newest offset that ends a commit

    def add(self, follower: FeedParts) -> None:
        self.followers.add(follower)
        if not self._following:
            self._following = True
            self._order.clear()
            self._known.clear()
            self._since = self._journal.head
            # A commit of thousands of events is published in turns, and may not be complete yet.
            self.newest = self._since if self._feed.head == self._since else 0
            self._feed.follow(self._committed)

    def may_end(self, offset: int) -> bool:
        return offset <= self._since or offset in self._known

    async def grown(self, offset: int) -> None:
        """Wait until there is a commit after an offset."""
        while self.newest <= offset:
            await self._committed_more.park()

    def _ends_commit(self, events: Sequence[Event]) -> bool:
        """Whether these events end a commit, and no rest of it is about to be published.

        A committer publishes thousands of events in turns, all of which the journal has by then; a `Tail` publishes
        whole transactions of another process, in parts of AT_ONCE.
        """
        if self._journal.readonly and len(events) < AT_ONCE:
            return True
        return events[-1].offset == self._journal.head

    def _committed(self, events: Sequence[Event]) -> None:
        if not self.followers:
            self._following = False
            self._feed.unfollow(self._committed)
            return
        if not self._ends_commit(events):
            return
        offset = events[-1].offset
        if len(self._order) == REMEMBERED:
            self._since = self._order.popleft()
            self._known.discard(self._since)
        self._order.append(offset)
        self._known.add(offset)
        self.newest = offset
        self._committed_more.unpark_all()


class FeedParts:
    """The body of a response: the next part is read when the follower has received the last."""

    def __init__(self, source: Source, ends: Ends, stop: trio.Event) -> None:
        self._source, self._ends, self._stop = source, ends, stop
        self._began = self._ended = False

    def __aiter__(self) -> FeedParts:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        await trio.lowlevel.checkpoint()
        if not self._began:
            self._began = True
            self._ends.add(self)
            return self._source.begin()
        try:
            return await self._next()
        except Compacted as gone:
            return self._end(f"the events after {gone.asked} are gone", gone=True)
        except (Damaged, NewerLayout) as damage:
            what = damage.what if isinstance(damage, Damaged) else str(damage)
            if damage.path is not None:
                what = what.replace(f" in {damage.path}", "")
            logger.error("a follower cannot get the events after %d: %s", self._source.after, what)
            return self._end("the journal of the server is damaged", damaged=what)

    async def _next(self) -> bytes:
        source, ends = self._source, self._ends
        if source.in_state:
            return source.state()
        if ends.newest <= source.after and not self._stop.is_set():
            await self._wait()
        if ends.newest > source.after:
            return source.events(ends.newest, ends)
        return self._end("the server stops") if self._stop.is_set() else source.heartbeat()

    async def _wait(self) -> None:
        """Wait until there is more, the server stops, or a heartbeat is due."""
        with trio.move_on_after(HEARTBEAT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_for_commits, nursery.cancel_scope)
                await self._stop.wait()
                nursery.cancel_scope.cancel()

    async def _wait_for_commits(self, scope: trio.CancelScope) -> None:
        await self._ends.grown(self._source.after)
        scope.cancel()

    def _end(self, message: str, *, gone: bool = False, damaged: str = "") -> bytes:
        self._ended = True
        return self._source.end(message, gone=gone, damaged=damaged)
