"""The endpoints of a deleted service are deleted."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

SERVICE = {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "x.example"}}


async def start(cluster: ControlPlane) -> None:
    """A service with its endpoints, and endpoints of no service."""
    services = cluster.catalog.storage("services")
    await cluster.client.create(services, "default", services.schema.decode_object(SERVICE).object)
    for name in ("a", "b"):
        await cluster.create("endpoints", name)


async def touch(cluster: ControlPlane) -> None:
    changed = cluster.get("endpoints", "a")
    assert changed is not None
    changed["metadata"]["labels"] = {"whose": "mine"}
    await cluster.replace("endpoints", changed)


async def test_endpoints_are_deleted_with_their_service(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await start(cluster)
        await cluster.delete("services", "a")
        await cluster.wait_until_idle()
        assert cluster.names("endpoints") == ["b"]


async def test_endpoints_written_after_the_service_was_deleted_stay(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await start(cluster)
        cluster.before_write("endpoint-controller", touch, cluster)
        await cluster.delete("services", "a")
        await cluster.wait_until_idle(60)
        assert cluster.names("endpoints") == ["a", "b"]


async def test_endpoints_without_a_service_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("endpoints", "b")
    async with open_control_plane(tmp_path) as cluster:
        assert cluster.names("endpoints") == ["b"]
