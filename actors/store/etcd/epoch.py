"""The epoch of a node: makes sure that a transaction whose reply was lost is applied now or never.

Every transaction of a node compares the revision of the node's key with its epoch. When a reply is lost, nobody
knows whether etcd will still apply the transaction. The node puts its key again: from that revision on,
transactions of the epoch before fail. What was applied before it is known when the node has followed the log up to
there.

The key has no lease: a node that was paused goes on with its epoch. A start puts it too, so that nothing of the
process before is applied afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from rewound.actors.etcd.api import Etcd, Get, OutcomeUnknown, Put, RangeResult
from rewound.actors.store.etcd.records import Keys


@dataclass(frozen=True, slots=True)
class EpochStart:
    revision: int  # of the key of the node
    head: int  # the newest change of an object before it


class Epoch:
    def __init__(self, etcd: Etcd, keys: Keys, node: str) -> None:
        self.node = node
        self.key = keys.of_node(node)
        self._etcd = etcd
        self._head = keys.head
        self._started = EpochStart(0, 0)
        self._lock = trio.Lock()

    @property
    def revision(self) -> int:
        return self._started.revision

    async def begin_after(self, revision: int) -> EpochStart:
        """An epoch later than the given one, which may have begun already. EtcdUnavailable, EtcdRefused."""
        async with self._lock:
            while self._started.revision <= revision:
                try:
                    result = await self._etcd.txn((), (Put(self.key, b""), Get(self._head)))
                except OutcomeUnknown:
                    continue  # putting it once more does no harm
                found = result.responses[1]
                assert isinstance(found, RangeResult)
                self._started = EpochStart(result.revision, version_of(found))
            return self._started


def version_of(found: RangeResult) -> int:
    """The revision that wrote the one key of a range; 0 if it does not exist."""
    return found.kvs[0].mod_revision if found.kvs else 0
