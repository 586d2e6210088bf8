"""The status of a quota has its limits and the usage of its namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trio.testing import MockClock

from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

HARD = {"configmaps": "9", "pods": "3", "requests.cpu": "2"}
POD = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}}


def status(cluster: ControlPlane) -> Any:
    quota = cluster.get("resourcequotas", "q")
    assert quota is not None
    return quota["status"]


def used(configmaps: str, pods: str, cpu: str) -> dict[str, str]:
    return {"configmaps": configmaps, "pods": pods, "requests.cpu": cpu}


async def test_status_follows_what_is_stored(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("configmaps", "a")
        await cluster.create("resourcequotas", "q", content={"spec": {"hard": HARD}})
        await cluster.wait_until_idle(1)
        assert status(cluster) == {"hard": HARD, "used": used("1", "0", "0")}
        await cluster.create("configmaps", "b")
        await cluster.create("pods", "p", content=POD)
        await cluster.wait_until_idle(1)
        assert status(cluster)["used"] == used("2", "1", "500m")
        await cluster.delete("configmaps", "a")
        await cluster.delete("pods", "p")
        await cluster.wait_until_idle(1)
        assert status(cluster)["used"] == used("1", "0", "0")


async def test_status_follows_the_spec(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("resourcequotas", "q", content={"spec": {"hard": HARD}})
        await cluster.wait_until_idle(1)
        quota = cluster.get("resourcequotas", "q")
        assert quota is not None
        quota["spec"]["hard"] = {"secrets": "1"}
        await cluster.replace("resourcequotas", quota)
        await cluster.wait_until_idle(1)
        assert status(cluster) == {"hard": {"secrets": "1"}, "used": {"secrets": "0"}}
        versions = len(cluster.events("resourcequotas", "q"))
        await cluster.wait_until_idle(600)
        assert len(cluster.events("resourcequotas", "q")) == versions


async def test_status_of_a_client_is_corrected_within_five_minutes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("resourcequotas", "q", content={"spec": {"hard": HARD}})
        await cluster.wait_until_idle(1)
        before = status(cluster)
        quota = cluster.get("resourcequotas", "q")
        assert quota is not None
        quota["status"]["hard"] = {"secrets": "7"}
        await cluster.client.replace(cluster.catalog.storage("resourcequotas"), quota, "status")
        await cluster.wait_until_idle(1)
        assert status(cluster) != before
        await cluster.wait_until_idle(300)
        assert status(cluster) == before


async def test_restarted_controller_counts_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("resourcequotas", "q", content={"spec": {"hard": HARD}})
        await cluster.wait_until_idle(1)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create("configmaps", "a")
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(1)
        assert status(cluster)["used"] == used("1", "0", "0")


async def test_pod_that_stays_deleted_leaves_the_status(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create("resourcequotas", "q", content={"spec": {"hard": {"pods": "3"}}})
        content = {"spec": {**POD["spec"], "nodeName": "n"}}
        await cluster.create("pods", "p", content=content)
        await cluster.wait_until_idle(1)
        await cluster.delete("pods", "p")
        await cluster.wait_until_idle(50)
        assert status(cluster)["used"] == {"pods": "1"}
        await cluster.wait_until_idle(20)
        assert status(cluster)["used"] == {"pods": "0"}
