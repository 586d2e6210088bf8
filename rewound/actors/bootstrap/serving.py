"""Keeps the addresses of all serving nodes in the Endpoints of the API's Service, as v1.25's servers do with leases.

Each node has a key in etcd with its address and a lease. At intervals it renews the lease, reads the addresses of all
nodes and writes them to the Endpoints. A node that stops revokes its lease at once; the key of one that was killed or
cut off disappears when its lease expires, and the next node to refresh removes its address. Two nodes that refresh at
the same time may write the older list last, until one of them refreshes again. A key under this prefix that no node
wrote is deleted, and a node whose key was changed writes it again.

Rejected: the node that runs the controllers writes for all. A new node would be missing until that one refreshes, and
a cluster whose controllers are off (`--controllers`) would have no addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

import trio

from rewound.actors.bootstrap.objects import ServingAddress
from rewound.actors.certificates.names import address_of
from rewound.actors.etcd.api import (
    Compare,
    DeleteRange,
    Etcd,
    EtcdError,
    KeyValue,
    LeaseGone,
    OutcomeUnknown,
    Put,
    prefix_end,
)
from rewound.actors.store.etcd.foreign import printable
from rewound.actors.store.etcd.records import Keys, Serving, UnknownLayout, Unreadable

logger = logging.getLogger(__name__)

TTL: Final = 15  # seconds of the lease, as in v1.25
INTERVAL: Final = 5.0
LEAVE_SECONDS: Final = 3.0  # that a stopping node waits for etcd at most

Publish = Callable[[Collection[ServingAddress]], Awaitable[None]]


class ServingNodes:
    def __init__(self, etcd: Etcd, keys: Keys, node: str, address: ServingAddress) -> None:
        self._etcd, self._prefix, self._key = etcd, keys.serving, keys.of_serving(node)
        self._address = address
        self._lease = 0
        self._problem = ""  # the last one that was logged
        self._refreshing = trio.Lock()
        self.left = trio.Event()  # `run` has ended

    async def join(self) -> set[ServingAddress]:
        """Register this node; return the addresses of all, or none if etcd cannot be reached: `run` tries again."""
        return await self._attempt(self._refresh) or set()

    async def run(self, publish: Publish, stop: trio.Event) -> None:
        """Publish the addresses at intervals until the server stops, and then once more without this node."""
        try:
            while not stop.is_set():
                with trio.move_on_after(INTERVAL):
                    await stop.wait()
                    break
                if found := await self._attempt(self._refresh):
                    await publish(found)
            with trio.move_on_after(LEAVE_SECONDS):
                if found := await self._attempt(self._leave):
                    await publish(found)  # the last node leaves its address there
        finally:
            self.left.set()

    async def _attempt(
        self, call: Callable[[], Awaitable[set[ServingAddress]]]
    ) -> set[ServingAddress] | None:
        try:
            async with self._refreshing:
                found = await call()
        except EtcdError as error:
            self._log_once(f"cannot read the addresses of the serving nodes: {error}")
            return None
        self._problem = ""
        return found

    def _log_once(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            logger.warning(problem)

    async def _refresh(self) -> set[ServingAddress]:
        if self._lease:
            try:
                await self._etcd.keep_alive(self._lease)
            except LeaseGone:
                self._lease = 0
        value = Serving(self._address.address, self._address.port).encode()
        if self._lease:
            own = (await self._etcd.range(self._key)).kvs
            if not own or own[0].value != value or own[0].lease != self._lease:
                await self._etcd.revoke(self._lease)
                self._lease = 0
        if not self._lease:
            lease = await self._etcd.grant(TTL)
            try:
                await self._etcd.txn((), [Put(self._key, value, lease)])
            except OutcomeUnknown:
                await self._etcd.txn((), [Put(self._key, value, lease)])  # a repeated put does no harm
            self._lease = lease
        return await self._addresses()

    async def _leave(self) -> set[ServingAddress]:
        if self._lease:
            await self._etcd.revoke(self._lease)
        return await self._addresses()

    async def _addresses(self) -> set[ServingAddress]:
        found = await self._etcd.range(self._prefix, prefix_end(self._prefix))
        return {address for one in found.kvs if (address := await self._address_in(one)) is not None}

    async def _address_in(self, stored: KeyValue) -> ServingAddress | None:
        """Return the address in a key, or None for a key that no node wrote: it has no lease or is unreadable.
        Deletes it.
        """
        if stored.key == self._key and stored.lease == self._lease:
            return self._address
        try:
            found = Serving.decode(stored.value)
            if stored.lease and address_of(found.address) and 0 < found.port < 1 << 16:
                return ServingAddress(found.address, found.port)
        except Unreadable:
            pass
        except UnknownLayout as later:
            self._log_once(str(later))
            return None
        logger.warning(
            "the etcd key %s, where nodes register their addresses, was not written by a node: it is deleted",
            printable(stored.key),
        )
        with suppress(OutcomeUnknown):
            compare = Compare(stored.key, "mod_revision", stored.mod_revision)
            await self._etcd.txn([compare], [DeleteRange(stored.key)])
        return None
