"""Endpoints go with the service whose name they have."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.world import Cluster, world

SERVICE = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "x.example"}}


async def begin(cluster: Cluster) -> None:
    """A service with its endpoints, and endpoints of no service."""
    services = cluster.catalog.storage("services")
    await cluster.client.create(services, "default", services.schema.decode_object(SERVICE).object)
    for name in ("a", "b"):
        await cluster.create("endpoints", name)


async def touch(cluster: Cluster) -> None:
    changed = cluster.get("endpoints", "a")
    assert changed is not None
    changed["metadata"]["labels"] = {"whose": "mine"}
    await cluster.replace("endpoints", changed)


async def test_they_go_with_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await begin(cluster)
        await cluster.delete("services", "a")
        await cluster.settle()
        assert cluster.names("endpoints") == ["b"]


async def test_those_written_since_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await begin(cluster)
        cluster.before_write("endpoint-controller", touch, cluster)
        await cluster.delete("services", "a")
        await cluster.settle(60)
        assert cluster.names("endpoints") == ["a", "b"]


async def test_those_without_a_service_are_left_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with world(tmp_path) as cluster:
        await cluster.create("endpoints", "b")
    async with world(tmp_path) as cluster:
        assert cluster.names("endpoints") == ["b"]
