"""Deleted with its dependents orphaned, an owner goes alone, and they forget it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import reference, world


async def test_dependents_stay_without_the_reference(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner, other = [await cluster.create("configmaps", name) for name in ("o", "p")]
        for number in range(100):
            await cluster.create("secrets", f"d{number}", owners=[reference(owner)])
        await cluster.create("configmaps", "e", owners=[reference(owner), reference(other)])
        await cluster.delete("configmaps", "o", "Orphan")
        await cluster.settle(10)
        assert cluster.names("configmaps") == ["e", "p"]
        assert len(cluster.names("secrets")) == 100
        for number in range(100):
            freed = cluster.get("secrets", f"d{number}")
            assert freed is not None
            assert "ownerReferences" not in freed["metadata"]
        kept = cluster.get("configmaps", "e")
        assert kept is not None
        assert [each["name"] for each in kept["metadata"]["ownerReferences"]] == ["p"]


async def test_a_dependent_made_meanwhile_stays_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[reference(owner)])
        adopt = partial(cluster.create, "configmaps", "late", owners=[reference(owner)])
        cluster.before_write("generic-garbage-collector", adopt)
        await cluster.delete("configmaps", "o", "Orphan")
        await cluster.settle(1)
        assert cluster.names("configmaps") == ["d", "late"]


async def test_the_owner_stays_until_all_have_forgotten_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A dependent that cannot be written now must not be left with a reference to nobody: it would be deleted."""
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        changed = await cluster.create("configmaps", "d", owners=[reference(owner)])
        changed["data"] = {"k": "v"}
        cluster.before_write("generic-garbage-collector", cluster.replace, "configmaps", changed)
        await cluster.delete("configmaps", "o", "Orphan")
        await cluster.settle(10)
        assert cluster.names("configmaps") == ["d"]
        freed = cluster.get("configmaps", "d")
        assert freed is not None
        assert freed["data"] == {"k": "v"}
        assert "ownerReferences" not in freed["metadata"]
        stripped, gone = cluster.events("configmaps", "d")[-1], cluster.events("configmaps", "o")[-1]
        assert stripped.offset < gone.offset
