"""Pod: the QoS class follows from requests and limits."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, pod
from tests.cases import cases

FULL = {"cpu": "1", "memory": "1Gi"}


@cases(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"ephemeral-storage": "1Gi"}}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"limits": FULL}, "Guaranteed"),
        ({"limits": FULL, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": FULL}, "Burstable"),
        ({"limits": FULL, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_qos_class_of_one_container(kinds: Definitions, resources: Any, expected: str) -> None:
    stored = kinds.stored("pods", pod(containers=[{**CONTAINER, "resources": resources}]))
    assert stored["status"] == {"phase": "Pending", "qosClass": expected}


def test_qos_class_depends_on_all_containers(kinds: Definitions) -> None:
    guaranteed = {**CONTAINER, "resources": {"limits": FULL}}
    for spec in (
        {"containers": [guaranteed, {"name": "d", "image": "x"}]},
        {"initContainers": [{**guaranteed, "name": "i"}]},
    ):
        stored = kinds.stored("pods", pod(**spec))
        assert stored["status"]["qosClass"] == "Burstable"
    both = {"containers": [guaranteed], "initContainers": [{**guaranteed, "name": "i"}]}
    assert kinds.stored("pods", pod(**both))["status"]["qosClass"] == "Guaranteed"
