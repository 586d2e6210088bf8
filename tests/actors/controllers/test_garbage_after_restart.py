"""What happened while the collector was not looking is put in order when it starts."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import reference, world


async def test_dependents_of_an_owner_that_went_meanwhile(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path, controllers=False) as cluster:
        owner, other = [await cluster.create("configmaps", name) for name in ("o", "p")]
        await cluster.create("configmaps", "d", owners=[reference(owner)])
        await cluster.create("configmaps", "e", owners=[reference(owner), reference(other)])
        await cluster.create("configmaps", "f", owners=[reference(other)])
        await cluster.delete("configmaps", "o")
        await cluster.settle(100)
        assert cluster.names("configmaps") == ["d", "e", "f", "p"]
    async with world(tmp_path) as cluster:
        assert cluster.names("configmaps") == ["e", "f", "p"]
        kept = cluster.get("configmaps", "e")
        assert kept is not None
        assert [each["name"] for each in kept["metadata"]["ownerReferences"]] == ["p"]
        assert len(cluster.events("configmaps", "f")) == 1


async def test_owners_that_were_waiting(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path, controllers=False) as cluster:
        front, orphaning = [await cluster.create("configmaps", name) for name in ("front", "orphaning")]
        blocking = reference(front, blockOwnerDeletion=True)
        await cluster.create("configmaps", "blocks", owners=[blocking], finalizers=["example.com/one"])
        await cluster.create("configmaps", "stays", owners=[reference(orphaning)])
        await cluster.delete("configmaps", "front", "Foreground")
        await cluster.delete("configmaps", "orphaning", "Orphan")
    async with world(tmp_path) as cluster:
        assert cluster.names("configmaps") == ["blocks", "front", "stays"]
        assert cluster.marked("configmaps", "blocks")
        await cluster.drop_finalizers("configmaps", "blocks")
        await cluster.settle()
        assert cluster.names("configmaps") == ["stays"]


async def test_dependents_written_before_the_start_follow_an_owner_deleted_after_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path, controllers=False) as cluster:
        owner = await cluster.create("configmaps", "o")
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[reference(owner)])
    async with world(tmp_path) as cluster:
        assert len(cluster.names("configmaps")) == 201
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_what_happens_while_it_catches_up(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The owner goes between two slices of the scan: some dependents are known then, some are not."""
    async with world(tmp_path, controllers=False) as cluster:
        owner = await cluster.create("configmaps", "o")
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[reference(owner)])
        cluster.begin_controllers()
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        assert cluster.names("configmaps") == []
