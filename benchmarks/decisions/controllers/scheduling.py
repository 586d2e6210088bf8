"""docs/decisions/0058-scheduler.md: what one decision of the scheduler costs among many equal pods.

Pods of one template are assigned one after the other, each counting on its node; nothing is written.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.scheduler.configuration import default_configuration
from rewound.actors.scheduler.evaluation import Evaluations, Unschedulable, finished
from rewound.actors.scheduler.matching import equality_selector
from rewound.actors.scheduler.nodes import Cluster
from rewound.actors.scheduler.plugins import SchedulingContext
from rewound.actors.scheduler.volume_objects import VolumeObjects

NODES = 5000
ZONES = 3
LABELS = {"app": "web"}
PROFILE = default_configuration().profiles["default-scheduler"]


class Decisions:
    """A cluster, and pods that request this much CPU."""

    def __init__(self, nodes: int, cpu: str, *, remembers: bool) -> None:
        self._cluster, self._cpu, self._remembers = Cluster(KUBERNETES), cpu, remembers
        for number in range(nodes):
            self._cluster.set_node(_node(number))
        self._evaluations = Evaluations(self._cluster, random.Random(1))
        volumes, selector = VolumeObjects(KUBERNETES), equality_selector(LABELS)
        self._around = SchedulingContext(self._cluster, volumes, {}, selector)
        self._number = 0

    def one(self) -> None:
        self._number += 1
        facts = self._cluster.shapes.facts(_pod(self._number, self._cpu))
        if not self._remembers:
            self._evaluations.clear()
        try:
            evaluation = finished(self._evaluations.of(PROFILE, facts, self._around))
            self._cluster.assume(facts, finished(self._evaluations.choose(evaluation, facts)).name)
        except Unschedulable as refused:
            refused.diagnosis.message()


def _node(number: int) -> Object:
    labels = {
        KUBERNETES.key("hostname"): f"node-{number}",
        KUBERNETES.key("zone", "topology"): f"zone-{number % ZONES}",
    }
    resources = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    metadata = {"name": f"node-{number}", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": resources}}


def _pod(number: int, cpu: str) -> Object:
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    metadata = {"name": f"web-{number}", "namespace": "default", "uid": str(number), "labels": LABELS}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def main(effort: Effort) -> None:
    nodes = 100 if effort.quick else NODES
    for title, cpu in (("a pod that fits", "1m"), ("a pod that fits nowhere", "100")):
        alternatives: dict[str, Callable[[], None]] = {
            "only nodes that changed": Decisions(nodes, cpu, remembers=True).one,
            "every node that is tried": Decisions(nodes, cpu, remembers=False).one,
        }
        compare(f"{title}, {nodes} nodes", alternatives, effort)


if __name__ == "__main__":
    main(effort_of_command_line())
