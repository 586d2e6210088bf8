"""How many writes of controllers to one namespace are on their way at a time.

Actors take commands in the order of their arrival, and a commit has all that have arrived: the writes of others, and
clients, wait for as many of one namespace as this allows, however many objects there have pods to create.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

# Twice what one pass writes together (`client.BATCH`): two objects of a namespace do not wait for each other.
SLOTS: Final = 128


class NamespaceSlots:
    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._used: dict[str, int] = {}
        self._waiting: dict[str, trio.lowlevel.ParkingLot] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Take a slot of the namespace for the block, in the order in which they are asked for."""
        if self._used.get(namespace, 0) < self._slots:
            self._used[namespace] = self._used.get(namespace, 0) + 1
        else:
            await self._wait(namespace)
        try:
            yield
        finally:
            self._release(namespace)

    async def _wait(self, namespace: str) -> None:
        lot = self._waiting.setdefault(namespace, trio.lowlevel.ParkingLot())
        try:
            await lot.park()
        finally:
            if not lot and self._waiting.get(namespace) is lot:
                del self._waiting[namespace]

    def _release(self, namespace: str) -> None:
        """The first that waits has the slot now; if none does, it is free."""
        lot = self._waiting.get(namespace)
        if lot:
            lot.unpark()
            return
        self._used[namespace] -= 1
        if not self._used[namespace]:
            del self._used[namespace]


_shared: Final[trio.lowlevel.RunVar[NamespaceSlots]] = trio.lowlevel.RunVar("namespace_slots")


def shared_slots() -> NamespaceSlots:
    """Those of all controllers of this run of trio."""
    try:
        return _shared.get()
    except LookupError:
        found = NamespaceSlots()
        _shared.set(found)
        return found
