"""The feed: every committed batch, in order, to whoever follows it.

The committer publishes; watch groups, caches and controllers follow. A follower is a plain synchronous callback
that must not block (it notes the batch and wakes its own task): a queue per follower would have to be bounded,
and then the slowest follower would decide for all. Those who need more than the newest batch read the journal.

A follower that raises affects nobody else. The feed remembers the last offset that it handled and gives it all events
since then from the journal before anything new: when the next batch comes, or after a pause (`run`). So it may get
events twice of which it has handled a part, and must not mind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import trio

from journal.log import Journal
from journal.records import Event

logger = logging.getLogger(__name__)

Follower = Callable[[Sequence[Event]], None]

RETRY_PAUSE = 1.0  # seconds; longer than a passing cause, shorter than anybody's patience with a silent watch
CATCH_UP_EVENTS = 1000  # at once, so that a follower far behind does not need them all in memory


@dataclass(slots=True)
class _Following:
    notify: Follower
    handled: int  # the last offset that it handled
    failed: bool = False


class Feed:
    def __init__(self, head: int, journal: Journal | None = None) -> None:
        """Without a journal nothing is read again: a follower that fails misses what it failed on."""
        self.head = head
        self._journal = journal
        self._followers: list[_Following] = []
        self._moved = trio.lowlevel.ParkingLot()
        self._failed = trio.lowlevel.ParkingLot()

    def follow(self, follower: Follower) -> None:
        self._followers.append(_Following(follower, self.head))

    def unfollow(self, follower: Follower) -> None:
        self._followers.remove(next(one for one in self._followers if one.notify == follower))

    def publish(self, events: Sequence[Event]) -> None:
        self.head = events[-1].offset
        for following in tuple(self._followers):
            if following.failed:
                self._catch_up(following)
            else:
                self._notify(following, events)
        self._moved.unpark_all()

    async def reached(self, offset: int) -> None:
        """Wait until the journal has grown to `offset`."""
        while self.head < offset:
            await self._moved.park()

    async def run(self) -> None:
        """For ever: bring followers that failed up to date, also when nothing new is published."""
        while True:
            if not any(following.failed for following in self._followers):
                await self._failed.park()
            await trio.sleep(RETRY_PAUSE)
            for following in tuple(self._followers):
                if following.failed:
                    self._catch_up(following)

    def _notify(self, following: _Following, events: Sequence[Event]) -> bool:
        try:
            following.notify(events)
        except Exception:
            logger.exception(
                "a follower of the feed failed after offset %d: %r", following.handled, following.notify
            )
            following.failed = True
            self._failed.unpark_all()
            return False
        following.handled = events[-1].offset
        return True

    def _catch_up(self, following: _Following) -> None:
        try:
            missed = self._since(following.handled)
            while events := list(islice(missed, CATCH_UP_EVENTS)):
                if not self._notify(following, events):
                    return
        except Exception:
            logger.exception("the journal could not be read for a follower of the feed: %r", following.notify)
            return
        following.failed = False

    def _since(self, offset: int) -> Iterator[Event]:
        """Up to the head of the feed: the journal may be ahead of it by a batch that is not published yet."""
        if self._journal is None:
            return
        with self._journal.read() as view:
            for event in view.events(offset):
                if event.offset > self.head:
                    return
                yield event
