"""When it starts, the garbage collector handles what happened while it was not running."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import open_control_plane, owner_reference


async def test_dependents_of_an_owner_deleted_meanwhile_are_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        owner, other = [await cluster.create("configmaps", name) for name in ("o", "p")]
        await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        await cluster.create("configmaps", "e", owners=[owner_reference(owner), owner_reference(other)])
        await cluster.create("configmaps", "f", owners=[owner_reference(other)])
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle(100)
        assert cluster.names("configmaps") == ["d", "e", "f", "p"]
    async with open_control_plane(tmp_path) as cluster:
        assert cluster.names("configmaps") == ["e", "f", "p"]
        kept = cluster.get("configmaps", "e")
        assert kept is not None
        assert [each["name"] for each in kept["metadata"]["ownerReferences"]] == ["p"]
        assert len(cluster.events("configmaps", "f")) == 1


async def test_foreground_and_orphan_deletions_are_completed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        front, orphaning = [await cluster.create("configmaps", name) for name in ("front", "orphaning")]
        blocking = owner_reference(front, blockOwnerDeletion=True)
        await cluster.create("configmaps", "blocks", owners=[blocking], finalizers=["example.com/one"])
        await cluster.create("configmaps", "stays", owners=[owner_reference(orphaning)])
        await cluster.delete("configmaps", "front", "Foreground")
        await cluster.delete("configmaps", "orphaning", "Orphan")
    async with open_control_plane(tmp_path) as cluster:
        assert cluster.names("configmaps") == ["blocks", "front", "stays"]
        assert cluster.is_being_deleted("configmaps", "blocks")
        await cluster.remove_finalizers("configmaps", "blocks")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["stays"]


async def test_dependents_created_before_the_start_are_deleted_with_an_owner_deleted_after_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        owner = await cluster.create("configmaps", "o")
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[owner_reference(owner)])
    async with open_control_plane(tmp_path) as cluster:
        assert len(cluster.names("configmaps")) == 201
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_owner_deleted_during_the_initial_scan_takes_all_dependents_along(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The owner is deleted between two pages of the scan, when the index has only some of its dependents."""
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        owner = await cluster.create("configmaps", "o")
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[owner_reference(owner)])
        cluster.start_controllers()
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []
