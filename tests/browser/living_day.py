"""The journal of a day in a cluster of a hundred nodes: nine of ten events are leases, the rest is what clusters do.

Nodes renew leases and report their status; deployments roll out, with ReplicaSets, pods and Events; a pod in each
namespace crashes again and again. The events go straight into the journal of a stopped server: a million in a minute.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from rewound.actors.rewind.moments import rfc3339
from rewound.actors.selectors.facts import pack_facts
from rewound.journal import Journal
from rewound.journal.records import Event

DAY = 86_400 * 1_000_000
BATCH = 20_000
COORDINATION = "coordination.cluster.io"
NODES = 100
NAMESPACES = 40
LEASES = 0.9  # of all events
HEARTBEATS = 0.4  # of the others
KUBELET, CONTROLLER, CI = "kubelet", "controller-manager", "ci"

Document = dict[str, Any]
Step = tuple[str, str, str, Document | None, str, str]  # type, namespace, name, content, user, field manager


class LivingDay:
    """What exists, and what happens next; `add` may be called again after a server has written to the journal."""

    def __init__(self) -> None:
        self._types: dict[str, int] = {}
        self._chance = random.Random(11)
        self._versions: dict[tuple[str, str, str], int] = {}
        self._bodies: dict[tuple[str, str, str], Document] = {}
        self._work = self._rollouts()
        self._now = ""

    def add(self, folder: Path, many: int, span: int) -> None:
        """Append events to the journal of a stopped server, evenly over so many microseconds after the newest one."""
        journal = Journal.open(folder)
        try:
            self._types = {
                name.removesuffix(f".{COORDINATION}"): one for name, one in journal.types().items()
            }
            first = journal.head + 1
            with journal.read() as view:
                newest = view.event(view.head)
            began = newest.time if newest is not None else 0
            for start in range(first, first + many, BATCH):
                batch = []
                for offset in range(start, min(start + BATCH, first + many)):
                    time = began + (offset - first + 1) * span // many
                    self._now = rfc3339(time)
                    batch.append(self._event(offset, time, self._step(offset)))
                journal.append(batch)
        finally:
            journal.close()

    def _step(self, number: int) -> Step:
        node, chance = f"node-{number % NODES}", self._chance.random()
        if chance < LEASES:
            spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": self._now}
            return "leases", "kube-node-lease", node, {"spec": spec}, f"system:node:{node}", KUBELET
        if chance < LEASES + (1 - LEASES) * HEARTBEATS:
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": self._now}
            return (
                "nodes",
                "",
                node,
                {"spec": {}, "status": {"conditions": [ready]}},
                f"system:node:{node}",
                KUBELET,
            )
        return next(self._work)

    def _rollouts(self) -> Iterator[Step]:
        """Endless work of developers and controllers, one namespace after the other."""
        turn = 0
        while True:
            for team in range(NAMESPACES):
                yield from self._rollout(f"team-{team}", f"shop-{turn % 5}", turn)
            turn += 1

    def _rollout(self, namespace: str, name: str, turn: int) -> Iterator[Step]:
        user = "system:serviceaccount:kube-system:deployment-controller"
        labels = {"app": name}
        pod = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": f"{name}:{turn}"}]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
        deployment = {"spec": spec, "status": {}}
        yield "deployments.apps", namespace, name, deployment, f"system:serviceaccount:{namespace}:{CI}", CI
        old, new = f"{name}-{turn - 5}", f"{name}-{turn}"
        owner = self._owner("deployments.apps", "Deployment", namespace, name)
        yield "replicasets.apps", namespace, new, {**owner, "spec": spec}, user, CONTROLLER
        for number in range(2):
            owner = self._owner("replicasets.apps", "ReplicaSet", namespace, new)
            created = {**owner, "spec": pod["spec"], "status": {"phase": "Pending"}}
            yield "pods", namespace, f"{new}-{number}", created, user, CONTROLLER
            bound = {**created, "spec": {**pod["spec"], "nodeName": f"node-{(turn + number) % NODES}"}}
            yield "pods", namespace, f"{new}-{number}", bound, "system:kube-scheduler", "kube-scheduler"
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            yield "pods", namespace, f"{new}-{number}", {**bound, "status": ready}, "system:node", KUBELET
            about = {"kind": "Pod", "namespace": namespace, "name": f"{new}-{number}"}
            event = {
                "involvedObject": about,
                "reason": "Started",
                "message": "Started container main",
                "type": "Normal",
            }
            yield "events", namespace, f"{new}-{number}.{turn}", event, "system:node", KUBELET
            if self._exists("pods", namespace, f"{old}-{number}"):
                yield "pods", namespace, f"{old}-{number}", None, "system:node", KUBELET
        if self._exists("replicasets.apps", namespace, old):
            yield "replicasets.apps", namespace, old, None, user, CONTROLLER
        done = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        yield "deployments.apps", namespace, name, {**deployment, "status": done}, user, CONTROLLER
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
        state = {"running": {}} if turn % 2 else {"waiting": waiting}
        crashing = {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "restartCount": turn, "state": state}],
        }
        yield "pods", namespace, "worker", {"spec": pod["spec"], "status": crashing}, "system:node", KUBELET

    def _exists(self, type_name: str, namespace: str, name: str) -> bool:
        return self._versions.get((type_name, namespace, name), 0) > 0

    def _owner(self, type_name: str, kind: str, namespace: str, name: str) -> Document:
        uid = _uid(type_name, namespace, name)
        return {
            "metadata": {
                "ownerReferences": [
                    {"kind": kind, "apiVersion": "apps/v1", "name": name, "uid": uid, "controller": True}
                ]
            }
        }

    def _event(self, offset: int, time: int, step: Step) -> Event:
        type_name, namespace, name, content, user, manager = step
        key = type_name, namespace, name
        previous = self._versions.get(key, 0)
        removed = content is None
        if content is not None:
            self._bodies[key] = content
        body = self._bodies.pop(key) if removed else self._bodies[key]
        uid = _uid(type_name, namespace, name)
        owners = body.get("metadata", {}).get("ownerReferences", [])
        where = {"namespace": namespace} if namespace else {}
        made = {"creationTimestamp": "2023-11-14T22:13:20Z", "resourceVersion": str(offset)}
        metadata = {"name": name, **where, "uid": uid, **made, **body.get("metadata", {})}
        self._versions[key] = 0 if removed else offset
        verb = "delete" if removed else "patch" if previous else "create"
        facts = pack_facts({}, {}, uid, [one["uid"] for one in owners])
        written = orjson.dumps({**body, "metadata": metadata})
        type_id = self._types[type_name]
        return Event(
            offset, type_id, verb, namespace, name, previous, removed, time, user, manager, facts, written
        )


def _uid(type_name: str, namespace: str, name: str) -> str:
    return f"{crc32(type_name.encode()):08x}-0000-4000-8000-{crc32(f'{namespace}/{name}'.encode()):012x}"
