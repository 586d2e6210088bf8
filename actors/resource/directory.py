"""Who owns what: one actor per stored resource type, made when first asked for.

Built from the catalog; the gateway finds the actor of a definition here and sends it commands. Types nobody
writes to have no actor, no mailbox and no compiled schema.
"""

from __future__ import annotations

import trio

from actors.admission.chain import Admission
from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.mailbox import MailboxStatistics
from actors.messages import Command, Outcome
from actors.resource.actor import ResourceActor
from actors.store.committer import Committer
from actors.supervisor import Supervisor
from journal.log import Journal


class Directory:
    def __init__(
        self,
        catalog: Catalog,
        journal: Journal,
        committer: Committer,
        admission: Admission,
        supervisor: Supervisor,
        nursery: trio.Nursery,
    ) -> None:
        self._catalog = catalog
        self._journal = journal
        self._committer = committer
        self._admission = admission
        self._supervisor = supervisor
        self._nursery = nursery
        self._actors: dict[str, ResourceActor] = {}

    async def ask(self, definition: Definition, command: Command) -> Outcome:
        return await self.actor(definition).ask(command)

    def actor(self, definition: Definition) -> ResourceActor:
        actor = self._actors.get(definition.type_name)
        return actor if actor is not None else self._make(definition.type_name)

    def statistics(self) -> dict[str, MailboxStatistics]:
        return {name: actor.statistics() for name, actor in self._actors.items()}

    def _make(self, type_name: str) -> ResourceActor:
        views = {d.api_version: d for d in self._catalog.declared if d.type_name == type_name}
        actor = ResourceActor(
            views, self._catalog.storage(type_name), self._journal, self._committer, self._admission
        )
        self._actors[type_name] = actor
        self._nursery.start_soon(self._supervisor.keep, f"actor {type_name}", actor.run)
        return actor
