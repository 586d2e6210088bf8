"""Work that a client can make long (selectors, pages of initial events) is done in turns, with the same events."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import trio

from rewound.actors.runtime import turns
from rewound.actors.store.reads import Listing, ListOptions
from rewound.gateway.watch.initial_events import InitialEvents
from rewound.gateway.watch.member import Member
from tests.gateway.api import labelled, served
from tests.gateway.watch.memory_hub import FakePipe, memory_hub
from tests.gateway.watch.watching import watching

OVER = -1.0  # seconds of a turn that is always used up
PAGE = [b'{"metadata":{"name":"n-%d"}}' % number for number in range(30)]
LONG = ",".join(f"x{number}!=y" for number in range(1000))


@pytest.fixture(autouse=True)
def ended_turns(monkeypatch: pytest.MonkeyPatch, endless_turns: None) -> None:
    monkeypatch.setattr(turns, "TURN", OVER)


class OnePage:
    async def listing(self, *_: Any) -> Listing:
        return Listing(PAGE, 7)


async def test_other_tasks_run_while_a_page_of_initial_events_is_encoded() -> None:
    async with memory_hub() as base:
        pipe = FakePipe()
        initial: Any = InitialEvents(OnePage(), None, None, ListOptions())  # type: ignore[arg-type]
        passes = 0

        async def count() -> None:
            nonlocal passes
            while True:
                passes += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            version = await initial.send_first(Member(pipe, inf, base.hub), lambda body, _: body)
            nursery.cancel_scope.cancel()
        assert version == 7
        assert pipe.received == b"".join(PAGE)
        assert passes > len(PAGE) // 2


async def test_long_selector_gets_its_events() -> None:
    async with served() as api:
        path = api.path("configmaps")
        await api.create("configmaps", labelled("a", app="web"))
        await api.create("configmaps", labelled("b", x7="y"))
        at = await api.head()
        selector = f"{LONG},app"
        async with (
            watching(api, path, labelSelector=selector) as from_start,
            watching(api, path, labelSelector=selector, resourceVersion=at) as from_version,
        ):
            assert await from_start.types_and_names(1) == [("ADDED", "a")]
            await api.create("configmaps", labelled("c", app="web", x7="z"))
            await api.create("configmaps", labelled("d", app="web", x7="y"))
            await api.create("configmaps", labelled("e", app="web"))
            for watch in (from_start, from_version):
                assert await watch.types_and_names(2) == [("ADDED", "c"), ("ADDED", "e")]
