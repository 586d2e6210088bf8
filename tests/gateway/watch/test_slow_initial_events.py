"""A client may take longer than the watch history to read the initial events, while nothing changes."""

from __future__ import annotations

import pytest

from rewound.gateway.watch import initial_events as state
from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import watching
from tests.settling import settled

BIG = "x" * 100_000
NAMES = [f"c-{number:02}" for number in range(60)]


@pytest.mark.parametrize("largest", [1000, 2])
async def test_initial_events_may_outlast_the_watch_history(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "LARGEST_PAGE", largest)
    async with served() as api:
        for name in NAMES:
            await api.create("configmaps", config_map(name, big=BIG))
        async with watching(api, api.path("configmaps"), stalled=True) as watch:
            await settled()
            api.clock.advance(400)
            watch.resume()  # type: ignore[attr-defined]
            assert await watch.types_and_names(60) == [("ADDED", name) for name in NAMES]
            await api.create("configmaps", config_map("later"))
            assert await watch.types_and_names(1) == [("ADDED", "later")]
