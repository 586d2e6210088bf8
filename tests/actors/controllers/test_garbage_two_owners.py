"""A dependent of several owners outlives those that go before the last."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import Cluster, reference, world


async def test_it_loses_the_first_reference_and_goes_with_the_second(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await _two_owners(cluster)
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        assert _owners_of(cluster) == ["p"]
        await cluster.delete("configmaps", "p")
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_an_owner_that_waits_for_it_is_let_off(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await _two_owners(cluster, blockOwnerDeletion=True)
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle()
        assert cluster.names("configmaps") == ["d", "p"]
        assert _owners_of(cluster) == ["p"]


async def test_both_owners_gone_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await _two_owners(cluster)
        for name in ("o", "p"):
            await cluster.delete("configmaps", name)
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_a_change_between_reading_and_writing_is_kept(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The collector's write is refused, and made again on the newer object."""
    async with world(tmp_path) as cluster:
        await _two_owners(cluster)
        changed = cluster.get("configmaps", "d")
        assert changed is not None
        changed["data"] = {"k": "v"}
        cluster.before_write("generic-garbage-collector", cluster.replace, "configmaps", changed)
        await cluster.delete("configmaps", "o")
        await cluster.settle(1)
        stored = cluster.get("configmaps", "d")
        assert stored is not None
        assert stored["data"] == {"k": "v"}
        assert _owners_of(cluster) == ["p"]


async def test_an_object_rescued_in_time_is_not_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        changed = await cluster.create("configmaps", "d", owners=[reference(owner)])
        del changed["metadata"]["ownerReferences"]
        cluster.before_write("generic-garbage-collector", cluster.replace, "configmaps", changed)
        await cluster.delete("configmaps", "o")
        await cluster.settle(1)
        assert cluster.names("configmaps") == ["d"]


async def _two_owners(cluster: Cluster, **more: bool) -> None:
    owners = [await cluster.create("configmaps", name) for name in ("o", "p")]
    await cluster.create("configmaps", "d", owners=[reference(owner, **more) for owner in owners])
    await cluster.settle(1)


def _owners_of(cluster: Cluster) -> list[str]:
    dependent = cluster.get("configmaps", "d")
    assert dependent is not None
    return [owner["name"] for owner in dependent["metadata"]["ownerReferences"]]
