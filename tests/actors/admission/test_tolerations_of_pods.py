"""Pods stay five minutes on a node that is not ready or out of reach, if they say nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from actors.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from actors.kinds.built_in import built_in
from actors.names import CLUSTER
from tests.actors.admission.admitted import admitted

KEYS = ("node.cluster.io/not-ready", "node.cluster.io/unreachable")
PODS = built_in(CLUSTER).find("", "v1", "pods")


def patience(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def mutated(tolerations: list[dict[str, Any]], subresource: str = "") -> list[dict[str, Any]]:
    assert PODS is not None
    spec: dict[str, Any] = {"containers": [], "tolerations": tolerations, "priority": 0}
    pod = {"metadata": {}, "spec": spec}
    made = admitted(DefaultTolerationSeconds(CLUSTER), PODS, "UPDATE", pod, subresource=subresource)
    assert list(made["spec"]) == ["containers", "tolerations", "priority"]
    found: list[dict[str, Any]] = made["spec"]["tolerations"]
    return found


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], KEYS),
        ([{"key": "x", "operator": "Exists"}], KEYS),
        ([{**patience(KEYS[0]), "tolerationSeconds": 5}], KEYS[1:]),
        ([{"key": KEYS[1], "operator": "Exists"}], KEYS[:1]),
        ([{"key": KEYS[1], "operator": "Exists", "effect": "NoSchedule"}], KEYS),
        ([{"operator": "Exists"}], ()),
    ],
)
def test_what_is_added(own: Any, added: tuple[str, ...]) -> None:
    assert mutated(own) == [*own, *(patience(key) for key in added)]


def test_only_to_pods_themselves() -> None:
    assert mutated([], "status") == []
