"""A new node gets the not-ready taint."""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER, KUBERNETES, Names
from tests.actors.admission.admitted import admitted
from tests.cases import cases

TAINT = {"key": "node.cluster.io/not-ready", "effect": "NoSchedule"}
OTHER = {"key": "example.com/x", "effect": "NoSchedule"}


def taints(
    spec: dict[str, Any], operation: str = "CREATE", names: Names = CLUSTER, plural: str = "nodes"
) -> Any:
    definition = built_in(names).find("", "v1", plural)
    assert definition is not None
    document = {"metadata": {}, "spec": spec}
    return admitted(TaintNodesByCondition(names), definition, operation, document)["spec"].get("taints")


@cases(
    ("given", "expected"),
    [
        (None, [TAINT]),
        ([OTHER], [OTHER, TAINT]),
        ([TAINT], [TAINT]),
        ([{**TAINT, "effect": "NoExecute"}], [{**TAINT, "effect": "NoExecute"}, TAINT]),
    ],
)
def test_new_node_gets_the_taint_once(given: Any, expected: Any) -> None:
    assert taints({"taints": given} if given else {}) == expected


def test_taint_key_is_that_of_the_dialect() -> None:
    assert taints({}, names=KUBERNETES)[0]["key"] == "node.kubernetes.io/not-ready"


def test_updates_and_other_kinds_get_no_taint() -> None:
    assert taints({}, "UPDATE") is None
    assert taints({}, plural="pods") is None
