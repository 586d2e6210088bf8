"""A namespace whose content cannot be deleted reports why in its conditions, and is removed as soon as possible."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.errors import StorageRefused
from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

FINE = [
    ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
    ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
]


async def test_conditions_report_content_with_finalizers(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _held(cluster)
        namespace = cluster.get("namespaces", "n")
        assert namespace is not None
        assert namespace["spec"] == {"finalizers": ["kubernetes"]}
        assert namespace["status"]["phase"] == "Terminating"
        assert _summary(namespace) == [
            *FINE,
            ("NamespaceContentRemaining", "True", "SomeResourcesRemain"),
            ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain"),
        ]
        messages = [condition["message"] for condition in namespace["status"]["conditions"]]
        assert messages == [
            "All resources successfully discovered",
            "All legacy kube types successfully parsed",
            "All content successfully deleted, may be waiting on finalization",
            "Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances",
            "Some content in the namespace has finalizers remaining: "
            "example.com/one in 2 resource instances, example.com/two in 2 resource instances",
        ]
        assert cluster.get("configmaps", "a", "n") is not None
        assert cluster.get("configmaps", "free", "n") is None


async def test_namespace_is_removed_with_the_last_finalizer(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _held(cluster)
        await cluster.remove_finalizers("configmaps", "a", "n")
        await cluster.remove_finalizers("configmaps", "b", "n")
        await cluster.wait_until_idle(1)
        namespace = cluster.get("namespaces", "n")
        assert namespace is not None
        assert "secrets. has 1 resource" in namespace["status"]["conditions"][3]["message"]
        await cluster.remove_finalizers("secrets", "c", "n")
        await cluster.wait_until_idle(1)
        assert cluster.get("namespaces", "n") is None


async def test_waiting_for_finalizers_writes_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _held(cluster)
        head = cluster.journal.head
        await cluster.wait_until_idle(3600)
        assert cluster.journal.head == head


async def test_last_transition_time_changes_only_with_the_status(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await _held(cluster)
        before = _times(cluster)
        await cluster.wait_until_idle(100)
        await cluster.remove_finalizers("secrets", "c", "n")
        await cluster.wait_until_idle(1)
        assert _times(cluster) == before


async def test_failed_delete_is_reported_and_retried(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("namespaces", "n", finalizers=["example.com/one"])
        await cluster.create("configmaps", "a", namespace="n")
        await cluster.wait_until_idle()
        cluster.before_write("namespace-controller", _refuse)
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle()
        namespace = cluster.get("namespaces", "n")
        assert namespace is not None
        failure = namespace["status"]["conditions"][2]
        assert failure["status"] == "True"
        assert failure["reason"] == "ContentDeletionFailed"
        assert failure["message"] == (
            "Failed to delete all resource types, 1 remaining: the journal cannot store this change: full"
        )
        await cluster.wait_until_idle(10)
        assert cluster.names("configmaps", "n") == []
        namespace = cluster.get("namespaces", "n")
        assert namespace is not None
        assert namespace["spec"] == {}
        assert [status for _, status, _ in _summary(namespace)] == ["False"] * 5


async def _refuse() -> None:
    raise StorageRefused("full")


async def test_content_waits_for_pods_since_1_33(tmp_path: Path, autojump_clock: MockClock) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with open_control_plane(tmp_path, release=choose_release("1.33")) as cluster:
        await cluster.create("namespaces", "n")
        await cluster.create("pods", "p", namespace="n", content=pod, finalizers=["example.com/one"])
        await cluster.create("configmaps", "c", namespace="n")
        await cluster.wait_until_idle()
        await cluster.delete("namespaces", "n")
        await cluster.wait_until_idle(1)
        namespace = cluster.get("namespaces", "n")
        assert namespace is not None
        assert {status for _, status, _ in _summary(namespace)} == {"False"}
        assert cluster.get("configmaps", "c", "n") is not None
        await cluster.remove_finalizers("pods", "p", "n")
        await cluster.wait_until_idle(1)
        assert cluster.get("namespaces", "n") is None


async def _held(cluster: ControlPlane) -> None:
    await cluster.create("namespaces", "n")
    await cluster.create("configmaps", "a", namespace="n", finalizers=["example.com/one"])
    await cluster.create("configmaps", "b", namespace="n", finalizers=["example.com/one", "example.com/two"])
    await cluster.create("secrets", "c", namespace="n", finalizers=["example.com/two"])
    await cluster.create("configmaps", "free", namespace="n")
    await cluster.wait_until_idle()
    await cluster.delete("namespaces", "n")
    await cluster.wait_until_idle(1)


def _summary(namespace: Object) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in namespace["status"]["conditions"]]


def _times(cluster: ControlPlane) -> list[str]:
    namespace = cluster.get("namespaces", "n")
    assert namespace is not None
    return [condition["lastTransitionTime"] for condition in namespace["status"]["conditions"]]
