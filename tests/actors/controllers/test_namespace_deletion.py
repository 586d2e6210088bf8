"""A namespace that is deleted is emptied, then goes."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import Cluster, reference, world


async def test_everything_in_it_goes_and_nothing_elsewhere(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        for number in range(200):
            await cluster.create("configmaps", f"c{number}", namespace="n")
        await cluster.create("secrets", "s", namespace="n")
        await cluster.create("configmaps", "elsewhere")
        await cluster.delete("namespaces", "n")
        await cluster.settle(1)
        assert "n" not in cluster.names("namespaces", None)
        assert cluster.names("configmaps", None) == ["elsewhere"]
        assert cluster.names("secrets", None) == []


async def test_the_journal_tells_the_steps(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.settle()
        await cluster.delete("namespaces", "n")
        await cluster.settle(1)
        user = "system:serviceaccount:cluster-system:namespace-controller"
        steps = [(each.verb, each.user, each.removed) for each in cluster.events("namespaces", "n")]
        assert steps == [
            ("create", "client", False),
            ("delete", "client", False),
            ("update", user, False),
            ("update", user, True),
        ]
        gone = cluster.events("configmaps", "c")[-1]
        assert (gone.verb, gone.user, gone.removed) == ("deletecollection", user, True)


async def test_its_own_finalizers_are_left_to_those_who_set_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n", finalizers=["example.com/one"])
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.delete("namespaces", "n")
        await cluster.settle(1)
        left = cluster.get("namespaces", "n")
        assert left is not None
        assert cluster.names("configmaps", "n") == []
        assert left["spec"] == {}
        assert left["status"]["phase"] == "Terminating"
        await cluster.drop_finalizers("namespaces", "n")
        assert "n" not in cluster.names("namespaces", None)


async def test_an_object_that_slips_in_is_found(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Its create was admitted before the mark on the namespace was seen, and is stored after the emptying."""
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.settle()
        cluster.before_write("namespace-controller", _slip_in, cluster, "n")
        await cluster.delete("namespaces", "n")
        await cluster.settle(5)
        assert len(cluster.events("secrets", "late")) == 2
        assert "n" not in cluster.names("namespaces", None)
        assert cluster.names("secrets", None) == []


async def test_owners_and_dependents_in_it_go_whatever_their_order(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        owner = await cluster.create("configmaps", "o", namespace="n")
        blocking = reference(owner, blockOwnerDeletion=True)
        await cluster.create("secrets", "d", namespace="n", owners=[blocking])
        await cluster.delete("configmaps", "o", "Foreground", namespace="n")
        await cluster.delete("namespaces", "n")
        await cluster.settle(1)
        assert "n" not in cluster.names("namespaces", None)


async def test_after_a_restart_it_goes_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path, controllers=False) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.delete("namespaces", "n")
        await cluster.settle(100)
        assert cluster.names("configmaps", "n") == ["c"]
    async with world(tmp_path) as cluster:
        assert "n" not in cluster.names("namespaces", None)
        assert cluster.names("configmaps", None) == []


async def _slip_in(cluster: Cluster, namespace: str) -> None:
    with cluster.late_admission():
        await cluster.create("secrets", "late", namespace=namespace)
