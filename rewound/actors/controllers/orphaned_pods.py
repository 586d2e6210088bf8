"""The pod garbage collector: deletes pods that are bound to a node that no longer exists.

It waits for 40 seconds, as v1.25 does, in case the node comes back, and deletes without a grace period, because no
kubelet is left to stop the pod. In an API server alone, pods whose node was never known stay: they are bound to nodes
that another program tracks. With the controllers of a whole cluster they are deleted too, and so are the oldest
finished pods beyond --terminated-pod-gc-threshold.

Since 1.26 a pod becomes Failed before that, with a condition that says why, so that a Job counts it. The same happens
to terminating pods that no kubelet stops: those without a node that a finalizer holds, and those of a node that is not
ready and has the taint out-of-service.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import Page, Position, next_page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.kinds.core.pod import disruption_target, is_ready
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import in_order
from rewound.actors.runtime.turns import in_turns, next_turn
from rewound.actors.selectors.facts import PackedValue, field_bytes, packed_value, unpack_value
from rewound.actors.store.document import decode
from rewound.actors.versions.features import (
    DISRUPTION_CONDITIONS,
    EVICTED_PODS_FIRST,
    OBSERVED_GENERATION,
    OUT_OF_SERVICE,
    POD_REPLACEMENT,
)
from rewound.journal.records import Event
from rewound.journal.view import View

QUARANTINE: Final = 40.0  # seconds
# A match may be elsewhere in the body: it leads to a check, never to a deletion.
_FINISHED: Final = (b'"phase":"Succeeded"', b'"phase":"Failed"')
_TERMINATING: Final = b'"deletionTimestamp":"'
_NODE_OF: Final = PackedValue(field_bytes("spec.nodeName"))
# Keys of work; all other keys are names of nodes.
_FINISHED_PODS: Final = ""
_UNSCHEDULED_PODS: Final = "/unscheduled"
# A pod that finishes beyond the limit causes a check of all finished pods: this many seconds apart, for each of them.
SECONDS_FOR_EACH: Final = 0.0001


class PodGarbageCollector:
    name = "pod garbage collector"

    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._pods = context.journal.type_id("pods")
        self._nodes = context.journal.type_id("nodes")
        self.observed_types = frozenset({self._pods, self._nodes})
        self._definition = context.registry.current.storage("pods")
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "pod-garbage-collector"
        )
        self._features, self._now = context.features, context.clock.now
        self._fails = not {DISRUPTION_CONDITIONS, POD_REPLACEMENT}.isdisjoint(self._features)
        self._out_of_service_key = context.names.key("out-of-service", "node")
        self._known: set[bytes] = set()  # the names of existing nodes, as facts contain them
        self._out_of_service: set[str] = set()  # those of them whose terminating pods are deleted
        self._unscheduled: set[Position] = set()  # terminating pods without a node
        self._whole_cluster = context.whole_cluster
        self._threshold = context.workloads.terminated_pod_gc_threshold if context.whole_cluster else 0
        # Whether it was evicted, its creation time and uid.
        self._finished: dict[Position, tuple[bool, str, str]] = {}
        self._next_check = 0.0  # at those that have finished
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._pods:
                if not event.removed:
                    self._check((event.namespace, event.name), event.body, event.facts)
                if self._threshold > 0:
                    self._count((event.namespace, event.name), b"" if event.removed else event.body)
            elif event.type_id != self._nodes:
                continue
            elif event.removed:
                self._known.discard(packed_value(event.name))
                self._out_of_service.discard(event.name)
                self.queue.add_after(event.name, QUARANTINE)
            else:
                self._see_node(event.name, event.body)

    def _see_node(self, name: str, body: bytes) -> None:
        self._known.add(packed_value(name))
        if OUT_OF_SERVICE not in self._features or self._out_of_service_key.encode() not in body:
            self._out_of_service.discard(name)
            return
        node = decode(body)
        tainted = any(one["key"] == self._out_of_service_key for one in node["spec"].get("taints") or ())
        if tainted and not is_ready(node):
            self._out_of_service.add(name)
            self.queue.add(name)
        else:
            self._out_of_service.discard(name)

    def _check(self, position: Position, pod: bytes, facts: bytes) -> None:
        """Check whether a pod is to be deleted, now or after its node has been gone for long."""
        terminating = _TERMINATING in pod
        node = _NODE_OF(facts)
        if node and node not in self._known:
            self.queue.add_after(unpack_value(node), QUARANTINE)
        elif node and terminating and (name := unpack_value(node)) in self._out_of_service:
            self.queue.add(name)
        elif not node and terminating and self._fails and not any(mark in pod for mark in _FINISHED):
            self._unscheduled.add(position)
            self.queue.add(_UNSCHEDULED_PODS)

    def _count(self, pod: Position, body: bytes) -> None:
        """Record whether the pod has finished; an empty body is that of a removed pod."""
        self._finished.pop(pod, None)
        if any(mark in body for mark in _FINISHED):
            stored = decode(body)
            status, metadata = stored["status"], stored["metadata"]
            if status.get("phase") in ("Succeeded", "Failed"):
                evicted = (status.get("phase"), status.get("reason")) == ("Failed", "Evicted")
                evicted = evicted and EVICTED_PODS_FIRST in self._features
                self._finished[pod] = evicted, metadata["creationTimestamp"], metadata["uid"]
        if len(self._finished) > self._threshold:
            self.queue.add_after(_FINISHED_PODS, max(0.0, self._next_check - trio.current_time()))

    async def catch_up(self) -> None:
        self._known.clear()
        self._out_of_service.clear()
        self._unscheduled.clear()
        self._finished.clear()
        for type_id in (self._nodes, self._pods):
            await take_pages(self._journal, type_id, None, partial(self._take, type_id))

    def _take(self, type_id: int, view: View, page: Page) -> None:
        for namespace, name, row in page:
            if type_id == self._nodes:
                self._see_node(name, row.body)
            else:
                self._check((namespace, name), row.body, row.facts)
                if self._threshold > 0:
                    self._count((namespace, name), row.body)

    async def reconcile(self, key: str) -> None:
        if key == _FINISHED_PODS:
            await self._delete_finished()
        elif key == _UNSCHEDULED_PODS:
            await self._delete_unscheduled()
        elif key in self._out_of_service:
            await self._delete_pods_of(key, only_terminating=True)
        elif self._is_gone(key):
            await self._delete_pods_of(key)

    async def _delete_finished(self) -> None:
        self._next_check = trio.current_time() + len(self._finished) * SECONDS_FOR_EACH

        def order(finished: tuple[Position, tuple[bool, str, str]]) -> tuple[bool, str, str]:
            (_, name), (evicted, created, _) = finished
            return not evicted, created, name

        in_turn = await in_turns(in_order(self._finished.items(), order))
        too_many = max(0, len(in_turn) - self._threshold)
        pods = [(*position, uid) for position, (_, _, uid) in in_turn[:too_many]]
        if errors := await run_concurrently(self._delete, pods):
            raise errors[0]

    async def _delete_unscheduled(self) -> None:
        positions, self._unscheduled = self._unscheduled, set()
        with self._journal.read() as view:
            rows = [view.get(self._pods, *position) for position in positions]
        pods = [decode(row.body) for row in rows if row is not None]
        if errors := await run_concurrently(self._fail_and_delete, [(pod, "") for pod in pods]):
            self._unscheduled |= positions
            raise errors[0]

    async def _delete_pods_of(self, key: str, *, only_terminating: bool = False) -> None:
        why = "" if only_terminating else "node no longer exists"
        after: Position | None = None
        while True:
            pods, after = self._pods_on(key, after)
            orphans = [
                (pod, why) for pod in pods if not only_terminating or "deletionTimestamp" in pod["metadata"]
            ]
            if errors := await run_concurrently(self._fail_and_delete, orphans):
                raise errors[0]
            if after is None:
                return
            await next_turn()  # a key for each deleted node: many scan all pods at once

    def _is_gone(self, node: str) -> bool:
        """Whether the node does not exist; in an API server alone, whether the journal still has its deletion."""
        with self._journal.read() as view:
            if view.get(self._nodes, "", node) is not None:
                return False
            if self._whole_cluster:
                return True
            return any(event.removed for event in view.history(self._nodes, "", node, contents=False))

    def _pods_on(self, node: str, after: Position | None) -> tuple[list[Object], Position | None]:
        """The pods of the node in the next page, and the position of its end; None at the end."""
        found, last, bound = [], None, field_bytes("spec.nodeName", node)
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, self._pods, None, after):
                last = (namespace, name)
                if bound in row.facts:
                    found.append(decode(row.body))
        return found, last

    async def _fail_and_delete(self, orphan: tuple[Object, str]) -> None:
        """Delete a pod after it has become Failed, with a condition if there is a reason."""
        pod, why = orphan
        metadata, status = pod["metadata"], pod["status"]
        if self._fails and status.get("phase") not in ("Succeeded", "Failed"):
            failed: Object = {"phase": "Failed"}
            if why and DISRUPTION_CONDITIONS in self._features:
                now = seconds_text(self._now())
                text = f"PodGC: {why}"
                condition = disruption_target(pod, "DeletionByPodGC", text, now, self._features)
                failed["conditions"] = [] if condition is None else [condition]
            if OBSERVED_GENERATION in self._features and "generation" in metadata:
                failed["observedGeneration"] = metadata["generation"]
            patch = {"metadata": {"uid": metadata["uid"]}, "status": failed}
            position = metadata["namespace"], metadata["name"]
            try:
                await self._client.patch(self._definition, *position, patch, "strategic", "status")
            except (Conflict, NotFound):
                return
        await self._delete((metadata["namespace"], metadata["name"], metadata["uid"]))

    async def _delete(self, pod: tuple[str, str, str]) -> None:
        namespace, name, uid = pod
        at_once = DeleteOptions(uid=uid, grace_period_seconds=0)
        try:
            await self._client.delete(self._definition, namespace, name, at_once)
        except (Conflict, NotFound):
            return
