"""With the Orphan policy, only the owner is removed, and its dependents lose their reference to it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import open_control_plane, owner_reference


async def test_dependents_stay_without_the_owner_reference(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner, other = [await cluster.create("configmaps", name) for name in ("o", "p")]
        for number in range(100):
            await cluster.create("secrets", f"d{number}", owners=[owner_reference(owner)])
        await cluster.create("configmaps", "e", owners=[owner_reference(owner), owner_reference(other)])
        await cluster.delete("configmaps", "o", "Orphan")
        await cluster.wait_until_idle(10)
        assert cluster.names("configmaps") == ["e", "p"]
        assert len(cluster.names("secrets")) == 100
        for number in range(100):
            freed = cluster.get("secrets", f"d{number}")
            assert freed is not None
            assert "ownerReferences" not in freed["metadata"]
        kept = cluster.get("configmaps", "e")
        assert kept is not None
        assert [each["name"] for each in kept["metadata"]["ownerReferences"]] == ["p"]


async def test_dependent_created_during_the_deletion_stays(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        adopt = partial(cluster.create, "configmaps", "late", owners=[owner_reference(owner)])
        cluster.before_write("generic-garbage-collector", adopt)
        await cluster.delete("configmaps", "o", "Orphan")
        await cluster.wait_until_idle(1)
        assert cluster.names("configmaps") == ["d", "late"]


async def test_owner_stays_until_no_dependent_refers_to_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A dependent that cannot be updated yet must not keep a dangling reference, because it would be deleted."""
    async with open_control_plane(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        changed = await cluster.create("configmaps", "d", owners=[owner_reference(owner)])
        changed["data"] = {"k": "v"}
        cluster.before_write("generic-garbage-collector", cluster.replace, "configmaps", changed)
        await cluster.delete("configmaps", "o", "Orphan")
        await cluster.wait_until_idle(10)
        assert cluster.names("configmaps") == ["d"]
        freed = cluster.get("configmaps", "d")
        assert freed is not None
        assert freed["data"] == {"k": "v"}
        assert "ownerReferences" not in freed["metadata"]
        stripped, removed = cluster.events("configmaps", "d")[-1], cluster.events("configmaps", "o")[-1]
        assert stripped.offset < removed.offset
