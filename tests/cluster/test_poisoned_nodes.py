"""Nodes of a cluster on etcd whose records have poisoned objects of every kind, as an older node may have written them:
each node starts, and serves, changes and deletes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from rewound.actors.names import KUBERNETES
from rewound.actors.store.document import EMPTY_VERSION
from rewound.actors.store.proposal import Proposal
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.gateway.api import Api, config_map
from tests.gateway.nodes import node
from tests.robustness.poison import Poison, facts, poisons
from tests.robustness.test_poisoned_objects import (
    NAMESPACE,
    SETTINGS,
    check_health,
    check_lists,
    check_objects,
    is_json,
)


async def commit(api: Api, one: Poison) -> None:
    """Store an object as it is, which no client of the API can."""
    assert api.store is not None
    done, failures = trio.Event(), list[Exception | None]()

    def end(failure: Exception | None) -> None:
        failures.append(failure)
        done.set()

    proposal = Proposal(
        type_id=api.store.journal.type_id(one.type_name),
        verb="create",
        namespace=one.namespace,
        name=one.name,
        previous=0,
        removed=False,
        time=api.clock.now(),
        user="foreign",
        manager="foreign",
        facts=facts(one),
        body=one.body,
    )
    api.store.committer.submit([proposal], end)
    await done.wait()
    assert failures == [None]


async def is_ready(api: Api) -> None:
    with trio.fail_after(120):
        while (await api.ask("GET", "/readyz")).status != 200:
            await trio.sleep(0.05)


async def check(found: Sequence[Poison], cluster: FakeCluster, api: Api, other: str) -> None:
    for one in found:
        await commit(api, one)
    with memory_folder() as folder:
        async with node(folder / other, FakeEtcd(cluster), **SETTINGS) as fresh:
            await is_ready(fresh)
            await check_health(fresh)
            (await fresh.ask("POST", f"{NAMESPACE}/secrets", config_map("healthy"))).expect(201)
            assert not await check_lists(fresh)
            assert not await check_objects(fresh, found)
            await check_health(fresh)


async def check_nodes(count: int, seed: int) -> None:
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with node(folder / "a", FakeEtcd(cluster), **SETTINGS) as api:
            assert api.store is not None
            found = [
                one
                for one in poisons(api.store.registry.current, KUBERNETES, count, seed)
                if is_json(one) and EMPTY_VERSION in one.body  # nodes put the others into quarantine
            ]
            await check(found, cluster, api, "b")


async def test_new_node_serves_them() -> None:
    await check_nodes(3, 61)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_new_node_serves_many(seed: int) -> None:
    await check_nodes(24, 300 + seed)
