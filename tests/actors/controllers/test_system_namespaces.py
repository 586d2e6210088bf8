"""The namespaces that a cluster cannot be without are there before anybody asks."""

from __future__ import annotations

from pathlib import Path

from tests.actors.controllers.world import world


async def test_they_are_made_at_the_first_start_only(tmp_path: Path) -> None:
    async with world(tmp_path, controllers=False) as cluster:
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
    async with world(tmp_path, controllers=False) as cluster:
        assert cluster.journal.head == head
