"""TaintNodesByCondition: nothing is put on a new node until somebody has found it ready and takes the taint away."""

from __future__ import annotations

from typing import Final

from actors.admission.chain import Review
from actors.errors import Resource
from actors.kinds.core.node import SPEC
from actors.names import Names

NODES: Final = Resource("", "nodes")
EFFECT: Final = "NoSchedule"


class TaintNodesByCondition:
    def __init__(self, names: Names) -> None:
        self._key = names.key("not-ready", "node")

    def mutate(self, review: Review) -> None:
        node = review.object
        if review.definition.resource != NODES or review.operation != "CREATE" or node is None:
            return
        taints = node["spec"].get("taints", [])
        if not any(taint.get("key") == self._key and taint.get("effect") == EFFECT for taint in taints):
            taints = [*taints, {"key": self._key, "effect": EFFECT}]
            node["spec"] = SPEC.arranged({**node["spec"], "taints": taints})

    def validate(self, review: Review) -> None:
        return
