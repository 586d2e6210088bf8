"""The wall clock jumps back or far ahead: versions rise, current objects can be read, and nothing wrong is served."""

from __future__ import annotations

import pytest

from tests.gateway.api import Api, config_map, names, served
from tests.gateway.watch.watching import watching

DAY = 86400.0


async def version_of_new(api: Api, name: str) -> int:
    return int((await api.create("configmaps", config_map(name)))["metadata"]["resourceVersion"])


@pytest.mark.parametrize("seconds", [-10 * DAY, -3600.0, -1.0, 1.0, 3600.0, 10 * DAY])
async def test_a_jump_of_the_clock(seconds: float) -> None:
    async with served() as api:
        await version_of_new(api, "0")
        first = await version_of_new(api, "a")
        page = await api.list("configmaps", limit=1)
        async with watching(api, api.path("configmaps"), resourceVersion=first) as watch:
            api.clock.advance(seconds)
            second = await version_of_new(api, "b")
            assert await watch.types_and_names(1) == [("ADDED", "b")]
        assert second > first
        assert names(await api.list("configmaps"))[-2:] == ["a", "b"]
        async with watching(api, api.path("configmaps"), resourceVersion=second) as watch:
            api.clock.advance(-seconds)  # and back again
            third = await version_of_new(api, "c")
            assert await watch.types_and_names(1) == [("ADDED", "c")]
        assert third > second
        exact = {"resourceVersion": third, "resourceVersionMatch": "Exact"}
        assert names(await api.list("configmaps", **exact))[-3:] == ["a", "b", "c"]
        old = await api.ask(
            "GET", api.path("configmaps"), resourceVersion=first, resourceVersionMatch="Exact"
        )
        following = await api.ask(
            "GET", api.path("configmaps"), limit=5, **{"continue": page["metadata"]["continue"]}
        )
        for response in (old, following):
            # Whether the version has expired depends on what the clock said meanwhile.
            assert response.status in (200, 410), response.text
            if response.status == 200:
                assert not {"b", "c"}.intersection(names(response.document))
        await api.restart()
        assert names(await api.list("configmaps"))[-3:] == ["a", "b", "c"]
        assert await version_of_new(api, "d") > third
