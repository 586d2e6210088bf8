"""A watch of one object, by its path, the deprecated path or a field selector, gets only its events."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, labelled, served
from tests.gateway.watch.watching import ports, transports, type_and_name, watching
from tests.settling import settled

PATHS = [
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/watch/namespaces/default/configmaps/a",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("start", ["state", "version"])
async def test_watch_of_one_object_gets_only_its_events(path: str, start: str) -> None:
    async with served() as api:
        at = await api.head()
        for name in ("a", "aa", "b"):
            await api.create("configmaps", config_map(name))
        query = {"resourceVersion": at} if start == "version" else {}
        async with watching(api, path, **query) as watch:
            for name in ("aa", "a", "b"):
                await api.replace("configmaps", config_map(name, x="1"))
            for name in ("b", "a", "aa"):
                await api.delete("configmaps", name)
            assert await watch.types_and_names(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
            await settled()
            assert watch.untaken == []


@transports
async def test_watch_of_one_object_over_every_transport(transport: str) -> None:
    async with served(**ports(transport)) as api, watching(api, PATHS[0], transport) as watch:
        await api.create("configmaps", config_map("b"))
        await api.create("configmaps", config_map("a"))
        assert await watch.types_and_names(1) == [("ADDED", "a")]


async def test_watch_of_a_missing_object_gets_its_creation() -> None:
    async with served() as api, watching(api, PATHS[0]) as watch:
        await settled()
        assert watch.events == []
        await api.create("configmaps", config_map("a"))
        await api.delete("configmaps", "a")
        await api.create("configmaps", config_map("a"))
        assert [kind for kind, _ in map(type_and_name, await watch.take(3))] == ["ADDED", "DELETED", "ADDED"]


async def test_same_name_in_another_namespace_is_not_watched() -> None:
    async with served() as api:
        await api.create("namespaces", {"metadata": {"name": "other"}})
        async with watching(api, PATHS[0]) as watch:
            await api.create("configmaps", config_map("a"), "other")
            await api.create("configmaps", config_map("a"))
            [event] = await watch.take(1)
            assert event["object"]["metadata"]["namespace"] == "default"


async def test_watch_of_one_object_applies_selectors() -> None:
    async with served() as api:
        await api.create("configmaps", labelled("a", app="web"))
        async with (
            watching(api, PATHS[0], labelSelector="app=db") as watch,
            watching(api, PATHS[0], fieldSelector="metadata.name=a", labelSelector="app=none") as never,
        ):
            await api.replace("configmaps", labelled("a", app="db"))
            assert await watch.types_and_names(1) == [("ADDED", "a")]
            await api.create("configmaps", labelled("b", app="db"))
            await settled()
            assert never.events == []
            assert watch.untaken == []


async def test_watch_of_a_cluster_scoped_object() -> None:
    async with served() as api:
        await api.create("namespaces", {"metadata": {"name": "a"}})
        await settled()
        async with watching(api, "/api/v1/namespaces/a") as watch:
            assert await watch.types_and_names(1) == [("ADDED", "a")]
            await api.create("namespaces", {"metadata": {"name": "b"}})
            await settled()
            assert watch.untaken == []
