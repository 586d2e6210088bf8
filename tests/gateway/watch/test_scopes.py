"""What a watch covers: one namespace, all of them, or a cluster-scoped type; on the deprecated paths too."""

from __future__ import annotations

import pytest

from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.watching import watching
from tests.settling import settled


async def write(api: Api) -> None:
    for namespace in ("one", "two"):
        await api.create("configmaps", config_map("a"), namespace)
        await api.delete("configmaps", "a", namespace)


async def in_two_namespaces(api: Api) -> str:
    for namespace in ("one", "two"):
        await api.create("namespaces", {"metadata": {"name": namespace}})
    await settled()
    return await api.head()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/namespaces/one/configmaps", ["one", "one"]),
        ("/api/v1/watch/namespaces/one/configmaps", ["one", "one"]),
        ("/api/v1/configmaps", ["one", "one", "two", "two"]),
        ("/api/v1/watch/configmaps", ["one", "one", "two", "two"]),
    ],
)
async def test_watch_covers_the_namespaces_of_its_path(path: str, expected: list[str]) -> None:
    async with served() as api:
        at = await in_two_namespaces(api)
        async with watching(api, path, resourceVersion=at, fieldSelector="metadata.name=a") as watch:
            await write(api)
            events = await watch.take(len(expected))
            assert [event["object"]["metadata"]["namespace"] for event in events] == expected
            assert [event["type"] for event in events] == ["ADDED", "DELETED"] * (len(expected) // 2)
            await settled()
            assert watch.untaken == []


async def test_field_selector_excludes_a_namespace() -> None:
    async with served() as api:
        at = await in_two_namespaces(api)
        async with watching(
            api,
            "/api/v1/configmaps",
            resourceVersion=at,
            fieldSelector="metadata.name=a,metadata.namespace!=one",
        ) as watch:
            await write(api)
            events = await watch.take(2)
            assert {event["object"]["metadata"]["namespace"] for event in events} == {"two"}


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/watch/nodes"])
async def test_watch_of_a_cluster_scoped_type(path: str) -> None:
    async with served() as api, watching(api, path) as watch:
        await api.create("nodes", {"metadata": {"name": "n"}})
        await api.delete("nodes", "n")
        assert await watch.types_and_names(2) == [("ADDED", "n"), ("DELETED", "n")]


async def test_watch_of_a_named_group() -> None:
    async with served() as api:
        path = "/apis/coordination.cluster.io/v1/watch/namespaces/default/leases"
        async with watching(api, path) as watch:
            await api.create("leases", {"metadata": {"name": "l"}})
            [event] = await watch.take(1)
            assert event["object"]["apiVersion"] == "coordination.cluster.io/v1"


async def test_watch_of_a_missing_namespace_gets_its_later_events() -> None:
    async with served() as api, watching(api, "/api/v1/namespaces/later/configmaps") as watch:
        await api.create("namespaces", {"metadata": {"name": "later"}})
        await api.create("configmaps", config_map("a"), "later")
        assert ("ADDED", "a") in await watch.types_and_names(1)


@pytest.mark.parametrize(
    "path", ["/api/v1/watch/nothings", "/apis/none.io/v1/watch/things", "/api/v1/nothings?watch=1"]
)
async def test_watch_of_an_unknown_resource_gets_404(path: str) -> None:
    async with served() as api:
        assert (await api.ask("GET", path)).status == 404
