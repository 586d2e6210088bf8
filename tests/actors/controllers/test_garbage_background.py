"""With the Background policy, an owner is removed at once and the garbage collector then deletes its dependents."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import open_control_plane, owner_reference


async def test_dependents_of_every_kind_are_deleted_after_their_owner(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        await cluster.create("secrets", "e", owners=[owner_reference(owner)])
        await cluster.create("configmaps", "other")
        await cluster.wait_until_idle(1)
        assert cluster.names("configmaps") == ["d", "o", "other"]
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["other"]
        assert cluster.names("secrets") == []


async def test_dependents_of_dependents_are_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        above = await cluster.create("configmaps", "g0")
        for depth in range(1, 6):
            above = await cluster.create("configmaps", f"g{depth}", owners=[owner_reference(above)])
        await cluster.delete("configmaps", "g0")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_dependent_with_a_finalizer_gets_a_deletion_timestamp(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create(
            "configmaps", "d", owners=[owner_reference(owner)], finalizers=["example.com/one"]
        )
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        assert cluster.is_being_deleted("configmaps", "d")
        await cluster.remove_finalizers("configmaps", "d")
        assert cluster.names("configmaps") == []


async def test_namespaced_dependent_of_a_cluster_scoped_owner_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("namespaces", "elsewhere")
        await cluster.create("configmaps", "d", owners=[owner_reference(owner, "Namespace")])
        await cluster.wait_until_idle(1)
        assert cluster.names("configmaps") == ["d"]
        await cluster.delete("namespaces", "elsewhere")
        await cluster.wait_until_idle(1)
        assert cluster.names("configmaps") == []


async def test_journal_records_the_garbage_collector_as_user(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        last = cluster.events("configmaps", "d")[-1]
        assert last.removed
        assert last.user == "system:serviceaccount:cluster-system:generic-garbage-collector"


async def test_many_dependents_are_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[owner_reference(owner)])
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []
