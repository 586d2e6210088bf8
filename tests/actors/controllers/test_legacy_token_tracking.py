"""A ConfigMap says since when the use of tokens in Secrets is tracked."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.names import CLUSTER
from rewound.actors.versions.features import choose_release
from tests.actors.controllers.control_plane import open_control_plane

NAME = f"{CLUSTER.server_manager}-legacy-service-account-token-tracking"


async def test_it_is_created_once_its_namespace_is_there(tmp_path: Path, autojump_clock: MockClock) -> None:
    """On etcd, the leader may run controllers before another node has created the namespaces."""
    release, enabled = choose_release("1.36"), frozenset[str]()
    async with open_control_plane(
        tmp_path, release=release, enabled=enabled, has_namespaces=False
    ) as cluster:
        assert cluster.get("configmaps", NAME, CLUSTER.system_namespace) is None
        await cluster.create_namespaces()
        await cluster.wait_until_idle(60)
        assert cluster.get("configmaps", NAME, CLUSTER.system_namespace) is not None


async def test_it_is_created_again_after_half_an_hour(tmp_path: Path, autojump_clock: MockClock) -> None:
    release, enabled = choose_release("1.36"), frozenset[str]()
    async with open_control_plane(tmp_path, release=release, enabled=enabled) as cluster:
        assert cluster.get("configmaps", NAME, CLUSTER.system_namespace) is not None
        await cluster.wait_until_idle(600)
        await cluster.delete("configmaps", NAME, namespace=CLUSTER.system_namespace)
        await cluster.wait_until_idle(1100)
        assert cluster.get("configmaps", NAME, CLUSTER.system_namespace) is None
        await cluster.wait_until_idle(101)
        assert cluster.get("configmaps", NAME, CLUSTER.system_namespace) is not None
