"""The namespace controller: deletes the content of a terminating namespace, then finalizes it.

It deletes every object of every namespaced type, also those of aggregated servers: while one of these cannot be
reached, the namespace stays, with the condition NamespaceDeletionDiscoveryFailure. Since 1.33 pods go first, and the
rest waits for them, so that programs have their configuration and policies until they end. The namespace's conditions
report the objects that finalizers keep; it checks again when an object there changes, or after a pause. When the
namespace is empty, it removes its own entry from spec.finalizers; without finalizers the namespace is removed.

It misses no object: a create that admission allowed before it saw the deletionTimestamp is in the journal before the
conditions are, so the check after writing them finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
import trio

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.aggregation.content import Undiscovered
from rewound.actors.aggregation.context import AggregationContext
from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, Position, StoredTypes, next_page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import NotFound
from rewound.actors.identity import AUTHENTICATED, User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import NAMESPACE_FINALIZER
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode, is_being_deleted
from rewound.actors.versions.features import PODS_DELETED_FIRST
from rewound.journal.records import Event
from rewound.journal.view import View

NAMESPACES, PODS = "namespaces", "pods"
# Objects of one namespace are often removed together: one check covers all that are removed within this time.
RECHECK_DELAY = 0.2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
UNAVAILABLE = "the server is currently unable to handle the request"


class NamespaceController:
    name = "namespace controller"
    observed_types = None

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._types = StoredTypes(context.registry, context.journal)
        self._definition = context.registry.current.storage(NAMESPACES)
        self._type_id = context.journal.type_id(NAMESPACES)
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "namespace-controller"
        )
        self._pods_first = PODS_DELETED_FIRST in context.features
        self._pods = context.journal.type_id(PODS)
        self._aggregation = context.aggregation
        self._user = _service_account(self._client.user, context.names)  # for other servers
        self.queue: WorkQueue[str] = WorkQueue(FIRST_PAUSE, LONGEST_PAUSE)
        self._terminating: set[str] = set()

    def statistics(self) -> dict[str, int]:
        return {"terminating": len(self._terminating)}

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                self._observe_namespace(event.name, event)
            elif event.namespace in self._terminating and (event.removed or not event.previous):
                self.queue.add_after(event.namespace, RECHECK_DELAY)

    def _observe_namespace(self, name: str, event: Event) -> None:
        if event.removed:
            self._terminating.discard(name)
        elif name not in self._terminating and is_being_deleted(event.body):
            self._terminating.add(name)
            self.queue.add(name)

    async def catch_up(self) -> None:
        self._terminating.clear()
        await take_pages(self._journal, self._type_id, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, row in page:
            if is_being_deleted(row.body):
                self._terminating.add(name)
                self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        if not _needs_finalizing(self._read(key)):
            return
        remaining = await self._delete_content(key)
        namespace = await self._update_conditions(key, remaining)
        if namespace is None:
            return
        if not remaining.empty or self._has_content(key):
            raise RetryLater
        await self._finalize(namespace)

    def _read(self, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", name)
        return decode(row.body) if row is not None else None

    async def _delete_content(self, namespace: str) -> Remaining:
        remaining = Remaining()
        types = self._types_with_content(namespace)
        if self._pods_first:
            types.sort(key=lambda one: one[0] != self._pods)
        for type_id, definition in types:
            await self._delete_all(type_id, definition, namespace, remaining)
            await self._count(type_id, definition, namespace, remaining)
            if self._pods_first and type_id == self._pods and not remaining.empty:
                remaining.waits_for_pods = True
                return remaining
        if self._aggregation is not None:
            for one in self._aggregation.api_services.remote.values():
                await self._delete_remote(self._aggregation, one, namespace, remaining)
        return remaining

    async def _delete_remote(
        self, aggregation: AggregationContext, one: ApiService, namespace: str, remaining: Remaining
    ) -> None:
        """Delete an aggregated server's objects in the namespace; it is not finalized while one is unreachable."""
        try:
            if not one.available:
                raise Undiscovered(UNAVAILABLE)
            left = await aggregation.delete_content(one, namespace, self._user)
        except Undiscovered as error:
            remaining.undiscovered[f"{one.group}/{one.version}"] = str(error)
            return
        remaining.failures += left.failures
        for plural, objects in left.remaining.items():
            for finalizers in objects:
                remaining.count(plural, one.group, finalizers)

    def _types_with_content(self, namespace: str) -> list[tuple[int, Definition]]:
        """The types that have objects in the namespace."""
        with self._journal.read() as view:
            return [
                (id_, each) for id_, each in self._types if each.namespaced and view.count(id_, namespace)
            ]

    def _has_content(self, namespace: str) -> bool:
        return bool(self._types_with_content(namespace))

    async def _delete_all(
        self, type_id: int, definition: Definition, namespace: str, remaining: Remaining
    ) -> None:
        """Delete all objects that are not already being deleted."""
        after: Position | None = None
        while True:
            with self._journal.read() as view:
                rows = list(next_page(view, type_id, namespace, after))
            if not rows:
                return
            after = rows[-1][:2]
            names = [name for _, name, row in rows if not is_being_deleted(row.body)]
            refusals = await run_concurrently(partial(self._delete, definition, namespace), names)
            if refusals:
                remaining.failures.append(str(refusals[0]))
                return
            await trio.lowlevel.checkpoint()

    async def _delete(self, definition: Definition, namespace: str, name: str) -> None:
        options = DeleteOptions(propagation_policy="Background")
        try:
            await self._client.delete(definition, namespace, name, options, verb="deletecollection")
        except NotFound:
            return

    async def _count(
        self, type_id: int, definition: Definition, namespace: str, remaining: Remaining
    ) -> None:
        def count(view: View, page: Page) -> None:
            for _, _, row in page:
                has_some = b'"finalizers":[' in row.body
                finalizers = decode(row.body)["metadata"].get("finalizers", ()) if has_some else ()
                remaining.count(definition.plural, definition.group, finalizers)

        await take_pages(self._journal, type_id, namespace, count)

    async def _update_conditions(self, name: str, remaining: Remaining) -> Object | None:
        """Write the conditions if they changed; returns the current namespace, or None if it no longer exists."""
        namespace = self._read(name)
        if namespace is None:
            return None
        status = namespace.setdefault("status", {})
        old = status.get("conditions", [])
        status["conditions"] = with_conditions(old, remaining, seconds_text(self._client.now()))
        if status["conditions"] == old:
            return namespace
        try:
            return decode(await self._client.replace(self._definition, namespace, "status"))
        except NotFound:
            return None

    async def _finalize(self, namespace: Object) -> None:
        spec = namespace["spec"]
        kept = [finalizer for finalizer in spec.pop("finalizers", ()) if finalizer != NAMESPACE_FINALIZER]
        if kept:
            spec["finalizers"] = kept
        try:
            await self._client.replace(self._definition, namespace, "finalize")
        except NotFound:
            return


def _service_account(name: str, names: Names) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{names.system_namespace}", AUTHENTICATED)
    return User(name, groups=groups)


def _needs_finalizing(namespace: Object | None) -> bool:
    if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
        return False
    return bool(namespace.get("spec", {}).get("finalizers"))


# type, reason and message while there is no problem
_WITHOUT_PROBLEMS = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


class Remaining(msgspec.Struct):
    """The content of a namespace that is left after the controller tried to delete it."""

    resources: Counter[str] = msgspec.field(default_factory=Counter)  # "configmaps.", "leases.coordination.…"
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    failures: list[str] = msgspec.field(default_factory=list)
    undiscovered: dict[str, str] = msgspec.field(
        default_factory=dict
    )  # group versions of other servers -> why
    waits_for_pods: bool = False  # what remains besides is not known yet, and no condition reports it

    def count(self, plural: str, group: str, finalizers: Iterable[str]) -> None:
        self.resources[f"{plural}.{group}"] += 1
        self.finalizers.update(finalizers)

    @property
    def empty(self) -> bool:
        return not self.resources and not self.failures and not self.undiscovered


def with_conditions(old: Sequence[Object], remaining: Remaining, now: str) -> list[Object]:
    """Merge the five conditions of a terminating namespace, computed from its remaining content, into the old ones.

        remaining.count("configmaps", "", ["example.com/one"])
        with_conditions([], remaining, now)[3]["message"]
            -> "Some resources are remaining: configmaps. has 1 resource instances"

    Each condition has one message for success and one for a problem; their order is fixed, and lastTransitionTime
    changes only with the status. Conditions of other types stay.
    """
    conditions = [dict(condition) for condition in old]
    for new in _conditions(remaining, now):
        existing = next((each for each in conditions if each["type"] == new["type"]), None)
        if existing is None:
            conditions.append(new)
        else:
            if existing["status"] == new["status"]:
                new["lastTransitionTime"] = existing["lastTransitionTime"]
            existing.update(new)
    return conditions


def _conditions(remaining: Remaining, now: str) -> list[Object]:
    problems = _problems(remaining)
    conditions = []
    for type_, reason, message in _WITHOUT_PROBLEMS:
        status = "True" if type_ in problems else "False"
        reason, message = problems.get(type_, (reason, message))
        conditions.append(
            {
                "type": type_,
                "status": status,
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            }
        )
    return conditions


def _problems(remaining: Remaining) -> dict[str, tuple[str, str]]:
    problems = {}
    if remaining.undiscovered:
        text = ", ".join(f"{name}: {why}" for name, why in sorted(remaining.undiscovered.items()))
        message = (
            f"Discovery failed for some groups, {len(remaining.undiscovered)} failing: "
            f"unable to retrieve the complete list of server APIs: {text}"
        )
        problems["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", message)
    if remaining.failures:
        text = ", ".join(remaining.failures)
        message = f"Failed to delete all resource types, {len(remaining.failures)} remaining: {text}"
        problems["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if remaining.waits_for_pods:
        return problems
    if remaining.resources:
        text = _counts_text(remaining.resources, "has {} resource instances")
        problems["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {text}",
        )
    if remaining.finalizers:
        text = _counts_text(remaining.finalizers, "in {} resource instances")
        problems["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {text}",
        )
    return problems


def _counts_text(counts: Counter[str], how: str) -> str:
    return ", ".join(sorted(f"{name} {how.format(number)}" for name, number in counts.items()))
