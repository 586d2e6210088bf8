"""The watch history moves on during a watch: a watch behind it gets 410, one that keeps up never does."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.watch import changes, frames
from tests.gateway.api import config_map, labelled, served
from tests.gateway.watch.watching import (
    ports,
    stalling_transports,
    transports,
    type_and_name,
    versions,
    watching,
)
from tests.settling import advance, settled

BIG = "x" * 100_000


@pytest.fixture
def no_recent_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "RETAINED_BYTES", 0)
    monkeypatch.setattr(changes, "HELD_EVENTS", 1)


@pytest.mark.usefixtures("no_recent_frames")
@stalling_transports
async def test_lagging_watch_beyond_the_history_gets_410(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path, at = api.path("configmaps"), await api.head()
        async with watching(api, path, transport, stalled=True, resourceVersion=at) as watch:
            await settled()
            for number in range(12):
                await api.create("configmaps", config_map(f"c-{number:03}", big=BIG))
            api.clock.advance(301)
            newest = int((await api.create("configmaps", config_map("late")))["metadata"]["resourceVersion"])
            watch.resume()  # type: ignore[attr-defined]
            *events, error = await watch.end()
            assert 0 < len(events) < 12
            assert [type_and_name(event) for event in events] == [
                ("ADDED", f"c-{number:03}") for number in range(len(events))
            ]
            assert error["type"] == "ERROR"
            assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
            last = versions(events)[-1]
            assert error["object"]["message"] == f"too old resource version: {last} ({newest - 1})"
            assert watch.close_code in (None, 1008)


@transports
async def test_watch_that_keeps_up_never_expires(transport: str, mock_clock: MockClock) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        async with watching(api, path, transport, labelSelector="app=web") as watch:
            for number in range(5):
                # The watch is idle for long, while writes of other objects and types advance the history.
                api.clock.advance(400)
                await api.create("leases", {"metadata": {"name": f"l-{number}"}})
                await api.create("configmaps", labelled(f"other-{number}"))
                api.clock.advance(400)
                await api.create("leases", {"metadata": {"name": f"m-{number}"}})
                await api.create("configmaps", labelled(f"web-{number}", app="web"))
                assert await watch.types_and_names(1) == [("ADDED", f"web-{number}")]
                await advance(mock_clock, 20)
            assert not watch.over


@pytest.mark.usefixtures("no_recent_frames")
async def test_watch_that_lags_after_a_long_idle_time_does_not_expire() -> None:
    """Its last event is older than the history, but no change followed it: it is not behind."""
    async with served() as api:
        path = api.path("configmaps")
        async with watching(api, path, stalled=True, resourceVersion=await api.head()) as watch:
            await settled()
            for number in range(20):
                api.clock.advance(400)
                await api.create("leases", {"metadata": {"name": f"l-{number}"}})
            for number in range(12):
                await api.create("configmaps", config_map(f"c-{number:02}", big=BIG))
            watch.resume()  # type: ignore[attr-defined]
            assert await watch.types_and_names(12) == [("ADDED", f"c-{number:02}") for number in range(12)]


@pytest.mark.parametrize("transport", ["plain", "h2-window"])
async def test_initial_events_that_outlast_the_history_get_410(transport: str) -> None:
    async with served() as api:
        for number in range(12):
            await api.create("configmaps", config_map(f"c-{number:02}", big=BIG))
        async with watching(api, api.path("configmaps"), transport, stalled=True) as watch:
            await settled()
            api.clock.advance(400)
            await api.create("configmaps", config_map("late"))
            api.clock.advance(400)
            await api.create("configmaps", config_map("later"))
            watch.resume()  # type: ignore[attr-defined]
            *events, error = await watch.end()
            assert 0 < len(events) < 12
            assert error["object"]["code"] == 410
            assert "continue" not in error["object"]["metadata"]
