"""A client may read its initial events for longer than the watch history lasts; other clients are not delayed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio

from rewound.actors.store.reads import Listing, Reads
from rewound.gateway.watch import initial_events as state
from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import watching
from tests.settling import settled

BIG = "x" * 100_000
NAMES = [f"c-{number:02}" for number in range(15)]


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
            assert await watch.types_and_names(len(NAMES)) == [("ADDED", name) for name in NAMES]
            await api.create("configmaps", config_map("later"))
            assert await watch.types_and_names(1) == [("ADDED", "later")]


@pytest.mark.parametrize("most", [1, 150_000])
async def test_pages_of_large_events_end_early(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_BYTES", most)
    monkeypatch.setattr(state, "PAGE_BYTES", 100 * len(BIG))
    async with served() as api:
        for name in NAMES:
            await api.create("configmaps", config_map(name, big=BIG))
        async with watching(api, api.path("configmaps")) as watch:
            assert await watch.types_and_names(len(NAMES)) == [("ADDED", name) for name in NAMES]


class Passes(trio.abc.Instrument):
    """The most pages that were read in one pass of the event loop."""

    def __init__(self) -> None:
        self.pages = self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self.pages)
        self.pages = 0


async def test_one_watch_reads_a_page_in_a_pass_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FIRST_PAGE", 3)
    monkeypatch.setattr(state, "LARGEST_PAGE", 3)
    passes = Passes()
    read = Reads.listing

    async def counted(self: Reads, *arguments: Any) -> Listing:
        passes.pages += bool(arguments[-1].token)
        return await read(self, *arguments)

    monkeypatch.setattr(Reads, "listing", counted)
    async with served() as api, AsyncExitStack() as stack:
        for name in NAMES:
            await api.create("configmaps", config_map(name))
        trio.lowlevel.add_instrument(passes)
        watches = [await stack.enter_async_context(watching(api, api.path("configmaps"))) for _ in range(5)]
        for watch in watches:
            assert await watch.types_and_names(len(NAMES)) == [("ADDED", name) for name in NAMES]
        trio.lowlevel.remove_instrument(passes)
    assert passes.most == 1
