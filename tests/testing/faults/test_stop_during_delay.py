"""A server that stops ends the delays of requests: it waits for none of them."""

from __future__ import annotations

import httpx
import trio
from trio.testing import MockClock

from tests.settling import settled
from tests.testing.faults.injecting import injecting, on_config_maps

PATH = "/api/v1/namespaces/default/configmaps"


async def test_delayed_request_is_completed_when_the_server_stops(autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = float("inf")
    async with injecting(on_config_maps({"delay": {"seconds": 600}})) as api:
        statuses = []

        async def ask() -> None:
            api.client.timeout = httpx.Timeout(None)
            statuses.append((await api.ask("GET", PATH)).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await settled()
            api.stop.set()
        assert statuses == [200]
