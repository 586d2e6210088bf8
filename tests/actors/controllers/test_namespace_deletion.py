"""The namespace controller deletes the content of a terminating namespace, then the namespace is removed."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference


async def test_content_is_deleted_in_this_namespace_only(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        for number in range(200):
            await cluster.create("configmaps", f"c{number}", namespace="n")
        await cluster.create("secrets", "s", namespace="n")
        await cluster.create("configmaps", "elsewhere")
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(1)
        assert "n" not in cluster.names("namespaces", None)
        assert cluster.names("configmaps", None) == ["elsewhere"]
        assert cluster.names("secrets", None) == []


async def test_journal_records_each_step_of_the_deletion(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.wait_until_idle()
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(1)
        user = "system:serviceaccount:cluster-system:namespace-controller"
        steps = [(each.verb, each.user, each.removed) for each in cluster.events("namespaces", "n")]
        assert steps == [
            ("create", "client", False),
            ("delete", "client", False),
            ("update", user, False),
            ("update", user, True),
        ]
        deletion = cluster.events("configmaps", "c")[-1]
        assert (deletion.verb, deletion.user, deletion.removed) == ("deletecollection", user, True)


async def test_finalizers_in_the_metadata_of_the_namespace_stay(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n", finalizers=["example.com/one"])
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(1)
        left = cluster.get("namespaces", "n")
        assert left is not None
        assert cluster.names("configmaps", "n") == []
        assert left["spec"] == {}
        assert left["status"]["phase"] == "Terminating"
        await cluster.remove_finalizers("namespaces", "n")
        assert "n" not in cluster.names("namespaces", None)


async def test_namespace_whose_finalizers_were_emptied_needs_a_second_delete(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """As in Kubernetes: the first delete only marks it, and the controller has nothing to finalize."""
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.empty_spec_finalizers("n")
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(100)
        left = cluster.get("namespaces", "n")
        assert left is not None and left["status"]["phase"] == "Terminating"
        assert "deletionTimestamp" in left["metadata"]
        await cluster.delete("namespaces", "n")
        assert "n" not in cluster.names("namespaces", None)


async def test_marked_namespace_without_finalizers_is_removed_by_an_update(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.empty_spec_finalizers("n")
        await cluster.delete("namespaces", "n")
        marked = cluster.get("namespaces", "n")
        assert marked is not None
        await cluster.replace("namespaces", marked)
        assert "n" not in cluster.names("namespaces", None)


async def test_object_created_after_the_content_was_deleted_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Admission allowed its create before it saw the deletionTimestamp of the namespace."""
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.wait_until_idle()
        cluster.before_write("namespace-controller", _slip_in, cluster, "n")
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(5)
        assert len(cluster.events("secrets", "late")) == 2
        assert "n" not in cluster.names("namespaces", None)
        assert cluster.names("secrets", None) == []


async def test_owners_and_dependents_are_deleted_in_any_order(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n")
        owner = await cluster.create("configmaps", "o", namespace="n")
        blocking = owner_reference(owner, blockOwnerDeletion=True)
        await cluster.create("secrets", "d", namespace="n", owners=[blocking])
        await cluster.delete("configmaps", "o", "Foreground", namespace="n")
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(1)
        assert "n" not in cluster.names("namespaces", None)


async def test_deletion_continues_after_a_restart(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(100)
        assert cluster.names("configmaps", "n") == ["c"]
    async with open_control_plane(tmp_path) as cluster:
        assert "n" not in cluster.names("namespaces", None)
        assert cluster.names("configmaps", None) == []


async def _slip_in(cluster: ControlPlane, namespace: str) -> None:
    with cluster.late_admission():
        await cluster.create("secrets", "late", namespace=namespace)
