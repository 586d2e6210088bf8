"""Charges quotas in the commit of the writes that use them: `status.used` is never behind what is stored.

Admission reserves what a write uses. Right after an actor has submitted its batch, this module submits one status per
quota that the batch uses; both are then one transaction. What is freed, and what admission reserved for a write that
failed, the resource quota controller brings into the status later. It also checks a status after each charge: one that
the actor of the quotas refused, or that came late because the quota is large, is corrected then.
"""

from __future__ import annotations

import logging
from functools import partial

from actors.admission.plugins.quota.accounts import QuotaAccounts, QuotaKey
from actors.errors import NoSuchResource, NotFound, ShuttingDown
from actors.kinds.registry import Registry
from actors.messages import Patch
from actors.resource.directory import Directory
from actors.write_context import SERVER_MANAGER, SERVER_USER, WriteContexts

logger = logging.getLogger(__name__)


class QuotaCharges:
    def __init__(
        self, registry: Registry, directory: Directory, write_contexts: WriteContexts, accounts: QuotaAccounts
    ) -> None:
        self._definition = registry.current.storage("resourcequotas")
        self._directory = directory
        self._write_contexts = write_contexts
        self._accounts = accounts

    def charge(self, key: QuotaKey, used: dict[str, str]) -> None:
        """Submit the status of a quota. Without effect while its actor starts again: the controller writes it then."""
        namespace, name = key
        context = self._write_contexts.new(SERVER_USER, SERVER_MANAGER)
        patch = {"status": {"used": used}}
        version = self._definition.api_version
        command = Patch(version, namespace, name, "merge", patch, context, "status")
        self._directory.actor(self._definition).write_now(command, partial(self._charged, key))

    def _charged(self, key: QuotaKey, error: BaseException | None) -> None:
        if isinstance(error, NotFound | NoSuchResource):
            return  # it was deleted meanwhile
        if error is not None and not isinstance(error, ShuttingDown):
            logger.warning("the status of the quota %s/%s was not charged: %s", *key, error)
        self._accounts.report(key)
