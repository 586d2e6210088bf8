"""The registration controller: a local APIService for every group version that this server serves itself.

    v1.apps                 label automanaged: onstart     created by bootstrap; a deleted one is created again
    v1.example.com          label automanaged: "true"      for custom kinds; deleted with the last of them, and set back

It follows the registry for group versions that come and go. An APIService without the label belongs to somebody else
and stays as it is, such as one that sends a group version to another server.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from actors.aggregation.priorities import (
    MANAGED,
    MANAGED_ON_START,
    api_services_group,
    api_services_type,
    automanaged_label,
    built_in_priorities,
    local_api_service,
)
from actors.controllers.client import Client
from actors.controllers.context import ControllerContext
from actors.controllers.pages import Position, next_page
from actors.controllers.work_queue import WorkQueue
from actors.errors import AlreadyExists, Conflict, NotFound
from actors.kinds.catalog import Catalog
from actors.messages import DeleteOptions, Object
from actors.names import REWIND_GROUP
from actors.store.document import decode
from actors.write_context import SERVER_MANAGER, SERVER_USER
from journal.records import Event


class RegistrationController:
    name = "API service registration controller"

    def __init__(self, context: ControllerContext) -> None:
        self._names, self._registry, self._journal = context.names, context.registry, context.journal
        self._type_id = context.journal.type_id(api_services_type(context.names))
        self.observed_types = frozenset({self._type_id})
        self._kind = context.registry.current.storage(api_services_type(context.names))
        self._label = automanaged_label(context.names)
        self._unlisted = (api_services_group(context.names), REWIND_GROUP)
        self._client = Client(context.directory, context.write_contexts, SERVER_USER, SERVER_MANAGER)
        self.queue: WorkQueue[str] = WorkQueue()
        context.registry.follow(self._kinds_changed)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self.queue.add(event.name)

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        for type_name in following.changed_since(previous):
            for catalog in (previous, following):
                found = catalog.stored_type(type_name)
                for definition in found.served if found is not None else ():
                    self.queue.add(f"{definition.version}.{definition.group}")

    async def catch_up(self) -> None:
        """Custom kinds are published before controllers run; bootstrap creates those of built-in groups."""
        for group, versions in self._registry.current.groups().items():
            for version in versions:
                if (group, version) not in built_in_priorities(self._names):
                    self.queue.add(f"{version}.{group}")
        after: Position | None = None
        while (after := self._scan(after)) is not None:
            await trio.lowlevel.checkpoint()

    def _scan(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for _, name, _ in next_page(view, self._type_id, "", after):
                last = ("", name)
                self.queue.add(name)
        return last

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", key)
        wanted = self._wanted(key)
        try:
            if row is None:
                if wanted is not None:
                    await self._client.create(self._kind, "", self._kind.schema.decode_object(wanted).object)
                return
            await self._maintain(decode(row.body), wanted)
        except (AlreadyExists, Conflict, NotFound):
            return  # its event adds the key again

    def _wanted(self, name: str) -> Object | None:
        version, _, group = name.partition(".")
        if group in self._unlisted or not self._registry.current.of_version(group, version):
            return None
        return local_api_service(self._names, group, version)

    async def _maintain(self, stored: Object, wanted: Object | None) -> None:
        managed = (stored["metadata"].get("labels") or {}).get(self._label)
        if managed not in (MANAGED, MANAGED_ON_START):
            return
        if wanted is None:
            unchanged = DeleteOptions(resource_version=stored["metadata"]["resourceVersion"])
            await self._client.delete(self._kind, "", stored["metadata"]["name"], unchanged)
        elif managed == MANAGED and stored["spec"] != wanted["spec"]:
            stored["spec"] = wanted["spec"]
            await self._client.replace(self._kind, stored)
