"""A watch from an exact version gets the events after it, and no synthetic ones."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import ports, transports, watching
from tests.settling import settled


@transports
async def test_watch_from_a_version_gets_only_later_events(transport: str) -> None:
    async with served(**ports(transport)) as api:
        await api.create("configmaps", config_map("before"))
        at = (await api.create("configmaps", config_map("at")))["metadata"]["resourceVersion"]
        await api.create("configmaps", config_map("after"))
        async with watching(api, api.path("configmaps"), transport, resourceVersion=at) as watch:
            assert await watch.types_and_names(1) == [("ADDED", "after")]
            await api.replace("configmaps", config_map("before", x="1"))
            await api.delete("configmaps", "at")
            assert await watch.types_and_names(2) == [("MODIFIED", "before"), ("DELETED", "at")]
            await settled()
            assert watch.untaken == []


async def test_watch_from_the_newest_version_gets_the_next_event() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        async with watching(api, api.path("configmaps"), resourceVersion=await api.head()) as watch:
            await settled()
            assert watch.events == []
            await api.create("configmaps", config_map("b"))
            assert await watch.types_and_names(1) == [("ADDED", "b")]


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "0x1", "9" * 30])
async def test_invalid_version_gets_400(bad: str) -> None:
    async with served() as api:
        response = await api.ask("GET", api.path("configmaps"), watch=1, resourceVersion=bad)
        assert response.expect(400)["reason"] == "BadRequest"
