"""The requests of a pod are added up in one pass, however many resources its containers name."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.names import KUBERNETES
from rewound.actors.nodes.resources import pod_resources
from rewound.actors.scheduler.pods import Shapes
from rewound.actors.versions.features import V1_25


class Counted(dict[str, Any]):
    """A dict that counts how often it is asked."""

    asked = 0

    def get(self, *arguments: Any) -> Any:
        Counted.asked += 1
        return super().get(*arguments)

    def items(self) -> Any:
        Counted.asked += 1
        return super().items()


def pod(number: int, **more: str) -> dict[str, Any]:
    """A pod whose containers each have a resource of their own."""
    containers = [
        {"name": f"c{at}", "resources": {"requests": Counted({f"example.com/r{at}": "1"})}, **more}
        for at in range(number)
    ]
    initial, regular = ([], containers) if not more else (containers, [{"name": "c"}])
    metadata = {"namespace": "default", "name": "p", "uid": "u"}
    return {"metadata": metadata, "spec": {"initContainers": initial, "containers": regular}}


@pytest.mark.parametrize("more", [{}, {"restartPolicy": "Always"}], ids=["containers", "sidecars"])
def test_work_for_requests_grows_with_the_containers(more: dict[str, str]) -> None:
    asked = []
    for number in (20, 200):
        Counted.asked = 0
        made = pod(number, **more)
        facts = Shapes(KUBERNETES, V1_25.features).facts(made)
        assert facts.shape.requests == {f"example.com/r{at}": 1 for at in range(number)}
        asked.append(Counted.asked)
        assert pod_resources(made["spec"])["requests"]["example.com/r7"] == "1"
    assert asked[1] <= 10 * asked[0]


def test_init_containers_need_what_runs_beside_them() -> None:
    def asking(name: str, wanted: str, **more: str) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"cpu": wanted}}, **more}

    initial = [
        asking("s1", "1", restartPolicy="Always"),
        asking("i", "7"),
        asking("s2", "2", restartPolicy="Always"),
    ]
    made = pod(1)
    made["spec"] |= {"initContainers": initial, "containers": [asking("c", "3")], "overhead": {"cpu": "100m"}}
    assert Shapes(KUBERNETES, V1_25.features).facts(made).shape.requests == {"cpu": 8100}
    assert pod_resources(made["spec"]) == {"requests": {"cpu": "8100m"}}
