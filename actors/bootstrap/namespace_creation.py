"""Creates a namespace with the rights of the server itself, for the admission plugin NamespaceAutoProvision."""

from __future__ import annotations

from actors.controllers.client import Client
from actors.kinds.registry import Registry
from actors.resource.directory import Directory
from actors.write_context import SERVER_MANAGER, SERVER_USER, WriteContexts


async def create_namespace(
    registry: Registry, directory: Directory, write_contexts: WriteContexts, name: str
) -> None:
    """Raises what the actor of namespaces refuses it with, such as AlreadyExists."""
    definition = registry.current.storage("namespaces")
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    new = definition.schema.decode_object(document).object
    await Client(directory, write_contexts, SERVER_USER, SERVER_MANAGER).create(definition, "", new)
