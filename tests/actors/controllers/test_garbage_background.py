"""Deleted in the background, an owner goes at once and its dependents soon after."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import reference, world


async def test_dependents_of_every_kind_go_after_their_owner(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[reference(owner)])
        await cluster.create("secrets", "e", owners=[reference(owner)])
        await cluster.create("configmaps", "other")
        await cluster.settle(1)
        assert cluster.names("configmaps") == ["d", "o", "other"]
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        assert cluster.names("configmaps") == ["other"]
        assert cluster.names("secrets") == []


async def test_it_goes_on_down_the_generations(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        above = await cluster.create("configmaps", "g0")
        for depth in range(1, 6):
            above = await cluster.create("configmaps", f"g{depth}", owners=[reference(above)])
        await cluster.delete("configmaps", "g0")
        await cluster.settle()
        assert cluster.names("configmaps") == []


async def test_a_dependent_that_a_finalizer_holds_is_marked(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[reference(owner)], finalizers=["example.com/one"])
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        assert cluster.marked("configmaps", "d")
        await cluster.drop_finalizers("configmaps", "d")
        assert cluster.names("configmaps") == []


async def test_a_namespaced_object_follows_an_owner_of_the_cluster(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("namespaces", "elsewhere")
        await cluster.create("configmaps", "d", owners=[reference(owner, "Namespace")])
        await cluster.settle(1)
        assert cluster.names("configmaps") == ["d"]
        await cluster.delete("namespaces", "elsewhere")
        await cluster.settle(1)
        assert cluster.names("configmaps") == []


async def test_the_journal_says_who_did_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        await cluster.create("configmaps", "d", owners=[reference(owner)])
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        last = cluster.events("configmaps", "d")[-1]
        assert last.removed
        assert last.user == "system:serviceaccount:cluster-system:generic-garbage-collector"


async def test_many_dependents_go_together(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        owner = await cluster.create("configmaps", "o")
        for number in range(200):
            await cluster.create("configmaps", f"d{number}", owners=[reference(owner)])
        await cluster.delete("configmaps", "o")
        await cluster.settle()
        assert cluster.names("configmaps") == []
