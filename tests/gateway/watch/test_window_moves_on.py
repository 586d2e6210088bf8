"""The watch history moves on under an open watch: one that is behind it gets 410, one that is not never does."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from gateway.watch import changes, frames
from tests.gateway.api import config_map, labelled, served
from tests.gateway.idle import advance, until_idle
from tests.gateway.watch.watching import ports, told, transports, versions, watching

BIG = "x" * 100_000


@transports
async def test_a_lagging_watch_is_told_and_ended(transport: str) -> None:
    async with served(**ports(transport)) as api:
        path, at = api.path("configmaps"), await api.head()
        async with watching(api, path, transport, stalled=True, resourceVersion=at) as watch:
            await until_idle()
            for number in range(120):
                await api.create("configmaps", config_map(f"c-{number:03}", big=BIG))
            api.clock.advance(301)
            newest = int((await api.create("configmaps", config_map("late")))["metadata"]["resourceVersion"])
            watch.resume()  # type: ignore[attr-defined]
            *events, error = await watch.end()
            assert 0 < len(events) < 120
            assert [told(event) for event in events] == [
                ("ADDED", f"c-{number:03}") for number in range(len(events))
            ]
            assert error["type"] == "ERROR"
            assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
            last = versions(events)[-1]
            assert error["object"]["message"] == f"too old resource version: {last} ({newest - 1})"
            assert watch.close_code in (None, 1008)


@transports
async def test_a_healthy_watch_never_notices(transport: str, mock_clock: MockClock) -> None:
    async with served(**ports(transport)) as api:
        path = api.path("configmaps")
        async with watching(api, path, transport, labelSelector="app=web") as watch:
            for number in range(5):
                # Long silences for this watch, while other objects and other types move the window on.
                api.clock.advance(400)
                await api.create("leases", {"metadata": {"name": f"l-{number}"}})
                await api.create("configmaps", labelled(f"other-{number}"))
                api.clock.advance(400)
                await api.create("leases", {"metadata": {"name": f"m-{number}"}})
                await api.create("configmaps", labelled(f"web-{number}", app="web"))
                assert await watch.told(1) == [("ADDED", f"web-{number}")]
                await advance(mock_clock, 20)
            assert not watch.over


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "KEPT_BYTES", 0)
    monkeypatch.setattr(changes, "KEPT_EVENTS", 1)


@pytest.mark.usefixtures("nothing_kept")
async def test_one_that_falls_behind_after_a_long_silence_is_not_expired() -> None:
    """Its last event is older than the window, but nothing has happened since: it is behind by moments only."""
    async with served() as api:
        path = api.path("configmaps")
        async with watching(api, path, stalled=True, resourceVersion=await api.head()) as watch:
            await until_idle()
            for number in range(20):
                api.clock.advance(400)
                await api.create("leases", {"metadata": {"name": f"l-{number}"}})
            for number in range(60):
                await api.create("configmaps", config_map(f"c-{number:02}", big=BIG))
            watch.resume()  # type: ignore[attr-defined]
            assert await watch.told(60) == [("ADDED", f"c-{number:02}") for number in range(60)]


async def test_a_beginning_that_takes_longer_than_the_window_is_too_old() -> None:
    async with served() as api:
        for number in range(60):
            await api.create("configmaps", config_map(f"c-{number:02}", big=BIG))
        async with watching(api, api.path("configmaps"), stalled=True) as watch:
            await until_idle()
            api.clock.advance(400)
            await api.create("configmaps", config_map("late"))
            api.clock.advance(400)
            await api.create("configmaps", config_map("later"))
            watch.resume()  # type: ignore[attr-defined]
            *events, error = await watch.end()
            assert 0 < len(events) < 60
            assert error["object"]["code"] == 410
            assert "continue" not in error["object"]["metadata"]
