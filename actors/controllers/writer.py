"""How controllers change things: commands to the actors, as a user of their own, like any other client.

They get no short cut to the journal, so validation, admission and optimistic concurrency hold for them too,
and the journal tells which controller did what.
"""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.messages import Create, Delete, DeleteOptions, Object, Replace
from actors.names import Names
from actors.resource.directory import Directory
from actors.stamps import Stamps

MANAGER = "controller-manager"


class Writer:
    def __init__(self, directory: Directory, stamps: Stamps, user: str, manager: str = MANAGER) -> None:
        self._directory = directory
        self._stamps = stamps
        self.user = user
        self._manager = manager

    @classmethod
    def of_controller(cls, directory: Directory, stamps: Stamps, names: Names, name: str) -> Writer:
        """Controllers are service accounts of the system namespace."""
        return cls(directory, stamps, f"system:serviceaccount:{names.system_namespace}:{name}")

    def now(self) -> int:
        return self._stamps.make(self.user, self._manager).time

    async def create(self, definition: Definition, namespace: str, new: Object) -> bytes:
        stamp = self._stamps.make(self.user, self._manager)
        outcome = await self._directory.ask(definition, Create(definition.api_version, namespace, new, stamp))
        return outcome.body

    async def replace(self, definition: Definition, new: Object, subresource: str = "") -> bytes:
        """Store a changed object; refused with Conflict when its resourceVersion is not the newest."""
        metadata = new["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        stamp = self._stamps.make(self.user, self._manager)
        command = Replace(definition.api_version, namespace, name, new, stamp, subresource)
        outcome = await self._directory.ask(definition, command)
        return outcome.body

    async def delete(
        self,
        definition: Definition,
        namespace: str,
        name: str,
        options: DeleteOptions,
        verb: str = "delete",
    ) -> None:
        stamp = self._stamps.make(self.user, self._manager)
        command = Delete(definition.api_version, namespace, name, stamp, options, verb)
        await self._directory.ask(definition, command)
