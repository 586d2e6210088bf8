"""By default, pods tolerate a node that is not ready or unreachable for five minutes."""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from tests.actors.admission.admitted import admitted
from tests.cases import cases

KEYS = ("node.cluster.io/not-ready", "node.cluster.io/unreachable")
PODS = built_in(CLUSTER).find("", "v1", "pods")


def toleration(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def mutated(tolerations: list[dict[str, Any]], subresource: str = "") -> list[dict[str, Any]]:
    assert PODS is not None
    spec: dict[str, Any] = {"containers": [], "tolerations": tolerations, "priority": 0}
    pod = {"metadata": {}, "spec": spec}
    made = admitted(DefaultTolerationSeconds(CLUSTER), PODS, "UPDATE", pod, subresource=subresource)
    assert list(made["spec"]) == ["containers", "tolerations", "priority"]
    found: list[dict[str, Any]] = made["spec"]["tolerations"]
    return found


@cases(
    ("own", "added"),
    [
        ([], KEYS),
        ([{"key": "x", "operator": "Exists"}], KEYS),
        ([{**toleration(KEYS[0]), "tolerationSeconds": 5}], KEYS[1:]),
        ([{"key": KEYS[1], "operator": "Exists"}], KEYS[:1]),
        ([{"key": KEYS[1], "operator": "Exists", "effect": "NoSchedule"}], KEYS),
        ([{"operator": "Exists"}], ()),
    ],
)
def test_missing_tolerations_are_added(own: Any, added: tuple[str, ...]) -> None:
    assert mutated(own) == [*own, *(toleration(key) for key in added)]


def test_tolerations_are_not_added_for_subresources() -> None:
    assert mutated([], "status") == []
