"""With the Foreground policy, an owner is removed after the dependents that block its deletion."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import open_control_plane, owner_reference


async def test_owner_waits_for_a_blocking_dependent(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = owner_reference(owner, blockOwnerDeletion=True)
        await cluster.create("configmaps", "d", owners=[blocking], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle(100)
        waiting = cluster.get("configmaps", "o")
        assert waiting is not None
        assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert cluster.is_being_deleted("configmaps", "d")
        await cluster.remove_finalizers("configmaps", "d")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_owner_does_not_wait_for_a_dependent_that_does_not_block(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create(
            "configmaps", "d", owners=[owner_reference(owner)], finalizers=["example.com/one"]
        )
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["d"]
        assert cluster.is_being_deleted("configmaps", "d")


async def test_owner_without_dependents_is_removed_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("configmaps", "o")
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []


async def test_collector_removes_only_its_own_finalizer(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("configmaps", "o", finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle()
        left = cluster.get("configmaps", "o")
        assert left is not None
        assert left["metadata"]["finalizers"] == ["example.com/one"]


async def test_chain_of_owners_is_removed_from_the_leaf_to_the_root(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        above = await cluster.create("configmaps", "g0")
        for depth in (1, 2, 3):
            blocking = owner_reference(above, blockOwnerDeletion=True)
            above = await cluster.create("configmaps", f"g{depth}", owners=[blocking])
        await cluster.delete("configmaps", "g0", "Foreground")
        await cluster.wait_until_idle()
        removed = [cluster.events("configmaps", f"g{depth}")[-1] for depth in (3, 2, 1, 0)]
        assert all(event.removed for event in removed)
        assert [event.offset for event in removed] == sorted(event.offset for event in removed)


async def test_owner_is_removed_when_its_dependent_stops_blocking(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = owner_reference(owner, blockOwnerDeletion=True)
        await cluster.create("configmaps", "d", owners=[blocking], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle()
        changed = cluster.get("configmaps", "d")
        assert changed is not None
        changed["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
        await cluster.replace("configmaps", changed)
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["d"]


async def test_dependent_created_while_the_owner_waits_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = owner_reference(owner, blockOwnerDeletion=True)
        await cluster.create("configmaps", "d", owners=[blocking], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.create("configmaps", "late", owners=[blocking])
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == ["d", "o"]


async def test_two_objects_that_own_and_block_each_other_are_both_removed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        first = await cluster.create("configmaps", "a")
        second = await cluster.create(
            "configmaps", "b", owners=[owner_reference(first, blockOwnerDeletion=True)]
        )
        first["metadata"]["ownerReferences"] = [owner_reference(second, blockOwnerDeletion=True)]
        await cluster.replace("configmaps", first)
        await cluster.delete("configmaps", "a", "Foreground")
        await cluster.wait_until_idle(10)
        assert cluster.names("configmaps") == []


async def test_owner_is_removed_after_many_blocking_dependents(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = owner_reference(owner, blockOwnerDeletion=True)
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[blocking])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.wait_until_idle()
        assert cluster.names("configmaps") == []
        assert cluster.events("configmaps", "o")[-1].offset == cluster.journal.head
