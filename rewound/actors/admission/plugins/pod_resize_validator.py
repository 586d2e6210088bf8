"""PodResizeValidator: a pod may not be resized to more than its whole node has, nor on a node without Linux."""

from __future__ import annotations

from typing import Final

import msgspec

from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.errors import Cause, Forbidden, Resource
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.core.resources import total_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import nanos_of
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import RESIZE, RESIZES_CHECKED
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
NODES: Final = Resource("", "nodes")
_UNITS: Final = {"cpu": 10**6, "memory": 10**9}  # nano-units of what the message counts


class _Node(msgspec.Struct, frozen=True):
    system: str  # "": unknown
    allocatable: dict[str, int]  # in nano-units


class PodResizeValidator(Plugin):
    name = "PodResizeValidator"

    def __init__(self, names: Names, journal: Journal, feed: Feed, features: frozenset[str]) -> None:
        if {RESIZE, RESIZES_CHECKED} <= features:
            self.validates = (rule(UPDATE, of=(PODS,), subresources=("resize",)),)
        self._system_key = names.key("os")
        self._nodes = CachedObjects(NODES, journal, feed, self._copied)

    def _copied(self, node: Object) -> _Node:
        amounts = node.get("status", {}).get("allocatable", {})
        allocatable = {name: nanos_of(amounts.get(name, "0")) for name in _UNITS}
        return _Node(node["metadata"].get("labels", {}).get(self._system_key, ""), allocatable)

    def validate(self, request: AdmissionRequest) -> None:
        new, old = request.object, request.old
        assert new is not None and old is not None
        name = new["spec"].get("nodeName")
        if not name or new["spec"] == old["spec"]:
            return
        node = self._nodes.all().get(name)
        if node is None:
            raise Forbidden(PODS, request.name, f"node {quoted(name)} not found")
        if node.system not in ("", "linux"):
            text = (
                f"pod resize is only supported on linux nodes, node {quoted(name)} is {quoted(node.system)}"
            )
            raise Forbidden(PODS, request.name, text, (Cause("UnsupportedPlatform", ""),))
        requests = _requests(new["spec"])
        lacking = [
            f"{kind}, requested: {-(-requests[kind] // unit)}, allocatable: {-(-node.allocatable[kind] // unit)}"
            for kind, unit in _UNITS.items()
            if requests[kind] > node.allocatable[kind]
        ]
        if lacking:
            text = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
            raise Forbidden(PODS, request.name, text, (Cause("NodeCapacity", ""),))


def _requests(spec: Object) -> dict[str, int]:
    of_containers, of_pod = total_of(spec, "requests"), (spec.get("resources") or {}).get("requests") or {}
    overhead = spec.get("overhead") or {}
    return {
        kind: nanos_of(of_pod.get(kind, of_containers.get(kind, "0"))) + nanos_of(overhead.get(kind, "0"))
        for kind in _UNITS
    }
