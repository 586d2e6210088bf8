"""A `Webhook` for tests, with its connections closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing

from actors.access.remote.target import read_target
from actors.access.remote.webhook import Webhook


@asynccontextmanager
async def calling(file: Path) -> AsyncIterator[Webhook]:
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, trio.testing.MockClock):
        clock.autojump_threshold = (
            0.05  # seconds in which the kernel delivers what is under way between sockets
        )
    async with trio.open_nursery() as nursery:
        webhook = Webhook(read_target(file))
        nursery.start_soon(webhook.run)
        yield webhook
        nursery.cancel_scope.cancel()
