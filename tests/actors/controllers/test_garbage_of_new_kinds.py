"""The garbage collector knows the kinds that come while the server runs, as owners and as dependents."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from actors.kinds.declaration.definition import Definition
from actors.messages import DeleteOptions, Object
from actors.store.document import decode
from tests.actors.controllers.world import Cluster, reference, world
from tests.actors.kinds.crontabs import TYPE, crontabs


async def create(cluster: Cluster, kind: Definition, name: str, owners: list[Object] | None = None) -> Object:
    metadata: Object = {"name": name, "ownerReferences": owners} if owners else {"name": name}
    made = kind.schema.decode_object({"metadata": metadata}).object
    return decode(await cluster.client.create(kind, "default", made))


async def test_dependents_of_a_new_kind_follow_their_owner(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.registry.register(kind := crontabs())
        owner = await create(cluster, kind, "owner")
        owned = {**reference(owner, "CronTab"), "apiVersion": kind.api_version}
        await cluster.create("configmaps", "dependent", owners=[owned])
        await cluster.client.delete(kind, "default", "owner", DeleteOptions(propagation_policy="Background"))
        await cluster.settle(10)
        assert cluster.names("configmaps") == []


async def test_references_to_an_unknown_kind_are_judged_when_it_comes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        kind = crontabs()
        gone = {"apiVersion": kind.api_version, "kind": "CronTab", "name": "gone", "uid": "u-1"}
        await cluster.create("configmaps", "dependent", owners=[gone])
        await cluster.settle(60)
        assert cluster.names("configmaps") == ["dependent"]
        await cluster.registry.register(kind)
        await cluster.settle(10)
        assert cluster.names("configmaps") == []


async def test_objects_that_were_stored_before_their_kind_came_are_scanned(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path, controllers=False) as cluster:
        await cluster.registry.register(kind := crontabs())
        owner = await cluster.create("configmaps", "owner")
        await create(cluster, kind, "dependent", [reference(owner)])
        cluster.registry.remove(TYPE)
        cluster.begin_controllers()
        await cluster.settle(1)
        await cluster.registry.register(kind)
        await cluster.settle(1)
        await cluster.delete("configmaps", "owner")
        await cluster.settle(10)
        assert cluster.names(TYPE) == []
