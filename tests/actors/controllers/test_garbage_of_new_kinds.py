"""The garbage collector handles kinds that are registered while the server runs, as owners and as dependents."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.store.document import decode
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference
from tests.actors.kinds.crontabs import TYPE, crontabs


async def create(
    cluster: ControlPlane, kind: Definition, name: str, owners: list[Object] | None = None
) -> Object:
    metadata: Object = {"name": name, "ownerReferences": owners} if owners else {"name": name}
    made = kind.schema.decode_object({"metadata": metadata}).object
    return decode(await cluster.client.create(kind, "default", made))


async def test_dependents_of_an_owner_of_a_new_kind_are_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.registry.register(kind := crontabs())
        owner = await create(cluster, kind, "owner")
        owned = {**owner_reference(owner, "CronTab"), "apiVersion": kind.api_version}
        await cluster.create("configmaps", "dependent", owners=[owned])
        await cluster.client.delete(kind, "default", "owner", DeleteOptions(propagation_policy="Background"))
        await cluster.wait_until_idle(10)
        assert cluster.names("configmaps") == []


async def test_references_to_an_unknown_kind_are_resolved_when_it_is_registered(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        kind = crontabs()
        gone = {"apiVersion": kind.api_version, "kind": "CronTab", "name": "gone", "uid": "u-1"}
        await cluster.create("configmaps", "dependent", owners=[gone])
        await cluster.wait_until_idle(60)
        assert cluster.names("configmaps") == ["dependent"]
        await cluster.registry.register(kind)
        await cluster.wait_until_idle(10)
        assert cluster.names("configmaps") == []


async def test_objects_stored_before_their_kind_is_registered_are_scanned(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.registry.register(kind := crontabs())
        owner = await cluster.create("configmaps", "owner")
        await create(cluster, kind, "dependent", [owner_reference(owner)])
        cluster.registry.remove(TYPE)
        cluster.start_controllers()
        await cluster.wait_until_idle(1)
        await cluster.registry.register(kind)
        await cluster.wait_until_idle(1)
        await cluster.delete("configmaps", "owner")
        await cluster.wait_until_idle(10)
        assert cluster.names(TYPE) == []
