"""Discovery: what a resource below another is, where it is no object of that one's kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.api import Api, served


async def below(api: Api, path: str) -> dict[str, Any]:
    document = (await api.ask("GET", path)).expect(200)
    return {entry["name"]: entry for entry in document["resources"]}


@pytest.mark.parametrize(
    ("path", "name", "group", "kind"),
    [
        ("/api/v1", "pods/eviction", "policy", "Eviction"),
        ("/api/v1", "replicationcontrollers/scale", "autoscaling", "Scale"),
        ("/apis/apps/v1", "deployments/scale", "autoscaling", "Scale"),
    ],
)
async def test_what_has_another_group_says_so(path: str, name: str, group: str, kind: str) -> None:
    async with served() as api:
        entry = (await below(api, path))[name]
        assert (entry["group"], entry["version"], entry["kind"]) == (group, "v1", kind)


async def test_what_has_the_same_group_does_not() -> None:
    async with served() as api:
        resources = await below(api, "/api/v1")
        for name in ("pods", "pods/status", "pods/binding", "nodes/status"):
            assert "group" not in resources[name] and "version" not in resources[name]
