"""The description controller: downloads the OpenAPI documents of available aggregated servers, again every minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.aggregation.context import AggregationContext
from actors.aggregation.priorities import api_services_type
from actors.controllers.context import ControllerContext
from actors.controllers.work_queue import WorkQueue
from journal.records import Event

DOWNLOAD_AGAIN: Final = 60.0  # seconds


class DescriptionController:
    name = "API service description controller"

    def __init__(self, context: ControllerContext, aggregation: AggregationContext) -> None:
        self._aggregation = aggregation
        self._type_id = context.journal.type_id(api_services_type(context.names))
        self.observed_types = frozenset({self._type_id})
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        for one in self._aggregation.api_services.remote.values():
            self.queue.add(one.name)

    async def reconcile(self, key: str) -> None:
        remote = self._aggregation.api_services.remote.values()
        found = next((one for one in remote if one.name == key), None)
        await self._aggregation.describe(found)
        if found is not None and found.available:
            self.queue.add_after(key, DOWNLOAD_AGAIN)
