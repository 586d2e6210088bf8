"""The status of validating admission policies: warnings about the types in their expressions.

Each generation of a policy is checked once, as in Kubernetes: when a CustomResourceDefinition changes, its policies
keep their warnings until they change themselves. A check that takes too long gives no warnings.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import trio

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import Page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import NotFound
from rewound.actors.messages import Object
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import TookTooLong, run_limited
from rewound.actors.store.document import decode
from rewound.journal.records import Event
from rewound.journal.view import View

logger = logging.getLogger(__name__)

NAME: Final = "validatingadmissionpolicy-status-controller"
MANAGER: Final = "validatingadmissionpolicy-status"


class PolicyStatusController:
    name = "validating admission policy status controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._type_name = type_of_policies(context)
        self._type_id = context.journal.type_id(self._type_name)
        self.observed_types = frozenset({self._type_id})
        user = f"system:serviceaccount:{context.names.system_namespace}:{NAME}"
        self._client = Client(context.directory, context.write_contexts, user, MANAGER)
        # One: a check is long, and more threads would only take turns with the interpreter lock.
        self._thread = trio.CapacityLimiter(1)
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id and not event.removed:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        await take_pages(self._context.journal, self._type_id, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, _ in page:
            self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        with self._context.journal.read() as view:
            row = view.get(self._type_id, "", key)
        served = self._context.registry.current.stored_type(self._type_name)
        if row is None or served is None or not served.served:
            return
        status = await run_in_thread(self._new_status, row.body, limiter=self._thread)
        if status is None:
            return
        definition = served.served[0]
        applied = {
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": {"name": key},
            "status": status,
        }
        try:
            await self._client.apply(definition, "", key, applied, "status")
        except NotFound:
            return

    def _new_status(self, body: bytes) -> Object | None:
        """Return the status that a policy gets; None if this generation has been checked."""
        policy = decode(body)
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return None
        warnings = self._warnings(policy)
        checked: Object = {"expressionWarnings": warnings} if warnings else {}
        return {"observedGeneration": generation, "typeChecking": checked}

    def _warnings(self, policy: Object) -> list[Object]:
        # Imported with the first policy: expressions take long to import.
        from rewound.actors.admission.policies.type_checking import type_warnings

        context = self._context
        try:
            return run_limited(
                type_warnings, policy, context.registry.current, context.names, context.features
            )
        except TookTooLong:
            logger.warning("the types of policy %r take too long to check", policy["metadata"]["name"])
            return []


def type_of_policies(context: ControllerContext) -> str:
    return f"validatingadmissionpolicies.{context.names.group('admissionregistration')}"


def have_status(context: ControllerContext) -> bool:
    """Whether policies exist in this version, and have a status."""
    found = context.registry.current.stored_type(type_of_policies(context))
    return found is not None and any(one.name == "status" for one in found.storage.subresources)
