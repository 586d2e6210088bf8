"""The feed: passes every committed batch, in order, to its followers.

The committer publishes; watch groups, caches and controllers follow. A follower is a plain synchronous callback
that must not block (it records the batch and wakes its own task): a queue per follower would have to be bounded, and
then the slowest follower would slow all others. Followers that need older events read the journal.

A follower that raises does not affect the others. The feed remembers the last offset that the follower handled and
first passes it all later events from the journal: with the next batch, or after a pause (`run`). A follower that
handled a part of a batch before it raised gets those events again, and has to handle them idempotently.

Most followers need the events of one or two types: a batch without them costs these followers one comparison. Batches
are passed whole, so followers still look at the type of each event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import trio

from journal.records import Event
from journal.view import View

logger = logging.getLogger(__name__)

Follower = Callable[[Sequence[Event]], None]

RETRY_PAUSE = 1.0  # seconds; longer than a passing cause, short enough for watches that wait for events
CATCH_UP_EVENTS = 1000  # at once, so that a follower far behind does not need them all in memory


class Readable(Protocol):
    """The part of the journal that the feed uses."""

    def read(self) -> AbstractContextManager[View]: ...


@dataclass(slots=True)
class _Subscription:
    notify: Follower
    types: frozenset[int] | None  # None: all
    handled: int  # the last offset that it handled
    failed: bool = False


class Feed:
    def __init__(self, head: int, journal: Readable) -> None:
        self.head = head
        self._journal = journal
        self._followers: list[_Subscription] = []
        self._published = trio.lowlevel.ParkingLot()
        self._failed = trio.lowlevel.ParkingLot()

    def follow(self, follower: Follower, types: frozenset[int] | None = None) -> None:
        """Call `follower` with every batch that has an event of these types; None: with every batch."""
        self._followers.append(_Subscription(follower, types, self.head))

    def unfollow(self, follower: Follower) -> None:
        self._followers.remove(next(one for one in self._followers if one.notify == follower))

    def publish(self, events: Sequence[Event]) -> None:
        self.head = head = events[-1].offset
        published = {event.type_id for event in events}
        for subscription in tuple(self._followers):
            if subscription.failed:
                self._catch_up(subscription)
            elif subscription.types is not None and subscription.types.isdisjoint(published):
                subscription.handled = head
            else:
                self._notify(subscription, events)
        self._published.unpark_all()

    async def reached(self, offset: int) -> None:
        """Wait until the journal has grown to `offset`."""
        while self.head < offset:
            await self._published.park()

    async def run(self) -> None:
        """Run for ever: bring failed followers up to date, even if no batch is published."""
        while True:
            if not any(subscription.failed for subscription in self._followers):
                await self._failed.park()
            await trio.sleep(RETRY_PAUSE)
            for subscription in tuple(self._followers):
                if subscription.failed:
                    self._catch_up(subscription)

    def _notify(self, subscription: _Subscription, events: Sequence[Event]) -> bool:
        try:
            subscription.notify(events)
        except Exception:
            logger.exception(
                "a follower of the feed failed after offset %d: %r", subscription.handled, subscription.notify
            )
            subscription.failed = True
            self._failed.unpark_all()
            return False
        subscription.handled = events[-1].offset
        return True

    def _catch_up(self, subscription: _Subscription) -> None:
        try:
            missed = self._since(subscription.handled)
            while events := list(islice(missed, CATCH_UP_EVENTS)):
                if not self._notify(subscription, events):
                    return
        except Exception:
            logger.exception(
                "the journal could not be read for a follower of the feed: %r", subscription.notify
            )
            return
        subscription.failed = False

    def _since(self, offset: int) -> Iterator[Event]:
        """Up to the head of the feed: the journal may be ahead of it by a batch that is not published yet."""
        with self._journal.read() as view:
            for event in view.events(offset):
                if event.offset > self.head:
                    return
                yield event
