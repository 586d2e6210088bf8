"""Nodes without HTTP for tests: journals that follow one etcd in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.store.committer import UNCONDITIONAL, Condition
from rewound.actors.store.etcd.committer import Claims
from rewound.actors.store.etcd.copy import prepare
from rewound.actors.store.etcd.etcd_node import Membership, Node, Task
from rewound.actors.store.etcd.foreign import CheckRecord, refuse_records
from rewound.actors.store.etcd.records import Keys
from rewound.actors.store.feed import Feed
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.records import Event
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd

KEYS = Keys("/test")
FOUND_AT = 1000  # microseconds: when a node finds what another program wrote


@dataclass
class RunningNode:
    etcd: FakeEtcd
    journal: Journal
    feed: Feed
    node: Node
    published: list[Event] = field(default_factory=list)

    async def write(self, *proposals: Proposal, condition: Condition = UNCONDITIONAL) -> Exception | None:
        """Submit proposals, and wait for the outcome."""
        outcome: list[Exception | None] = []
        done = trio.Event()

        def end(failure: Exception | None) -> None:
            outcome.append(failure)
            done.set()

        self.node.committer.submit(proposals, end, condition)
        await done.wait()
        return outcome[0]

    async def read(self) -> dict[tuple[int, str, str], int]:
        """The version of every object, after a consistent read."""
        await self.node.freshness.wait()
        with self.journal.read() as view:
            return {
                (type_id, namespace, name): row.offset
                for type_id in self.journal.types().values()
                for namespace, name, row in view.rows(type_id)
            }

    def events(self) -> list[Event]:
        with self.journal.read() as view:
            return list(view.all_events(0))


@asynccontextmanager
async def running(
    cluster: FakeCluster,
    folder: Path,
    name: str = "a",
    claims: Mapping[str, Claims] | None = None,
    leading: Sequence[Task] = (),
    check: CheckRecord = refuse_records,
) -> AsyncIterator[RunningNode]:
    """`leading`: tasks that the node runs while it leads; `check`: which records of other programs are valid."""
    async with trio.open_nursery() as nursery:
        etcd = FakeEtcd(cluster, nursery)
        prepared = await prepare(etcd, KEYS, folder / name, "cluster")
        journal = Journal.open(
            folder / name, dialect="cluster", cluster_id=prepared.cluster_id, durable=False
        )
        try:
            journal.register_types(["things", "services"])
            feed = Feed(journal.head, journal)
            member = Membership(etcd, prepared.keys, name, prepared.start, unreadable=prepared.unreadable)
            node = Node(
                member, journal, feed, Supervisor().keep, claims or {}, check=check, now=lambda: FOUND_AT
            )
            node.election.lead_with(leading)
            found = RunningNode(etcd, journal, feed, node)
            feed.follow(found.published.extend)
            for _, task in node.tasks:
                nursery.start_soon(task)
            nursery.start_soon(node.follower.run)
            await node.join()
            yield found
            nursery.cancel_scope.cancel()
        finally:
            journal.close()
