"""The page about the journal and its timeline, imported with the first request for one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from actors.background_import import imported
from gateway.message import Response
from gateway.pipeline.context import RequestContext
from gateway.store import Store

if TYPE_CHECKING:
    from gateway.page.handler import JournalPage


class PageOnDemand:
    def __init__(self, store: Store, stop: trio.Event, *, replays: bool) -> None:
        self._store = store
        self._stop = stop
        self._replays = replays  # whether the server may have /debug/rewound/replay
        self._page: JournalPage | None = None

    async def __call__(self, context: RequestContext) -> Response:
        if self._page is None:
            await imported("gateway.page.handler")
            self._page = self._page or self._make()
        return await self._page(context)

    def _make(self) -> JournalPage:
        from gateway.page.handler import JournalPage

        return JournalPage(self._store, self._stop, replays=self._replays)
