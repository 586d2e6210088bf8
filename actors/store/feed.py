"""The feed: every committed batch, in order, to whoever follows it.

The committer publishes; watch groups, caches and controllers follow. A follower is a plain synchronous callback
that must not block (it notes the batch and wakes its own task): a queue per follower would have to be bounded,
and then the slowest follower would decide for all. Those who need more than the newest batch read the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from journal.records import Event

Follower = Callable[[Sequence[Event]], None]


class Feed:
    def __init__(self, head: int) -> None:
        self.head = head
        self._followers: list[Follower] = []
        self._moved = trio.lowlevel.ParkingLot()

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    def unfollow(self, follower: Follower) -> None:
        self._followers.remove(follower)

    def publish(self, events: Sequence[Event]) -> None:
        self.head = events[-1].offset
        for follower in tuple(self._followers):
            follower(events)
        self._moved.unpark_all()

    async def reached(self, offset: int) -> None:
        """Wait until the journal has grown to `offset`."""
        while self.head < offset:
            await self._moved.park()
