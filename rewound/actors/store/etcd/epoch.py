"""The epoch of a node: ensures that a transaction whose reply was lost is applied now or never.

Every transaction of a node compares the revision of the node's key with its epoch. When a reply is lost, nobody knows
whether etcd will still apply the transaction. The node puts its key again: from that revision on, transactions of the
earlier epoch fail. When the node has followed the log up to there, it knows which were applied before.

The key has no lease: a node that was paused continues with its epoch. A start puts it too, so that nothing of the
previous process is applied afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from rewound.actors.etcd.api import Compare, Etcd, Get, OutcomeUnknown, Put, RangeResult
from rewound.actors.store.etcd.records import Keys, encode_heads


@dataclass(frozen=True, slots=True)
class EpochStart:
    revision: int  # of the node's key
    head: int  # the version of the newest change of an object before it


class Epoch:
    def __init__(self, etcd: Etcd, keys: Keys, node: str) -> None:
        self.node = node
        self.key = keys.of_node(node)
        self._etcd = etcd
        self._head, self._keys = keys.head, keys
        self._started = EpochStart(0, 0)
        self._lock = trio.Lock()

    @property
    def revision(self) -> int:
        return self._started.revision

    async def begin_after(self, revision: int) -> EpochStart:
        """Start an epoch after the given one, unless there is one already. Raises EtcdUnavailable or EtcdRefused."""
        async with self._lock:
            while self._started.revision <= revision:
                try:
                    result = await self._etcd.txn((), (Put(self.key, b""), Get(self._head)))
                except OutcomeUnknown:
                    continue  # putting it again does no harm
                found = result.responses[1]
                assert isinstance(found, RangeResult)
                head = self._keys.version(version_of(found))
                if not head and revision:
                    head = await newest_version(self._etcd, self._keys)  # another program has deleted it
                self._started = EpochStart(result.revision, head)
            return self._started


async def newest_version(etcd: Etcd, keys: Keys) -> int:
    """The version of the newest revision that changed objects, by a linearizable read.

    Raises EtcdUnavailable or EtcdRefused.

    If another program has deleted the key that has it, no version would seem newer than what a node has. So the key is
    put again, for no change, before anything relies on it.
    """
    while True:
        if revision := version_of(await etcd.range(keys.head, keys_only=True)):
            return keys.version(revision)
        try:
            nothing = encode_heads((), keys.layout)
            await etcd.txn([Compare(keys.head, "create_revision", 0)], [Put(keys.head, nothing)])
        except OutcomeUnknown:
            continue


def version_of(found: RangeResult) -> int:
    """The revision that wrote the one key of a range; 0 if it does not exist."""
    return found.kvs[0].mod_revision if found.kvs else 0
