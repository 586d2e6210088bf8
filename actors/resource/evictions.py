"""Evictions: a pod goes if the budgets that protect it allow, and the budget pays before it goes.

Two actors are involved, the one of budgets and the one of pods, and neither waits for the other. A budget is
charged with a write that names the version it was judged by; when somebody else was faster, everything is read and
judged anew. A pod that could not be deleted after all stays in the budget's list until its controller forgets it,
which errs on the side of the pods.
"""

from __future__ import annotations

from dataclasses import replace

from actors.errors import Conflict, EvictionRefused, NotFound
from actors.kinds.catalog import Catalog
from actors.kinds.core.pods.eviction import RETRY_AFTER, AllowedEviction, may_evict
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.label_selector import matches
from actors.messages import Delete, DeleteOptions, Object, Replace, WriteContext
from actors.resource.directory import Directory
from actors.store.document import decode
from actors.write_context import SERVER_MANAGER
from journal.log import Journal
from journal.view import View

ATTEMPTS = 20  # against others who charge the same budget; each of them has got on


class Evictions:
    def __init__(self, catalog: Catalog, journal: Journal, directory: Directory) -> None:
        self._journal = journal
        self._directory = directory
        self._budget = catalog.storage("poddisruptionbudgets.policy")

    async def evict(
        self, pods: Definition, namespace: str, name: str, options: DeleteOptions, context: WriteContext
    ) -> None:
        for _ in range(ATTEMPTS):
            try:
                return await self._attempt(pods, namespace, name, options, context)
            except Conflict:
                # A version that the client named is the client's to give up on.
                if options.resource_version is not None or options.uid is not None:
                    raise
        why = "The disruption budget is still being processed by the server."
        raise EvictionRefused(why, RETRY_AFTER)

    async def _attempt(
        self, pods: Definition, namespace: str, name: str, options: DeleteOptions, context: WriteContext
    ) -> None:
        pod, budgets = self._read(pods, namespace, name)
        allowed = may_evict(pod, budgets, context.time)
        if allowed.budget_status is not None and not options.dry_run:
            await self._charge(namespace, budgets[0], allowed, context)
        version = options.resource_version
        if allowed.if_unchanged and version is None:
            version = pod["metadata"]["resourceVersion"]
        chosen = DeleteOptions(
            options.grace_period_seconds, options.propagation_policy, options.uid, version, options.dry_run
        )
        await self._directory.ask_served(pods, Delete(pods.api_version, namespace, name, context, chosen))

    def _read(self, pods: Definition, namespace: str, name: str) -> tuple[Object, list[Object]]:
        """The pod and the budgets that protect it, of one moment."""
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(pods.type_name), namespace, name)
            if row is None:
                raise NotFound(pods.resource, name)
            pod = decode(row.body)
            return pod, self._budgets(view, namespace, pod["metadata"].get("labels", {}))

    def _budgets(self, view: View, namespace: str, labels: dict[str, str]) -> list[Object]:
        type_id = self._journal.type_id(self._budget.type_name)
        budgets = (decode(row.body) for _, _, row in view.rows(type_id, namespace))
        return [one for one in budgets if _protects(one, labels)]

    async def _charge(
        self, namespace: str, budget: Object, allowed: AllowedEviction, context: WriteContext
    ) -> None:
        assert allowed.budget_status is not None
        name = budget["metadata"]["name"]
        charged = {**budget, "status": allowed.budget_status}
        # The budget is charged on the server's account: whoever evicts need not have a right to budgets.
        own = replace(context, manager=SERVER_MANAGER)
        command = Replace(self._budget.api_version, namespace, name, charged, own, "status")
        await self._directory.ask(self._budget, command)


def _protects(budget: Object, labels: dict[str, str]) -> bool:
    """A budget that names nothing protects nothing, not everything."""
    selector = budget["spec"].get("selector")
    return bool(selector) and matches(selector, labels)
