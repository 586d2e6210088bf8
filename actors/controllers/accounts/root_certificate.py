"""The root certificate publisher: keeps a ConfigMap with the CA certificate of this server in every namespace.

Pods mount it beside their token, to verify the server. The ConfigMap is restored when somebody changes or deletes it.
The publisher runs on servers with a secure port only, since others have no certificate to verify, and in the cluster
dialect only if --controllers names it.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import AlreadyExists, Conflict, NotFound
from actors.messages import Object
from actors.store.document import decode, is_being_deleted
from journal.records import Event, Row

_DESCRIPTION = (
    "CA certificates to verify the API server with, at its internal addresses. Use it for nothing else."
)


class RootCertificatePublisher:
    name = "root certificate publisher"

    def __init__(self, context: ControllerContext) -> None:
        names = context.names
        self._journal = context.journal
        self._authorities = context.authorities
        self._namespaces = context.journal.type_id("namespaces")
        self._config_maps = context.journal.type_id("configmaps")
        self.observed_types = frozenset({self._namespaces, self._config_maps})
        self._kind = context.registry.current.storage("configmaps")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, names, "root-ca-cert-publisher"
        )
        self._name = names.root_certificate
        self._description_key = names.key("description")
        self._data: dict[str, str] = {}
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._namespaces:
                if not event.previous:
                    self.queue.add(event.name)
            elif event.type_id == self._config_maps and event.name == self._name:
                self.queue.add(event.namespace)

    async def catch_up(self) -> None:
        self._data = {"ca.crt": (await self._authorities.server_certificate()).decode()}
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for _, name, row in next_page(view, self._namespaces, "", after):
                last = ("", name)
                found = view.get(self._config_maps, name, self._name)
                if not is_being_deleted(row.body) and (
                    found is None or not self._is_published(decode(found.body))
                ):
                    self.queue.add(name)
        return last

    async def reconcile(self, key: str) -> None:
        namespace = self._row(self._namespaces, "", key)
        if namespace is None or is_being_deleted(namespace.body):
            return
        row = self._row(self._config_maps, key, self._name)
        if row is None:
            await self._create(key)
            return
        stored = decode(row.body)
        if not self._is_published(stored):
            await self._restore(stored)

    def _is_published(self, stored: Object) -> bool:
        annotations = stored["metadata"].get("annotations") or {}
        return stored.get("data") == self._data and bool(annotations.get(self._description_key))

    async def _create(self, namespace: str) -> None:
        metadata = {"name": self._name, "annotations": {self._description_key: _DESCRIPTION}}
        new = self._kind.schema.decode_object({"metadata": metadata, "data": self._data}).object
        try:
            await self._client.create(self._kind, namespace, new)
        except AlreadyExists:
            return  # its event adds the key again

    async def _restore(self, stored: Object) -> None:
        metadata = stored["metadata"]
        annotations = {**(metadata.get("annotations") or {}), self._description_key: _DESCRIPTION}
        changed = {**stored, "metadata": {**metadata, "annotations": annotations}, "data": self._data}
        try:
            await self._client.replace(self._kind, changed)
        except (NotFound, Conflict):
            return

    def _row(self, type_id: int, namespace: str, name: str) -> Row | None:
        with self._journal.read() as view:
            return view.get(type_id, namespace, name)
