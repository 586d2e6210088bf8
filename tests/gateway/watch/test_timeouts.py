"""timeoutSeconds ends a watch cleanly; without it the server chooses an hour or less."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.handlers.watches import DEFAULT_TIMEOUT
from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import ports, transports, watching
from tests.settling import advance, eventually


@transports
async def test_timeout_seconds_ends_the_watch(transport: str, mock_clock: MockClock) -> None:
    async with (
        served(**ports(transport)) as api,
        watching(api, api.path("configmaps"), transport, timeoutSeconds=10) as watch,
    ):
        await api.create("configmaps", config_map("a"))
        await advance(mock_clock, 9)
        await api.create("configmaps", config_map("b"))
        assert await watch.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]
        assert not watch.over
        await advance(mock_clock, 2)
        assert await watch.end() == []
        assert watch.close_code in (None, 1000)


@transports
async def test_watch_ends_on_time(transport: str, mock_clock: MockClock) -> None:
    """Also between two ticks of the watchdog."""
    async with served(**ports(transport)) as api:
        await advance(mock_clock, 0.4)
        async with watching(api, api.path("configmaps"), transport, timeoutSeconds=1) as watch:
            await advance(mock_clock, 0.6)
            await advance(mock_clock, 0.3)
            assert not watch.over
            await advance(mock_clock, 0.1)
            await eventually(lambda: watch.over)
            assert await watch.end() == []


@pytest.mark.parametrize("query", [{}, {"timeoutSeconds": 0}], ids=["unset", "zero"])
async def test_watch_without_timeout_gets_a_default_one(query: dict[str, int], mock_clock: MockClock) -> None:
    shortest, longest = DEFAULT_TIMEOUT
    async with served() as api, watching(api, api.path("configmaps"), **query) as watch:
        await advance(mock_clock, shortest - 1)
        assert not watch.over
        await advance(mock_clock, longest - shortest + 3)
        assert await watch.end() == []


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "9" * 30])
async def test_invalid_timeout_gets_400(value: str) -> None:
    async with served() as api:
        response = await api.ask("GET", api.path("configmaps"), watch=1, timeoutSeconds=value)
        assert response.expect(400)["reason"] == "BadRequest"
