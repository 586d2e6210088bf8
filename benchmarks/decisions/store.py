"""Journal, committer and actors without HTTP, and the CPU time of writes through them.

The journal is in memory where the machine has such a folder, because durability is not what is compared. A write
is decoding, the actor's mailbox, admission, validation, `decide`, the commit and the reply; writes go in batches of
16, as from 16 connections.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import trio

from benchmarks.decisions.measure import Effort, show
from benchmarks.decisions.samples import CATALOG, definition
from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.built_in import plugins
from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.selection import OFF_BY_DEFAULT
from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Command, Create, Patch
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.large_work import LargeWork
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

TOGETHER = 16
BATCHES = 5


class Clock:
    def now(self) -> int:
        return time.time_ns() // 1000


class Store:
    def __init__(self, directory: Directory, contexts: WriteContexts, admission: Admission) -> None:
        self._directory = directory
        self.admission = admission
        self._contexts = contexts
        self._numbers = count()

    def create(self, plural: str, document: Any) -> Callable[[], Command]:
        """Makes commands that create further objects like `document`, each from the bytes of a body."""
        kind = definition(plural)
        raw = orjson.dumps({**document, "metadata": {**document["metadata"], "name": "@@"}})
        namespace = "default" if kind.namespaced else ""

        def make() -> Command:
            body = raw.replace(b"@@", b"o%d" % next(self._numbers))
            decoded = kind.schema.decode_json(body).object
            return Create(kind.api_version, namespace, decoded, self._contexts.new("user", "manager"))

        return make

    def patch(self, plural: str, name: str) -> Callable[[], Command]:
        """Makes commands that change one value of one object."""
        kind = definition(plural)

        def make() -> Command:
            value = {"data": {"payload": str(next(self._numbers))}}
            return Patch(
                kind.api_version, "default", name, "merge", value, self._contexts.new("user", "manager")
            )

        return make

    async def send(self, plural: str, make: Callable[[], Command], writes: int) -> None:
        kind = definition(plural)

        async def one() -> None:
            await self._directory.ask(kind, make())

        for start in range(0, writes, TOGETHER):
            async with trio.open_nursery() as nursery:
                for _ in range(min(TOGETHER, writes - start)):
                    nursery.start_soon(one)

    async def compare(
        self,
        title: str,
        plural: str,
        make: Callable[[], Command],
        alternatives: dict[str, Callable[[], None]],
        effort: Effort,
    ) -> None:
        """CPU of one write, with what each alternative sets up before its rounds."""
        best = dict.fromkeys(alternatives, float("inf"))
        writes = 1 if effort.quick else TOGETHER * BATCHES
        for _ in range(effort.rounds):
            for name, set_up in alternatives.items():
                set_up()
                begin = time.process_time()
                await self.send(plural, make, writes)
                best[name] = min(best[name], (time.process_time() - begin) / writes)
        show(title, {name: seconds * 1e6 for name, seconds in best.items()}, "us")


@asynccontextmanager
async def stored() -> AsyncIterator[Store]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        journal = Journal.open(Path(folder) / "journal")
        try:
            async with trio.open_nursery() as nursery:
                yield await _start(journal, nursery)
                nursery.cancel_scope.cancel()
        finally:
            journal.close()


async def _start(journal: Journal, nursery: trio.Nursery) -> Store:
    journal.register_types(CATALOG.stored_types())
    feed, contexts = Feed(journal.head, journal), WriteContexts(Clock())
    committer = Committer(journal, feed)
    registry = Registry(CATALOG, committer.register_types)
    rbac = Rbac(stored_policy(CLUSTER, journal, feed))
    available = plugins(PluginContext(CLUSTER, journal, feed, AlwaysAllow(), rbac))
    admission = Admission([one for one in available if one.name not in OFF_BY_DEFAULT])
    nursery.start_soon(committer.run)
    shared = ActorContext(journal, committer, admission, AdmissionCalls(), LargeWork(), nursery)
    directory = Directory(registry, Supervisor(), nursery, shared)
    bootstrap = Bootstrap(CLUSTER, CATALOG, journal, directory, contexts)
    await bootstrap.create_namespaces()
    return Store(directory, contexts, admission)
