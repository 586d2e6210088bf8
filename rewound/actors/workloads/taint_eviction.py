"""Taint eviction: deletes pods that do not tolerate the NoExecute taints of their node.

A pod that does not tolerate a taint is evicted at once. One that tolerates all of them for a limited time is evicted
after the shortest of these times, counted from when the taints were first seen on its node; it stays if they are
removed before. A scheduled eviction is not moved, and an executed one is not repeated while the taints are the same.

Before 1.29 the controller is a part of `nodelifecycle`. `Evictions` decides without I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import trio

from rewound.actors.errors import NotFound
from rewound.actors.kinds.core.pod import disruption_target
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.selectors.nodes import NO_EXECUTE, tolerates
from rewound.actors.versions.features import DISRUPTION_CONDITIONS, SEPARATE_TAINT_EVICTION
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import node_of

_DONE = -inf


def no_execute_taints(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == NO_EXECUTE]


def tolerated_seconds(taints: Sequence[Object], tolerations: Sequence[Object]) -> float | None:
    """How long a pod with these tolerations may stay, inf: forever; None if it does not tolerate all taints."""
    shortest = inf
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return None
        if (seconds := used.get("tolerationSeconds")) is not None:
            shortest = min(shortest, max(0, seconds))
    return shortest


class Evictions:
    """The pods to evict, and when."""

    def __init__(self, cancelled: Callable[[Key], None]) -> None:
        """`cancelled` is called for a pod that stays after all, or that is gone before."""
        self._cancelled = cancelled
        self._due: dict[Key, float] = {}

    def clear(self) -> None:
        self._due.clear()

    def consider(self, pod: Object, taints: Sequence[Object], now: float) -> float | None:
        """Check a pod whose node, tolerations or taints have changed; returns when to evict it, if at all."""
        key = key_of(pod)
        seconds = tolerated_seconds(taints, pod["spec"].get("tolerations") or ()) if taints else inf
        if seconds is None:
            if self._due.get(key, now) > now:
                self.cancel(key)
            self._due[key] = now
        elif seconds == inf:
            self.cancel(key)
        else:
            self._due.setdefault(key, now + seconds)
        return self.due(key)

    def due(self, key: Key) -> float | None:
        """When to evict the pod; None if that is not planned, or already done."""
        due = self._due.get(key, _DONE)
        return None if due == _DONE else due

    def done(self, key: Key) -> None:
        if key in self._due:
            self._due[key] = _DONE

    def cancel(self, key: Key) -> None:
        if self._due.pop(key, _DONE) != _DONE:
            self._cancelled(key)


class TaintEviction(WorkloadController):
    name, account = "taint-eviction-controller", "node-controller"

    def __init__(self, parts: Parts) -> None:
        self._features = parts.context.features
        self.component = self.name if SEPARATE_TAINT_EVICTION in self._features else "taint-controller"
        super().__init__(parts)
        self._nodes = self.cache.collection("nodes")
        self._pods = self.cache.collection("pods")
        self._pods_of = self._pods.index(node_of)
        self._evictions = Evictions(self._report_cancelled)
        self._nodes.listen(self._node_changed)
        self._pods.listen(self._pod_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._evictions.clear()
        for node in self._nodes:
            self._consider_pods(node)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or no_execute_taints(old) != no_execute_taints(new)):
            self._consider_pods(new)

    def _consider_pods(self, node: Object) -> None:
        taints = no_execute_taints(node)
        for pod in self._pods_of.get(node["metadata"]["name"]):
            self._consider(pod, taints)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._evictions.cancel(key_of(old))
            return
        before, after = {} if old is None else old["spec"], new["spec"]
        is_same = before.get("nodeName") == after.get("nodeName")
        if old is not None and is_same and before.get("tolerations") == after.get("tolerations"):
            return
        node = self._nodes.get("", new["spec"].get("nodeName", ""))
        if node is not None and (taints := no_execute_taints(node)):
            self._consider(new, taints)

    def _consider(self, pod: Object, taints: list[Object]) -> None:
        now = trio.current_time()
        due = self._evictions.consider(pod, taints, now)
        if due is not None:
            self.queue.add_after(key_of(pod), due - now)

    async def reconcile(self, key: Key) -> None:
        pod, due, now = self._pods.get(*key), self._evictions.due(key), trio.current_time()
        if pod is None or due is None:
            return
        if due > now:
            self.queue.add_after(key, due - now)
            return
        self._report(key, f"Marking for deletion Pod {key[0]}/{key[1]}")
        try:
            if DISRUPTION_CONDITIONS in self._features:
                await self._announce(pod)
            await self.client.delete(self._pods.definition, *key, DeleteOptions())
        except NotFound:
            pass
        self._evictions.done(key)

    async def _announce(self, pod: Object) -> None:
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        condition = disruption_target(pod, reason, message, self.now_text(), self._features)
        if condition is not None:
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
            await self.client.patch(self._pods.definition, *key_of(pod), patch, "strategic", "status")

    def _report_cancelled(self, key: Key) -> None:
        self._report(key, f"Cancelling deletion of Pod {key[0]}/{key[1]}")

    def _report(self, key: Key, message: str) -> None:
        about = {"metadata": {"namespace": key[0], "name": key[1]}}
        self.recorder.event(self._pods.definition, about, "Normal", "TaintManagerEviction", message)
