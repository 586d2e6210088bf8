"""A watch from a future version opens, sends nothing until that version is committed, and continues after it."""

from __future__ import annotations

from trio.testing import MockClock

from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import ports, transports, watching
from tests.settling import advance, settled


@transports
async def test_watch_from_a_future_version_starts_when_it_is_committed(transport: str) -> None:
    async with served(**ports(transport)) as api:
        ahead = int(await api.head()) + 3
        async with watching(api, api.path("configmaps"), transport, resourceVersion=ahead) as watch:
            for name in "abcde":
                await api.create("configmaps", config_map(name))
            assert await watch.types_and_names(2) == [("ADDED", "d"), ("ADDED", "e")]
            await settled()
            assert len(watch.events) == 2


async def test_watch_from_a_future_version_times_out_without_events(mock_clock: MockClock) -> None:
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


async def test_client_of_a_future_version_may_disconnect() -> None:
    async with served() as api:
        async with watching(api, api.path("configmaps"), resourceVersion=99999999):
            await settled()
        await settled()
        await api.create("configmaps", config_map("a"))
