"""Lists that start in the same pass of the event loop share its time: other requests do not wait for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rewound.actors.runtime import turns
from rewound.actors.store.reads import ListReader
from tests.gateway.api import Api, config_map, served

LISTS = 8


class Passes(trio.abc.Instrument):
    """The largest number of lists that started in one pass of the event loop."""

    def __init__(self) -> None:
        self.steps = self.most = self.taken = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self.steps)
        self.steps = 0


async def test_first_steps_of_many_lists_are_taken_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, processor = Passes(), 0.0
    step = ListReader.step

    def counted(self: ListReader, *arguments: Any) -> list[bytes]:
        nonlocal processor
        passes.steps += 1
        passes.taken += 1
        processor += 2 * turns.TURN  # as long as a step of a large list may take
        return step(self, *arguments)

    monkeypatch.setattr(turns, "processor_now", lambda: processor)
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        monkeypatch.setattr(ListReader, "step", counted)
        await _ask_together(api, "/version")  # opens the connections
        trio.lowlevel.add_instrument(passes)
        await _ask_together(api, api.path("configmaps"))
        trio.lowlevel.remove_instrument(passes)
    assert passes.taken == LISTS
    assert passes.most <= 2, "one that begins the turn, and one that had waited"


async def _ask_together(api: Api, path: str) -> None:
    async def ask() -> None:
        (await api.ask("GET", path)).expect(200)

    async with trio.open_nursery() as nursery:
        for _ in range(LISTS):
            nursery.start_soon(ask)
