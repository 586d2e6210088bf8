"""Watches that start in the same pass of the event loop share its time: other requests do not wait for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rewound.actors.runtime import turns
from rewound.gateway.watch.initial_events import InitialEvents
from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.http2_watches import Connection, connection

CONNECTIONS, WATCHES = 3, 4


class Passes(trio.abc.Instrument):
    """The largest number of watches that started in one pass of the event loop."""

    def __init__(self) -> None:
        self.begun = self.most = self.total = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self.begun)
        self.begun = 0


async def test_thousands_of_new_watches_begin_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, processor = Passes(), 0.0
    send_first = InitialEvents.send_first

    async def counted(self: InitialEvents, *arguments: Any) -> int | None:
        nonlocal processor
        passes.begun += 1
        passes.total += 1
        processor += 2 * turns.TURN
        return await send_first(self, *arguments)

    monkeypatch.setattr(turns, "processor_now", lambda: processor)
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        monkeypatch.setattr(InitialEvents, "send_first", counted)
        trio.lowlevel.add_instrument(passes)
        async with trio.open_nursery() as nursery:
            for _ in range(CONNECTIONS):
                nursery.start_soon(_watch, api)
        trio.lowlevel.remove_instrument(passes)
    assert passes.total == CONNECTIONS * WATCHES
    assert passes.most <= 2, "one that begins the turn, and one that had waited"


async def _watch(api: Api) -> None:
    async with connection(api) as client, trio.open_nursery() as watches:
        for _ in range(WATCHES):
            watches.start_soon(_first_event, client, api.path("configmaps"))


async def _first_event(client: Connection, path: str) -> None:
    watch = await client.watch(path)
    (event,) = await watch.take(1)
    assert event["type"] == "ADDED"
