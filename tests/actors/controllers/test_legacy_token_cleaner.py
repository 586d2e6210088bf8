"""Generated token Secrets that nobody uses are marked invalid after a year, and deleted after another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from trio.testing import MockClock

from rewound.actors.versions.features import choose_release
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

YEAR = 366 * 86400
LAST_USED, INVALID_SINCE = "cluster.io/legacy-token-last-used", "cluster.io/legacy-token-invalid-since"
opened = partial(
    open_control_plane,
    release=choose_release("1.36"),
    enabled=frozenset({"legacy-serviceaccount-token-cleaner-controller"}),
    event_ttl=0,
)


async def make_secrets(cluster: ControlPlane, *names: str) -> None:
    listed = [{"name": name} for name in names if name != "manual"]
    await cluster.create("serviceaccounts", "robot", content={"secrets": listed})
    for name in names:
        annotations = {"cluster.io/service-account.name": "robot"}
        content = {"type": "cluster.io/service-account-token"}
        await cluster.create("secrets", name, annotations=annotations, content=content)


def labels(cluster: ControlPlane, name: str) -> dict[str, Any] | None:
    found = cluster.get("secrets", name)
    return None if found is None else found["metadata"].get("labels") or {}


async def test_unused_generated_secrets_are_marked_and_then_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path) as cluster:
        await make_secrets(cluster, "unused", "manual", "mounted")
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
        }
        await cluster.create("pods", "p", content={"spec": spec})
        await cluster.wait_until_idle(YEAR - 2 * 86400)
        assert labels(cluster, "unused") == {}
        await cluster.wait_until_idle(3 * 86400)
        marked = labels(cluster, "unused")
        assert marked and marked[INVALID_SINCE].startswith("2024-11-1")
        await cluster.wait_until_idle(YEAR + 86400)
        assert labels(cluster, "unused") is None
        assert labels(cluster, "manual") == labels(cluster, "mounted") == {}


async def test_used_secrets_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with opened(tmp_path) as cluster:
        await make_secrets(cluster, "used")
        used = cluster.get("secrets", "used")
        assert used is not None
        used["metadata"]["labels"] = {LAST_USED: "2024-06-01"}
        await cluster.replace("secrets", used)
        await cluster.wait_until_idle(YEAR + 2 * 86400)
        assert labels(cluster, "used") == {LAST_USED: "2024-06-01"}
