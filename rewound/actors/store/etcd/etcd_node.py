"""One node of a cluster whose journal is ordered by etcd: its services, created for an open journal.

`prepare` (copy) the journal, open it, make a `Node`, run its tasks and `follow`, then `join`
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import time_ns

from rewound.actors.etcd.api import Etcd, EtcdFull
from rewound.actors.store.committer import Committer
from rewound.actors.store.etcd.committer import Claims, EtcdCommitter
from rewound.actors.store.etcd.election import Election, Keep
from rewound.actors.store.etcd.epoch import Epoch, newest_version
from rewound.actors.store.etcd.follower import Follower
from rewound.actors.store.etcd.foreign import (
    CheckRecord,
    Foreign,
    own_account_key,
    own_cluster,
    refuse_records,
)
from rewound.actors.store.etcd.freshness import Freshness
from rewound.actors.store.etcd.records import Keys, SealedKey
from rewound.actors.store.etcd.space import Space
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

Task = tuple[str, Callable[[], Awaitable[None]]]


@dataclass(frozen=True, slots=True)
class Membership:
    """A node's identity in its cluster."""

    etcd: Etcd
    keys: Keys
    node: str  # its id, stable across restarts
    start: int  # the revision after which an empty journal follows
    account_key: SealedKey | None = None  # of the cluster, if it is in etcd
    unreadable: tuple[
        bytes, ...
    ] = ()  # keys of objects that the journal lacks because they could not be read


class Node:
    def __init__(
        self,
        member: Membership,
        journal: Journal,
        feed: Feed,
        keep: Keep,
        claims: Mapping[str, Claims],
        declared_by: str = "",
        check: CheckRecord = refuse_records,
        now: Callable[[], int] = lambda: time_ns() // 1000,
    ) -> None:
        """`declared_by`: the type whose objects each declare the type of the same name.

        `check` validates records from other programs; `now` is the time when they were found.
        """
        etcd, keys = member.etcd, member.keys
        self.member = member
        self._feed = feed
        self._local = Committer(
            journal, feed, reply_passes=2
        )  # the task of the write to etcd, then the reply
        self._epoch = Epoch(etcd, keys, member.node)
        self.space = Space(etcd, self._epoch)
        self.committer = EtcdCommitter(etcd, keys, self._epoch, journal, feed, self._local, claims)
        self.foreign = Foreign(etcd, keys, journal, feed, claims, check, now)
        self.foreign.suspect(member.unreadable)
        if (who := journal.environment.identity) is not None:
            self.foreign.guard(keys.cluster, *own_cluster(who.cluster_id, who.dialect))
        if member.account_key is not None:
            self.foreign.guard(keys.account_key, *own_account_key(member.account_key))
        self.follower = Follower(
            etcd,
            keys,
            journal,
            feed,
            self._local,
            member.start,
            self.committer.apply,
            self.committer.mark_unstored,
            self.foreign,
            declared_by,
        )
        self.freshness = Freshness(etcd, keys, feed, self._local, self.committer)
        self.committer.reads = self.freshness
        self.election = Election(etcd, keys, member.node, keep)
        self.committer.term = self.election.term
        self.committer.problem = lambda: self.follower.problem or self.space.problem
        self.committer.note_full = self.space.note

    @property
    def tasks(self) -> list[Task]:
        """The tasks that run as long as the node and are restarted when they crash, apart from `follower.run`."""
        return [
            ("committer", self._local.run),
            ("writes to etcd", self.committer.run),
            ("consistent reads", self.freshness.run),
            ("election", self.election.run),
            ("changes of others in etcd", self.foreign.run),
            ("space in etcd", self.space.run),
        ]

    async def join(self) -> None:
        """Wait until this node has everything written before. Raises EtcdUnavailable or EtcdRefused.

        If etcd is full, the node has no epoch yet: its first write begins one, as if it had lost its epoch.
        """
        try:
            head = (await self._epoch.begin_after(0)).head
        except EtcdFull as full:
            self.space.note(full)
            head = await newest_version(self.member.etcd, self.member.keys)
        await self._feed.completed(head)
