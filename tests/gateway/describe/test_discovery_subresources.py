"""Discovery names the group and version of a subresource whose kind is in another group."""

from __future__ import annotations

from typing import Any

from tests.cases import cases
from tests.gateway.api import Api
from tests.gateway.shared_server import shared


async def resources_by_name(api: Api, path: str) -> dict[str, Any]:
    document = (await api.ask("GET", path)).expect(200)
    return {entry["name"]: entry for entry in document["resources"]}


@cases(
    ("path", "name", "group", "kind"),
    [
        ("/api/v1", "pods/eviction", "policy", "Eviction"),
        ("/api/v1", "replicationcontrollers/scale", "autoscaling", "Scale"),
        ("/apis/apps/v1", "deployments/scale", "autoscaling", "Scale"),
    ],
)
async def test_subresource_of_another_group_has_group_and_version(
    path: str, name: str, group: str, kind: str
) -> None:
    async with shared() as api:
        entry = (await resources_by_name(api, path))[name]
        assert (entry["group"], entry["version"], entry["kind"]) == (group, "v1", kind)


async def test_subresource_of_the_same_group_has_neither() -> None:
    async with shared() as api:
        resources = await resources_by_name(api, "/api/v1")
        for name in ("pods", "pods/status", "pods/binding", "nodes/status"):
            assert "group" not in resources[name] and "version" not in resources[name]
