"""The trust publisher: a ConfigMap with the CAs by which aggregated servers verify clients, and this server as a proxy.

    extension-apiserver-authentication    in the system namespace, as in Kubernetes v1.25

Aggregated servers read it when they start. It is restored when somebody changes or deletes it; keys of others stay. A
server without a secure port publishes it with the first APIService of another server, because it has no certificates
before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.aggregation.context import AggregationContext
from actors.aggregation.priorities import api_services_type
from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.work_queue import WorkQueue
from actors.errors import AlreadyExists, Conflict, NotFound
from actors.store.document import decode
from actors.write_context import SERVER_MANAGER, SERVER_USER
from journal.records import Event

NAME: Final = "extension-apiserver-authentication"


class TrustPublisher:
    name = "aggregation trust publisher"

    def __init__(self, context: ControllerContext, aggregation: AggregationContext) -> None:
        self._journal = context.journal
        self._aggregation = aggregation
        self._namespace = context.names.system_namespace
        self._config_maps = context.journal.type_id("configmaps")
        self._api_services = context.journal.type_id(api_services_type(context.names))
        self.observed_types = frozenset({self._config_maps, self._api_services})
        self._kind = context.registry.current.storage("configmaps")
        self._client = Client(context.directory, context.write_contexts, SERVER_USER, SERVER_MANAGER)
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._api_services:
                if not event.previous:
                    self.queue.add(NAME)
            elif event.name == NAME and self._is_published(event):
                self.queue.add(NAME)

    def _is_published(self, event: Event) -> bool:
        return event.type_id == self._config_maps and event.namespace == self._namespace

    async def catch_up(self) -> None:
        self.queue.add(NAME)

    async def reconcile(self, key: str) -> None:
        if not (self._aggregation.publishes_trust_at_start or self._aggregation.api_services.remote):
            return
        wanted = await self._aggregation.trust()
        with self._journal.read() as view:
            row = view.get(self._config_maps, self._namespace, key)
        try:
            if row is None:
                new = {"metadata": {"name": key}, "data": wanted}
                await self._client.create(
                    self._kind, self._namespace, self._kind.schema.decode_object(new).object
                )
                return
            stored = decode(row.body)
            data = stored.get("data") or {}
            if any(data.get(name) != value for name, value in wanted.items()):
                await self._client.replace(self._kind, {**stored, "data": {**data, **wanted}})
        except (AlreadyExists, Conflict, NotFound):
            self.queue.add(key)
