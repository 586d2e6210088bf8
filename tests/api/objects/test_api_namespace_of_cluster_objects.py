"""A namespace in the body of a cluster-scoped object is removed, for every verb."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.api import served

NODES = "/api/v1/nodes"
MISPLACED: dict[str, Any] = {"metadata": {"name": "a", "namespace": "elsewhere", "labels": {"l": "m"}}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (NODES, MISPLACED),
        ("/api/v1/namespaces", MISPLACED),
        ("/apis/storage.cluster.io/v1/storageclasses", {**MISPLACED, "provisioner": "example.com/p"}),
    ],
)
async def test_create_drops_the_namespace(path: str, body: dict[str, Any]) -> None:
    async with served() as api:
        assert "namespace" not in (await api.ask("POST", path, body)).expect(201)["metadata"]
        assert "namespace" not in (await api.ask("GET", f"{path}/a")).expect(200)["metadata"]


async def test_replace_drops_the_namespace() -> None:
    async with served() as api:
        await api.create("nodes", {"metadata": {"name": "a"}})
        node = (await api.ask("PUT", f"{NODES}/a", MISPLACED)).expect(200)
        assert "namespace" not in node["metadata"] and node["metadata"]["labels"] == {"l": "m"}


@pytest.mark.parametrize("format_", ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"])
async def test_patch_drops_the_namespace(format_: str) -> None:
    async with served() as api:
        await api.create("nodes", {"metadata": {"name": "a"}})
        headers = {"Content-Type": f"application/{format_}"}
        body = {"apiVersion": "v1", "kind": "Node", **MISPLACED}
        response = await api.ask("PATCH", f"{NODES}/a", body, headers=headers, fieldManager="m")
        node = response.expect(200)
        assert "namespace" not in node["metadata"] and node["metadata"]["labels"] == {"l": "m"}


async def test_apply_drops_the_namespace() -> None:
    async with served() as api:
        headers = {"Content-Type": "application/apply-patch+yaml"}
        body = {"apiVersion": "v1", "kind": "Node", **MISPLACED}
        node = (await api.ask("PATCH", f"{NODES}/a", body, headers=headers, fieldManager="m")).expect(201)
        assert "namespace" not in node["metadata"]
