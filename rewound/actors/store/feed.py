"""The feed: passes every committed batch, in order, to its followers.

The committer publishes; watch groups, caches and controllers follow. A follower is a plain synchronous callback that
must not block (it records the batch and wakes its own task): a queue per follower would have to be bounded, and then
the slowest follower would slow all others. Followers that need older events read the journal.

A follower that raises does not affect the others. The feed remembers the last offset that the follower handled and
first passes it all later events from the journal: with the next batch, or after a pause (`run`). A follower that
handled part of a batch before it raised gets those events again, and must handle them idempotently. An event whose
object it cannot read, however often it gets it, is left out for this follower: the later ones must reach it.

Clients get a batch later than the followers: `deliver` wakes the senders of watch events, once the writers have their
replies. A caller that has no replies to send does both at once (`publish`).

Most followers need the events of one or two types. The feed looks up the followers of a batch by its types, so that the
others cost nothing. It passes whole batches, so followers still check the type of each event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec
import trio

from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.journal.batching import in_batches, size_of
from rewound.journal.records import Event
from rewound.journal.view import View

logger = logging.getLogger(__name__)

Follower = Callable[[Sequence[Event]], None]

RETRY_PAUSE = 1.0  # seconds; longer than a transient cause, short enough for watches that wait for events
ATTEMPTS = 3  # at an event whose object a follower cannot read


class Readable(Protocol):
    """The part of the journal that the feed uses."""

    def read(self) -> AbstractContextManager[View]: ...


class _Subscription(msgspec.Struct):
    notify: Follower
    types: frozenset[int] | None  # None: all
    failed: bool = False
    handled: int = 0  # the last offset before the events that it failed to handle
    attempts: int = 0  # at the event after that, whose object it could not read


class Feed:
    def __init__(self, head: int, journal: Readable) -> None:
        self.head = head
        self._complete = head  # all changes up to it are published; may be past the head
        self._journal = journal
        self._followers: list[_Subscription] = []
        self._concerned: dict[int, tuple[_Subscription, ...]] = {}  # by type, for batches of a single type
        self._any_failed = False
        self._deliveries: list[Callable[[], None]] = []
        self._undelivered = False  # a delivery failed
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
        """Call `deliver` when clients may get the recorded events."""
        self._deliveries.append(deliver)

    def behind(self) -> int:
        """The number of followers that failed to handle events and have not yet got them again."""
        return sum(one.failed for one in self._followers) if self._any_failed else 0

    def publish(self, events: Sequence[Event]) -> None:
        """Pass a batch to the followers, and at once to clients."""
        self.record(events)
        self.deliver()

    def deliver(self) -> None:
        """Deliver the recorded events to clients: wake the watchers. Repeated after an error (`run`)."""
        self._undelivered = False
        for deliver in self._deliveries:
            try:
                deliver()
            except Exception:
                logger.exception("a delivery of the feed failed at offset %d: %r", self.head, deliver)
                self._undelivered = True
                self._failed.unpark_all()

    def record(self, events: Sequence[Event]) -> None:
        """Pass a batch to the followers; the caller must `deliver` afterwards."""
        self.head = events[-1].offset
        types = {event.type_id for event in events}
        if self._any_failed:
            self._publish_again(types, events)
        else:
            for subscription in self._find_concerned(types):
                self._notify(subscription, events)
        self._published.unpark_all()

    def _publish_again(self, types: set[int], events: Sequence[Event]) -> None:
        """Like `record`, but followers that failed get all events that they missed, up to these."""
        for subscription in tuple(self._followers):
            if subscription.failed:
                self._catch_up(subscription)
            elif _is_concerned(subscription, types):
                self._notify(subscription, events)
        self._any_failed = any(subscription.failed for subscription in self._followers)

    def _find_concerned(self, types: set[int]) -> tuple[_Subscription, ...]:
        """The followers of one of these types, in the order in which they subscribed."""
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
        """Declare that no event will have a version between the head and this one."""
        self._complete = max(self._complete, version)
        self._published.unpark_all()

    def is_complete(self, version: int) -> bool:
        """Whether all changes up to a version are published. The version need not be that of an event."""
        return self.head >= version or self._complete >= version

    async def completed(self, version: int) -> None:
        """Wait until all changes up to a version are published."""
        while not self.is_complete(version):
            await self._published.park()

    async def run(self) -> None:
        """Run forever: bring failed followers up to date, even if no batch is published."""
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
        except Exception as error:
            if subscription.handled != events[0].offset - 1:
                subscription.handled, subscription.attempts = events[0].offset - 1, 0
            if self._leaves_out(subscription, events, error):
                return True
            if not subscription.attempts:  # otherwise the last attempt is reported
                logger.exception(
                    "a follower of the feed failed after offset %d: %r",
                    *(subscription.handled, subscription.notify),
                )
            subscription.failed = self._any_failed = True
            self._failed.unpark_all()
            return False
        return True

    def _leaves_out(self, subscription: _Subscription, events: Sequence[Event], error: Exception) -> bool:
        """Whether the follower goes on without the only event of a batch, because it cannot read its object."""
        if len(events) > 1 or not isinstance(error, OF_MISFITS):
            subscription.attempts = 0
            return False
        subscription.attempts += 1
        if subscription.attempts < ATTEMPTS:
            return False
        event = events[0]
        logger.error(
            "a follower of the feed goes on without event %d of %s/%s, whose object it cannot read (%s: %.200s): %r",
            *(event.offset, event.namespace, event.name, type(error).__name__, error, subscription.notify),
        )
        return True

    def _notify_singly(self, subscription: _Subscription, events: Sequence[Event]) -> bool:
        """Pass the events of a batch that failed one by one, so that those that the follower cannot read are known."""
        return all(self._notify_of(subscription, event) for event in events)

    def _notify_of(self, subscription: _Subscription, event: Event) -> bool:
        """Pass an event, again at once if the follower cannot read its object: a pause would delay all later events."""
        while not self._notify(subscription, [event]):
            if not subscription.attempts:
                return False
        return True

    def _catch_up(self, subscription: _Subscription) -> None:
        try:
            missed = self._since(subscription.handled)
            for events in in_batches(missed, size_of):
                if not self._notify(subscription, events) and not self._notify_singly(subscription, events):
                    return
        except Exception:
            logger.exception(
                "the journal could not be read for a follower of the feed: %r", subscription.notify
            )
            return
        subscription.failed = False

    def _since(self, offset: int) -> Iterator[Event]:
        """The events up to the head of the feed: the journal may be ahead by a batch that is not published yet."""
        with self._journal.read() as view:
            for event in view.events(offset):
                if event.offset > self.head:
                    return
                yield event


def _is_concerned(subscription: _Subscription, types: set[int]) -> bool:
    return subscription.types is None or not subscription.types.isdisjoint(types)
