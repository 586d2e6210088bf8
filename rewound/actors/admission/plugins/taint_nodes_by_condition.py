"""TaintNodesByCondition: new nodes get the NoSchedule taint `not-ready`, which the node controller removes."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.node import SPEC
from rewound.actors.messages import Object
from rewound.actors.names import Names

NODES: Final = Resource("", "nodes")
EFFECT: Final = "NoSchedule"


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"
    thread_safe = True
    mutates = (rule(CREATE, of=(NODES,)),)

    def __init__(self, names: Names) -> None:
        self._key = names.key("not-ready", "node")

    def mutate(self, request: AdmissionRequest) -> Object | None:
        node = request.object
        assert node is not None
        taints = node["spec"].get("taints", [])
        if any(taint.get("key") == self._key and taint.get("effect") == EFFECT for taint in taints):
            return None
        taints = [*taints, {"key": self._key, "effect": EFFECT}]
        return {**node, "spec": SPEC.arranged({**node["spec"], "taints": taints})}
