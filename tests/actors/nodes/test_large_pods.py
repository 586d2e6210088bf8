"""A node looks at a pod of any size in steps, reads an object that it refers to once, and gives up what takes long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.nodes import simulator
from rewound.actors.nodes.behaviour import Behaviour
from rewound.actors.nodes.pod_status import Placement, next_step, stopped_status
from rewound.actors.nodes.references import Reference
from tests.actors.nodes.simulated_cluster import bound_to, simulated_cluster
from tests.actors.nodes.test_simulator import recorded

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


def pod(containers: list[Object], **more: Any) -> Object:
    metadata = {"namespace": "default", "name": "p", "uid": "u"}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": "Pending"}, **more}


def nothing(_: Reference) -> Object | None:
    return None


def looked_at(made: Object, find: Callable[[Reference], Object | None] = nothing) -> tuple[int, Any]:
    """The number of steps, and the result."""
    placement = Placement("192.168.0.1", lambda: "10.244.0.1", find)
    steps, count = next_step(made, Behaviour(), placement, NOW), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


class Named(dict[str, Any]):
    """A status of a container that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        Named.looks += 1
        return super().__getitem__(key)


def test_steps_and_looks_grow_with_the_containers() -> None:
    counts, looks = [], []
    for number in (32, 320):
        containers = [{"name": f"c{at}", "image": "i"} for at in range(number)]
        count, step = looked_at(pod(containers))
        assert len(step.status["containerStatuses"]) == number
        counts.append(count)
        running = [Named(one) for one in step.status["containerStatuses"]]
        stopping = pod(containers, status={**step.status, "containerStatuses": running})
        stopping["metadata"] |= {"deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 0}
        Named.looks = 0
        for _ in stopped_status(stopping, Behaviour(), Placement("1.2.3.4", lambda: ""), NOW):
            pass
        looks.append(Named.looks)
    assert counts[0] >= 4 and counts[1] >= 40
    assert looks[1] <= 10 * looks[0]


def test_object_that_many_variables_refer_to_is_read_once() -> None:
    reads: list[Reference] = []

    def find(reference: Reference) -> Object:
        reads.append(reference)
        return {"data": {f"k{at}": "v" for at in range(100)}}

    env = [
        {"name": f"E{at}", "valueFrom": {"configMapKeyRef": {"name": "m", "key": f"k{at}"}}}
        for at in range(100)
    ]
    sources = [{"configMapRef": {"name": "m"}} for _ in range(100)]
    count, step = looked_at(pod([{"name": "c", "image": "i", "env": env, "envFrom": sources}]), find)
    assert step.status["phase"] == "Running"
    assert reads == [Reference("configmaps", "default", "m")]
    assert count >= 10


async def test_pod_that_takes_too_long_gets_an_event_and_others_run(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        monkeypatch.setattr(simulator, "MOST_SECONDS", -1.0)
        await cluster.create("pods", "costly", content=bound_to("node-0"))
        await cluster.wait_until_idle(100)
        monkeypatch.setattr(simulator, "MOST_SECONDS", 5.0)
        await cluster.create("pods", "other", content=bound_to("node-0"))
        await cluster.wait_until_idle(100)
        costly, other = cluster.get("pods", "costly"), cluster.get("pods", "other")
        assert costly is not None and other is not None
        assert costly["status"]["phase"] == "Pending" and other["status"]["phase"] == "Running"
        event = recorded(cluster, "TooCostly")[0]
        assert event["involvedObject"]["name"] == "costly" and event["count"] == 1
        assert "create it with fewer containers" in event["message"]
