"""A server whose clock a test advances, in the event loop of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import trio

from rewound.testing.clock import AdvancingClock
from rewound.testing.controlled import WITH_CONTROLS
from tests.actors.object_store import ManualClock, memory_folder
from tests.gateway.api import Api, settings

CLOCK = "/debug/rewound/clock"


@asynccontextmanager
async def served(clock: AdvancingClock, **changed: Any) -> AsyncIterator[Api]:
    """Advance the clock; the test must run with `clock.deadlines`."""
    with memory_folder() as folder:
        async with trio.open_nursery() as nursery:
            chosen = settings(folder, enable_test_controls=True, **changed)
            api = Api(chosen, cast(ManualClock, clock), nursery, WITH_CONTROLS)
            await api.start()
            api.client.timeout = httpx.Timeout(None)  # it waits in the same event loop
            yield api
            await api.finish()
