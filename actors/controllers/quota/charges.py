"""Charges quotas in the commit of the writes that use them: `status.used` is never behind what is stored.

Admission reserves what a write uses. Right after an actor has submitted its batch, this module submits one status per
quota that the batch uses; both are then one transaction. What is freed, and what admission reserved for a write that
failed, the resource quota controller brings into the status later.
"""

from __future__ import annotations

from actors.admission.plugins.quota.accounts import QuotaKey
from actors.kinds.registry import Registry
from actors.messages import Patch
from actors.resource.directory import Directory
from actors.write_context import SERVER_MANAGER, SERVER_USER, WriteContexts


class QuotaCharges:
    def __init__(self, registry: Registry, directory: Directory, write_contexts: WriteContexts) -> None:
        self._definition = registry.current.storage("resourcequotas")
        self._directory = directory
        self._write_contexts = write_contexts

    def charge(self, key: QuotaKey, used: dict[str, str]) -> None:
        """Submit the status of a quota. Without effect while its actor starts again: the controller writes it then."""
        namespace, name = key
        context = self._write_contexts.new(SERVER_USER, SERVER_MANAGER)
        patch = {"status": {"used": used}}
        version = self._definition.api_version
        command = Patch(version, namespace, name, "merge", patch, context, "status")
        self._directory.actor(self._definition).write_now(command)
