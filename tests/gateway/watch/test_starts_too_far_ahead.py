"""A watch from a version that is ahead opens, is silent until that version has come, and then goes on from it."""

from __future__ import annotations

from trio.testing import MockClock

from tests.gateway.api import config_map, served
from tests.gateway.idle import advance, until_idle
from tests.gateway.watch.watching import ports, transports, watching


@transports
async def test_silent_until_it_is_reached(transport: str) -> None:
    async with served(**ports(transport)) as api:
        ahead = int(await api.head()) + 3
        async with watching(api, api.path("configmaps"), transport, resourceVersion=ahead) as watch:
            for name in "abcde":
                await api.create("configmaps", config_map(name))
            assert await watch.told(2) == [("ADDED", "d"), ("ADDED", "e")]
            await until_idle()
            assert len(watch.events) == 2


async def test_silent_to_its_end_when_it_never_comes(mock_clock: MockClock) -> None:
    async with (
        served() as api,
        watching(
            api,
            api.path("configmaps"),
            resourceVersion=99999999,
            timeoutSeconds=5,
            allowWatchBookmarks="true",
        ) as watch,
    ):
        await api.create("configmaps", config_map("a"))
        await advance(mock_clock, 4)
        assert not watch.over
        await advance(mock_clock, 2)
        assert await watch.end() == []


async def test_its_client_may_leave() -> None:
    async with served() as api:
        async with watching(api, api.path("configmaps"), resourceVersion=99999999):
            await until_idle()
        await until_idle()
        await api.create("configmaps", config_map("a"))
