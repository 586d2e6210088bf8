"""A watch from an exact version shows what came after it, and nothing synthetic."""

from __future__ import annotations

import pytest

from tests.gateway.api import config_map, served
from tests.gateway.idle import until_idle
from tests.gateway.watch.watching import ports, transports, watching


@transports
async def test_only_what_came_after_it(transport: str) -> None:
    async with served(**ports(transport)) as api:
        await api.create("configmaps", config_map("before"))
        at = (await api.create("configmaps", config_map("at")))["metadata"]["resourceVersion"]
        await api.create("configmaps", config_map("after"))
        async with watching(api, api.path("configmaps"), transport, resourceVersion=at) as watch:
            assert await watch.told(1) == [("ADDED", "after")]
            await api.replace("configmaps", config_map("before", x="1"))
            await api.delete("configmaps", "at")
            assert await watch.told(2) == [("MODIFIED", "before"), ("DELETED", "at")]
            await until_idle()
            assert watch.untaken == []


async def test_the_newest_version_is_silent_until_something_happens() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        async with watching(api, api.path("configmaps"), resourceVersion=await api.head()) as watch:
            await until_idle()
            assert watch.events == []
            await api.create("configmaps", config_map("b"))
            assert await watch.told(1) == [("ADDED", "b")]


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "0x1", "9" * 30])
async def test_what_is_no_version_is_refused_before_the_stream(bad: str) -> None:
    async with served() as api:
        answer = await api.ask("GET", api.path("configmaps"), watch=1, resourceVersion=bad)
        assert answer.expect(400)["reason"] == "BadRequest"
