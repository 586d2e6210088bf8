"""The feed: passes every committed batch, in order, to its followers.

The committer publishes; watch groups, caches and controllers follow. A follower is a plain synchronous callback
that must not block (it records the batch and wakes its own task): a queue per follower would have to be bounded, and
then the slowest follower would slow all others. Followers that need older events read the journal.

A follower that raises does not affect the others. The feed remembers the last offset that the follower handled and
first passes it all later events from the journal: with the next batch, or after a pause (`run`). A follower that
handled a part of a batch before it raised gets those events again, and has to handle them idempotently.

Clients get a batch later than the followers: `deliver` wakes what sends events to watchers, once those who wrote them
have their replies. Whoever has nobody to reply to publishes both at once (`publish`).

Most followers need the events of one or two types: which ones a batch concerns is looked up by its types, so that the
others cost nothing. Batches are passed whole, so followers still look at the type of each event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import trio

from rewound.journal.records import Event
from rewound.journal.view import View

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
    failed: bool = False
    handled: int = 0  # the last offset before those that it failed to handle


class Feed:
    def __init__(self, head: int, journal: Readable) -> None:
        self.head = head
        self._complete = head  # all changes up to it are published; versions without a change follow the head
        self._journal = journal
        self._followers: list[_Subscription] = []
        self._concerned: dict[int, tuple[_Subscription, ...]] = {}  # by the only type of a batch
        self._any_failed = False
        self._deliveries: list[Callable[[], None]] = []
        self._undelivered = False  # one of them failed
        self._published = trio.lowlevel.ParkingLot()
        self._failed = trio.lowlevel.ParkingLot()

    def follow(self, follower: Follower, types: frozenset[int] | None = None) -> None:
        """Call `follower` with every batch that has an event of these types; None: with every batch."""
        self._followers.append(_Subscription(follower, types))
        self._concerned.clear()

    def unfollow(self, follower: Follower) -> None:
        self._followers.remove(next(one for one in self._followers if one.notify == follower))
        self._concerned.clear()

    def on_delivery(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` when clients may get what was recorded."""
        self._deliveries.append(deliver)

    def behind(self) -> int:
        """How many followers have failed to handle events, and not yet got them again."""
        return sum(one.failed for one in self._followers) if self._any_failed else 0

    def publish(self, events: Sequence[Event]) -> None:
        """Pass a batch to the followers, and at once to clients."""
        self.record(events)
        self.deliver()

    def deliver(self) -> None:
        """Let clients get what was recorded: watchers are sent events from now on. Repeated after an error (`run`)."""
        self._undelivered = False
        for deliver in self._deliveries:
            try:
                deliver()
            except Exception:
                logger.exception("a delivery of the feed failed at offset %d: %r", self.head, deliver)
                self._undelivered = True
                self._failed.unpark_all()

    def record(self, events: Sequence[Event]) -> None:
        """Pass a batch to the followers; `deliver` has to follow."""
        self.head = events[-1].offset
        types = {event.type_id for event in events}
        if self._any_failed:
            self._publish_again(types, events)
        else:
            for subscription in self._find_concerned(types):
                self._notify(subscription, events)
        self._published.unpark_all()

    def _publish_again(self, types: set[int], events: Sequence[Event]) -> None:
        """Like `record`, but followers that failed get what they missed, of which these events are the last."""
        for subscription in tuple(self._followers):
            if subscription.failed:
                self._catch_up(subscription)
            elif _is_concerned(subscription, types):
                self._notify(subscription, events)
        self._any_failed = any(subscription.failed for subscription in self._followers)

    def _find_concerned(self, types: set[int]) -> tuple[_Subscription, ...]:
        """The followers of one of these types, in the order in which they began to follow."""
        if len(types) > 1:
            return tuple(one for one in self._followers if _is_concerned(one, types))
        [only] = types
        found = self._concerned.get(only)
        if found is None:
            found = tuple(one for one in self._followers if _is_concerned(one, types))
            self._concerned[only] = found
        return found

    async def reached(self, offset: int) -> None:
        """Wait until the journal has grown to `offset`."""
        while self.head < offset:
            await self._published.park()

    def complete(self, version: int) -> None:
        """There is no change after the head up to this version: no event will have it."""
        self._complete = max(self._complete, version)
        self._published.unpark_all()

    def is_complete(self, version: int) -> bool:
        """Whether all changes up to a version are published, which need not be that of an event."""
        return self.head >= version or self._complete >= version

    async def completed(self, version: int) -> None:
        """Wait until all changes up to a version are published."""
        while not self.is_complete(version):
            await self._published.park()

    async def run(self) -> None:
        """Run for ever: bring failed followers up to date, even if no batch is published."""
        while True:
            if not self._undelivered and not any(one.failed for one in self._followers):
                await self._failed.park()
            await trio.sleep(RETRY_PAUSE)
            for subscription in tuple(self._followers):
                if subscription.failed:
                    self._catch_up(subscription)
            self.deliver()

    def _notify(self, subscription: _Subscription, events: Sequence[Event]) -> bool:
        try:
            subscription.notify(events)
        except Exception:
            subscription.handled = events[0].offset - 1
            logger.exception(
                "a follower of the feed failed after offset %d: %r", subscription.handled, subscription.notify
            )
            subscription.failed = self._any_failed = True
            self._failed.unpark_all()
            return False
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


def _is_concerned(subscription: _Subscription, types: set[int]) -> bool:
    return subscription.types is None or not subscription.types.isdisjoint(types)
