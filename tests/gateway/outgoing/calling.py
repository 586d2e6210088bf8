"""Opens a client for a webhook, and closes its connections at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import trio
import trio.testing

from rewound.actors.access.remote.target import read_target
from rewound.actors.golang.json import dumps
from rewound.gateway.outgoing.webhook import HttpsWebhook


@asynccontextmanager
async def calling(file: Path) -> AsyncIterator[HttpsWebhook]:
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, trio.testing.MockClock):
        clock.autojump_threshold = (
            0.05  # seconds in which the kernel delivers what is under way between sockets
        )
    async with trio.open_nursery() as nursery:
        webhook = HttpsWebhook(read_target(file))
        nursery.start_soon(webhook.run)
        yield webhook
        nursery.cancel_scope.cancel()


async def post(webhook: HttpsWebhook, document: Any) -> Any:
    """The document that the webhook responds with."""
    return orjson.loads(await webhook.send(dumps(document)))
