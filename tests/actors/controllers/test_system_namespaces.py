"""Bootstrap creates the system namespaces."""

from __future__ import annotations

from pathlib import Path

from tests.actors.controllers.control_plane import open_control_plane


async def test_system_namespaces_are_created_at_the_first_start_only(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        assert cluster.names("namespaces", None) == [
            "cluster-node-lease",
            "cluster-public",
            "cluster-system",
            "default",
        ]
        default = cluster.get("namespaces", "default")
        assert default is not None
        assert default["metadata"]["labels"] == {"cluster.io/metadata.name": "default"}
        assert default["spec"] == {"finalizers": ["kubernetes"]}
        assert default["status"] == {"phase": "Active"}
        head = cluster.journal.head
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        assert cluster.journal.head == head
