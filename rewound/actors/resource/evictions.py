"""Evictions: deletes a pod if its PodDisruptionBudget allows that, after counting the disruption in the budget.

Two actors are involved, that of budgets and that of pods, and neither waits for the other. The write to the budget has
the resourceVersion on which the decision was made as its precondition; after a Conflict, everything is read and decided
again. If the pod cannot be deleted after all, it stays in the budget's disruptedPods until the disruption controller
removes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewound.actors.errors import Conflict, EvictionRefused, NotFound
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.core.pod import RETRY_AFTER, AllowedEviction, may_evict
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import label_selector_matches
from rewound.actors.messages import Delete, DeleteOptions, Object, Replace, Submit, WriteContext, Written
from rewound.actors.names import Names
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.store.document import decode
from rewound.actors.versions.features import DISRUPTION_CONDITIONS, FAILED_BUDGETS_EXPLAINED
from rewound.journal.log import Journal

ATTEMPTS = 20  # every Conflict means that another eviction succeeded


class Evictions:
    """Decodes a large pod and large budgets in the worker thread."""

    def __init__(
        self,
        names: Names,
        catalog: Catalog,
        journal: Journal,
        directory: Directory,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self._announces = DISRUPTION_CONDITIONS in features
        self._explains = FAILED_BUDGETS_EXPLAINED in features
        self._manager = names.server_manager
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
                # A precondition of the client does not hold: a retry would not help.
                if options.resource_version is not None or options.uid is not None:
                    raise
        why = "The disruption budget is still being processed by the server."
        raise EvictionRefused(why, RETRY_AFTER)

    async def _attempt(
        self, pods: Definition, namespace: str, name: str, options: DeleteOptions, context: WriteContext
    ) -> None:
        pod, budgets = await self._read(pods, namespace, name, context.user)
        allowed = may_evict(pod, budgets, context.time, explains=self._explains)
        if allowed.budget_status is not None and not options.dry_run:
            await self._count_disruption(namespace, budgets[0], allowed, context)
        version = options.resource_version
        if allowed.if_unchanged and version is None:
            version = pod["metadata"]["resourceVersion"]
        if self._announces and not options.dry_run:
            announced = await self._announce(pods, namespace, name, options.uid, version, context)
            version = announced if version is not None else None
        chosen = DeleteOptions(
            options.grace_period_seconds, options.propagation_policy, options.uid, version, options.dry_run
        )
        delete = Delete(pods.api_version, namespace, name, context, chosen, evicts=True)
        await self._directory.ask_served(pods, delete)

    async def _announce(
        self,
        pods: Definition,
        namespace: str,
        name: str,
        uid: str | None,
        version: str | None,
        context: WriteContext,
    ) -> str:
        """Write the condition that the pod is evicted; returns the resourceVersion after that."""
        preconditions = {"uid": uid, "resourceVersion": version}
        sent = {"metadata": {key: value for key, value in preconditions.items() if value is not None}}
        command = Submit(pods.api_version, namespace, name, "eviction", sent, context)
        outcome = await self._directory.ask_served(pods, command)
        assert isinstance(outcome, Written)
        announced: str = decode(outcome.body)["metadata"]["resourceVersion"]
        return announced

    async def _read(
        self, pods: Definition, namespace: str, name: str, user: str
    ) -> tuple[Object, list[Object]]:
        """The pod and the budgets that select it, from one view."""
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(pods.type_name), namespace, name)
            if row is None:
                raise NotFound(pods.resource, name)
            type_id = self._journal.type_id(self._budget.type_name)
            budgets = [one.body for _, _, one in view.rows(type_id, namespace)]
        if len(row.body) + sum(map(len, budgets)) <= LARGE_BYTES:
            return _selecting(row.body, budgets)
        return await self._directory.large_work.run(user, _selecting, row.body, budgets)

    async def _count_disruption(
        self, namespace: str, budget: Object, allowed: AllowedEviction, context: WriteContext
    ) -> None:
        assert allowed.budget_status is not None
        name = budget["metadata"]["name"]
        updated = {**budget, "status": allowed.budget_status}
        # The server writes to the budget: a user that may evict needs no access to budgets.
        server_context = context._replace(manager=self._manager)
        command = Replace(self._budget.api_version, namespace, name, updated, server_context, "status")
        await self._directory.ask(self._budget, command)


def _selecting(pod: bytes, budgets: Sequence[bytes]) -> tuple[Object, list[Object]]:
    """The pod, and those of the budgets that select it."""
    evicted = decode(pod)
    labels = evicted["metadata"].get("labels", {})
    return evicted, [one for one in map(decode, budgets) if _selects(one, labels)]


def _selects(budget: Object, labels: dict[str, str]) -> bool:
    """An empty selector selects nothing here, not everything."""
    selector = budget["spec"].get("selector")
    return bool(selector) and label_selector_matches(selector, labels)
