"""The status of resource quotas: charged in the commit of the writes that use them, corrected by a controller.

Admission reserves what a write uses (`QuotaAccounts`). Right after an actor has submitted its batch, `QuotaCharges`
submits one status per quota that the batch uses; both are then one transaction, so `status.used` is never behind the
stored objects. `ResourceQuotaController` later releases freed amounts and those reserved for writes that failed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import trio

from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts, QuotaKey
from rewound.actors.admission.plugins.quota.usage import texts_of
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NoSuchResource, NotFound, ShuttingDown
from rewound.actors.identity import SERVER_USER
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object, Outcome, Patch
from rewound.actors.names import Names
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.document import decode
from rewound.journal.records import Event

# Clients may write a status, too: what differs from the accounts is corrected within this time, as in Kubernetes.
SYNC_PERIOD = 300.0


class ResourceQuotaController:
    """The resource quota controller: writes the status of quotas, their limits and the usage of the namespace.

    The accounts that admission checks are the source (`QuotaAccounts`): they report each quota whose usage or spec has
    changed, and count stored objects. Writes that are not durable yet are not in the status.
    """

    name = "resource quota controller"
    observed_types: frozenset[int] = frozenset()  # the accounts report changes

    def __init__(self, context: ControllerContext, accounts: QuotaAccounts) -> None:
        self._accounts = accounts
        self._clock = context.clock
        self._journal = context.journal
        self._type_id = context.journal.type_id("resourcequotas")
        self._definition = context.registry.current.storage("resourcequotas")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "resourcequota-controller"
        )
        self._counting = trio.CapacityLimiter(1)
        self.queue: WorkQueue[QuotaKey] = WorkQueue()
        accounts.listen(self.queue.add)

    def observe(self, events: Sequence[Event]) -> None:
        """Do nothing: see `observed_types`."""

    async def catch_up(self) -> None:
        for key in self._accounts.all_quotas():
            self.queue.add(key)

    async def reconcile(self, key: QuotaKey) -> None:
        namespace, name = key
        used = await self._used(namespace, name)
        with self._journal.read() as view:
            row = view.get(self._type_id, namespace, name)
        if row is None or used is None:
            return
        self.queue.add_after(key, SYNC_PERIOD)
        quota = decode(row.body)
        status: Object = {"hard": quota["spec"].get("hard", {}), "used": used}
        if _without_empty(quota["status"]) == _without_empty(status):
            return
        try:
            await self._client.replace(
                self._definition, {**quota, "status": _without_empty(status)}, "status"
            )
        except NotFound:
            return
        except Conflict:
            raise RetryLater from None

    async def _used(self, namespace: str, name: str) -> dict[str, str] | None:
        """The namespace's usage of the quota; None if there is no such quota."""
        while (quotas := self._accounts.quotas_of(namespace)) is not None:
            account = self._accounts.account(namespace)
            if account is not None:
                self._accounts.end(account, self._clock.now())
                self._wait_for_end(account.next_end, (namespace, name))
                names = [quota.name for quota in quotas.quotas]
                return texts_of(account.used[names.index(name)]) if name in names else None
            counted = await trio.to_thread.run_sync(self._accounts.scan, quotas, limiter=self._counting)
            self._accounts.install(counted)
        return None

    def _wait_for_end(self, end: int | None, key: QuotaKey) -> None:
        """Reconcile again when the next terminating pod stops counting."""
        if end is not None:
            self.queue.add_after(key, (end - self._clock.now()) / 1_000_000 + 1)


def _without_empty(status: Object) -> Object:
    return {part: amounts for part, amounts in status.items() if amounts}


logger = logging.getLogger(__name__)


class QuotaCharges:
    """Charges quotas in the commit of the writes that use them: `status.used` is never behind the stored objects.

    Admission reserves what a write uses. Right after an actor has submitted its batch, this submits one status per
    quota that the batch uses; both are then one transaction. The resource quota controller later releases freed amounts
    and those reserved for writes that failed. It also checks a status after each charge, and corrects one that the
    actor of the quotas rejected, or that came late because the quota is large.
    """

    def __init__(
        self,
        names: Names,
        registry: Registry,
        directory: Directory,
        write_contexts: WriteContexts,
        accounts: QuotaAccounts,
    ) -> None:
        self._manager = names.server_manager
        self._definition = registry.current.storage("resourcequotas")
        self._directory = directory
        self._write_contexts = write_contexts
        self._accounts = accounts

    def charge(self, key: QuotaKey, used: dict[str, str]) -> None:
        """Submit the status of a quota. Does nothing while its actor restarts: the controller writes it then."""
        namespace, name = key
        context = self._write_contexts.new(SERVER_USER, self._manager)
        patch = {"status": {"used": used}}
        version = self._definition.api_version
        command = Patch(version, namespace, name, "merge", patch, context, "status")
        self._directory.actor(self._definition).write_now(command, partial(self._charged, key))

    def _charged(self, key: QuotaKey, result: Outcome | BaseException) -> None:
        if isinstance(result, NotFound | NoSuchResource):
            return  # it was deleted in the meantime
        if isinstance(result, BaseException) and not isinstance(result, ShuttingDown):
            logger.warning("the status of the quota %s/%s was not charged: %s", *key, result)
        self._accounts.report(key)
