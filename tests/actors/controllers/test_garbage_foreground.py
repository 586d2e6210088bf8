"""Deleted in the foreground, an owner goes after the dependents that block it."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import reference, world


async def test_it_waits_for_a_dependent_that_blocks_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = reference(owner, blockOwnerDeletion=True)
        await cluster.create("configmaps", "d", owners=[blocking], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle(100)
        waiting = cluster.get("configmaps", "o")
        assert waiting is not None
        assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert cluster.marked("configmaps", "d")
        await cluster.drop_finalizers("configmaps", "d")
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_a_dependent_that_does_not_block_is_marked_but_not_waited_for(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[reference(owner)], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle()
        assert cluster.names("configmaps") == ["d"]
        assert cluster.marked("configmaps", "d")


async def test_without_dependents_it_goes_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("configmaps", "o")
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_other_finalizers_are_left_to_those_who_set_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("configmaps", "o", finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle()
        left = cluster.get("configmaps", "o")
        assert left is not None
        assert left["metadata"]["finalizers"] == ["example.com/one"]


async def test_it_goes_from_the_leaves_to_the_root(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        above = await cluster.create("configmaps", "g0")
        for depth in (1, 2, 3):
            blocking = reference(above, blockOwnerDeletion=True)
            above = await cluster.create("configmaps", f"g{depth}", owners=[blocking])
        await cluster.delete("configmaps", "g0", "Foreground")
        await cluster.settle()
        gone = [cluster.events("configmaps", f"g{depth}")[-1] for depth in (3, 2, 1, 0)]
        assert all(event.removed for event in gone)
        assert [event.offset for event in gone] == sorted(event.offset for event in gone)


async def test_a_dependent_that_stops_blocking_releases_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = reference(owner, blockOwnerDeletion=True)
        await cluster.create("configmaps", "d", owners=[blocking], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle()
        changed = cluster.get("configmaps", "d")
        assert changed is not None
        changed["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
        await cluster.replace("configmaps", changed)
        await cluster.settle()
        assert cluster.names("configmaps") == ["d"]


async def test_a_dependent_made_while_it_waits_is_deleted_too(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = reference(owner, blockOwnerDeletion=True)
        await cluster.create("configmaps", "d", owners=[blocking], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.create("configmaps", "late", owners=[blocking])
        await cluster.settle()
        assert cluster.names("configmaps") == ["d", "o"]


async def test_two_that_own_and_block_each_other_both_go(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        first = await cluster.create("configmaps", "a")
        second = await cluster.create("configmaps", "b", owners=[reference(first, blockOwnerDeletion=True)])
        first["metadata"]["ownerReferences"] = [reference(second, blockOwnerDeletion=True)]
        await cluster.replace("configmaps", first)
        await cluster.delete("configmaps", "a", "Foreground")
        await cluster.settle(10)
        assert cluster.names("configmaps") == []


async def test_many_blocking_dependents(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        blocking = reference(owner, blockOwnerDeletion=True)
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[blocking])
        await cluster.delete("configmaps", "o", "Foreground")
        await cluster.settle()
        assert cluster.names("configmaps") == []
        assert cluster.events("configmaps", "o")[-1].offset == cluster.journal.head
