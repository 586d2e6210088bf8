"""Whole servers of one cluster in the test's event loop, whose journal is ordered by an etcd in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rewound.gateway.settings.cluster import ClusterSettings
from rewound.server.extensions import Extensions
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.gateway.api import Api, served

MEMORY = ClusterSettings(journal="etcd://memory:2379/test")


@asynccontextmanager
async def node(folder: Path, etcd: FakeEtcd, **changed: Any) -> AsyncIterator[Api]:
    """One server; its data is in the folder."""
    folder.mkdir(exist_ok=True)
    async with served(folder, Extensions(etcd=etcd), cluster=MEMORY, **changed) as api:
        yield api


@asynccontextmanager
async def nodes(count: int = 3, **changed: Any) -> AsyncIterator[list[Api]]:
    """Servers of one cluster. Each has its `FakeEtcd` in its extensions."""
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(node(folder / str(number), FakeEtcd(cluster), **changed))
                for number in range(count)
            ]


def etcd_of(api: Api) -> FakeEtcd:
    etcd = api.extensions.etcd
    assert isinstance(etcd, FakeEtcd)
    return etcd
