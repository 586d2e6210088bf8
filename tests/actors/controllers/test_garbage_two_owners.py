"""A dependent with several owners is deleted with its last owner."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference


async def test_dependent_loses_the_first_reference_and_is_deleted_with_the_second_owner(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _two_owners(cluster)
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle()
        assert _owners_of(cluster) == ["p"]
        await cluster.delete("configmaps", "p")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_dependent_with_another_owner_stops_blocking_foreground_deletion(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _two_owners(cluster, blockOwnerDeletion=True)
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["d", "p"]
        assert _owners_of(cluster) == ["p"]


async def test_dependent_of_two_owners_deleted_together_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _two_owners(cluster)
        for name in ("o", "p"):
            await cluster.delete("configmaps", name)
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_change_between_read_and_write_of_the_collector_is_kept(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The collector's write gets a Conflict; the retry uses the newer object."""
    async with open_control_plane(tmp_path) as cluster:
        await _two_owners(cluster)
        changed = cluster.get("configmaps", "d")
        assert changed is not None
        changed["data"] = {"k": "v"}
        cluster.before_write("generic-garbage-collector", cluster.replace, "configmaps", changed)
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle(1)
        stored = cluster.get("configmaps", "d")
        assert stored is not None
        assert stored["data"] == {"k": "v"}
        assert _owners_of(cluster) == ["p"]


async def test_dependent_that_loses_its_reference_in_time_is_not_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        changed = await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        del changed["metadata"]["ownerReferences"]
        cluster.before_write("generic-garbage-collector", cluster.replace, "configmaps", changed)
        await cluster.delete("configmaps", "o")
        await cluster.wait_until_idle(1)
        assert cluster.names("configmaps") == ["d"]


async def _two_owners(cluster: ControlPlane, **more: bool) -> None:
    owners = [await cluster.create("configmaps", name) for name in ("o", "p")]
    await cluster.create("configmaps", "d", owners=[owner_reference(owner, **more) for owner in owners])
    await cluster.wait_until_idle(1)


def _owners_of(cluster: ControlPlane) -> list[str]:
    dependent = cluster.get("configmaps", "d")
    assert dependent is not None
    return [owner["name"] for owner in dependent["metadata"]["ownerReferences"]]
