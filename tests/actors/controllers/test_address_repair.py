"""The IPAddresses of services whose commits do not have them, as on etcd, or which somebody else has deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

ADDRESSES = "ipaddresses.networking.cluster.io"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[ControlPlane]:
    release, enabled = choose_release("1.36"), frozenset[str]()
    async with open_control_plane(
        path, release=release, enabled=enabled, networks=("10.0.0.0/16",)
    ) as cluster:
        yield cluster


def spec(*addresses: str) -> Object:
    if not addresses:
        return {"type": "ExternalName", "externalName": "a.b"}
    return {"ports": [{"port": 80}], "clusterIP": addresses[0], "clusterIPs": list(addresses)}


async def change(cluster: ControlPlane, name: str, *addresses: str) -> None:
    found = cluster.get("services", name)
    assert found is not None
    schema = cluster.catalog.storage("services").schema
    await cluster.replace("services", schema.decode_object({**found, "spec": spec(*addresses)}).object)
    await cluster.wait_until_idle()


async def test_services_gain_and_lose_addresses_with_their_changes(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as cluster:
        await cluster.create("services", "a", content={"spec": spec("10.0.0.7")})
        await cluster.wait_until_idle()
        assert cluster.names(ADDRESSES, "") == ["10.0.0.7"]
        await change(cluster, "a")
        assert cluster.names(ADDRESSES, "") == []
        await change(cluster, "a", "10.0.0.8")
        assert cluster.names(ADDRESSES, "") == ["10.0.0.8"]
        await cluster.delete("services", "a")
        await cluster.wait_until_idle()
        assert cluster.names(ADDRESSES, "") == []
    assert caplog.text == ""


async def test_deleted_address_is_created_again(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as cluster:
        await cluster.create("services", "a", content={"spec": spec("10.0.0.7")})
        await cluster.wait_until_idle()
        await cluster.delete(ADDRESSES, "10.0.0.7")
        await cluster.wait_until_idle()
        assert cluster.names(ADDRESSES, "") == ["10.0.0.7"]
    assert "the ClusterIP 10.0.0.7 of default/a is not allocated" in caplog.text
