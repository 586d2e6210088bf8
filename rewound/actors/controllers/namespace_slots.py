"""Limits the concurrent writes of controllers to one namespace.

Actors take commands in order of arrival, and a commit has all that have arrived. So clients and the writes to other
namespaces wait for at most this many writes to one namespace, however many objects there have pods to create.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

# Twice what one pass writes together (`client.BATCH`), so that two objects of a namespace need not wait for each other.
SLOTS: Final = 128


class NamespaceSlots:
    def __init__(self, slots: int = SLOTS) -> None:
        self._slots = slots
        self._used: dict[str, int] = {}
        self._waiting: dict[str, trio.lowlevel.ParkingLot] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Take a slot of the namespace for the block; first come, first served."""
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
        """Pass the slot to the first waiter; if there is none, free it."""
        lot = self._waiting.get(namespace)
        if lot:
            lot.unpark()
            return
        self._used[namespace] -= 1
        if not self._used[namespace]:
            del self._used[namespace]


_shared: Final[trio.lowlevel.RunVar[NamespaceSlots]] = trio.lowlevel.RunVar("namespace_slots")


def shared_slots() -> NamespaceSlots:
    """The slots shared by all controllers of this trio run."""
    try:
        return _shared.get()
    except LookupError:
        found = NamespaceSlots()
        _shared.set(found)
        return found
