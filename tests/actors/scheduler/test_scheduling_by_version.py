"""What the scheduler of newer versions does differently, as compared with kube-scheduler v1.36."""

from __future__ import annotations

from pathlib import Path

from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import KUBERNETES
from rewound.actors.scheduler.matching import EVERYTHING
from rewound.actors.scheduler.nodes import Cluster, NodeState
from rewound.actors.scheduler.plugins import SchedulingContext
from rewound.actors.scheduler.pods import PodFacts, Requests, requests_of
from rewound.actors.scheduler.resources import NodeResourcesBalancedAllocation
from rewound.actors.scheduler.scheduler import Scheduler
from rewound.actors.scheduler.volume_objects import VolumeObjects
from rewound.actors.selectors.nodes import tolerates
from rewound.actors.versions.features import choose_release
from tests.actors.scheduler.scheduling import add_nodes, assigned, end, node, open_scheduling, pod, refusal
from tests.actors.scheduler.test_preemption import add_classes, run, terminating

NEWEST = choose_release("1.36")


async def test_gated_pod_is_not_tried(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_nodes(bench, node("a"))
        await bench.create("pods", pod("gated", cpu="1", schedulingGates=[{"name": "example.org/wait"}]))
        await bench.rest(600)
        (condition,) = bench.get("pods", "gated")["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
        await bench.patch("pods", "gated", {"spec": {"schedulingGates": None}})
        await bench.rest(2)
        assert assigned(bench) == {"gated": "a"}


async def test_preempted_pod_has_a_condition(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="2"), node("b", cpu="1"))
        await run(bench, "small", "low", "a")
        await run(bench, "big", "high")
        assert terminating(bench) == ["small"]
        conditions = bench.get("pods", "small")["status"]["conditions"]
        found = next(one for one in conditions if one["type"] == "DisruptionTarget")
        assert (found["status"], found["reason"]) == ("True", "PreemptionByScheduler")
        assert found["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
        uid = bench.get("pods", "big")["metadata"]["uid"]
        assert ("Preempted", f"Preempted by pod {uid} on node a") in bench.events("small")
        await end(bench, "small")
        await bench.rest(20)
        assert assigned(bench) == {"big": "a"}


async def test_pods_that_somebody_deleted_do_not_keep_a_pod_from_preempting_others(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_classes(bench)
        await add_nodes(bench, node("a", cpu="2"))
        await run(bench, "leaving", "low", "a", cpu="1")
        await run(bench, "staying", "low", "a", cpu="1")
        await run(bench, "big", "high", schedulingGates=[{"name": "example.org/wait"}])
        await bench.patch("pods", "big", {"status": {"nominatedNodeName": "a"}}, "status")
        await bench.client.delete(bench.catalog.storage("pods"), "default", "leaving", DeleteOptions())
        await bench.patch("pods", "big", {"spec": {"schedulingGates": None}})
        await bench.rest(2)
        assert terminating(bench) == ["leaving", "staying"]
        # Now it waits for the one that it preempted.
        await end(bench, "leaving")
        await bench.rest(5)
        waiting = "preemption: not eligible due to a terminating pod on the nominated node."
        assert refusal(bench, "big").endswith(waiting)


async def test_reasons(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_classes(bench)
        taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
        await add_nodes(bench, node("a", cpu="1"), node("b", cpu="4", taints=[taint]))
        await run(bench, "low", "low", cpu="1")
        # Nobody makes room on a node that is too small when it is empty.
        await run(bench, "large", "high", cpu="2")
        assert refusal(bench, "large") == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to "
            "deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        await bench.create("pods", pod("claims", volumes=[claim]))
        await bench.rest(2)
        assert refusal(bench, "claims") == (
            '0/2 nodes are available: persistentvolumeclaim "missing" not found. not found'
        )


def test_balance_is_compared_with_that_before() -> None:
    cluster = Cluster(KUBERNETES, NEWEST.features)
    cluster.set_node(node("a", cpu="2"))
    cluster.assume(_facts(cluster, pod("full", memory="9Gi")), "a")
    state = cluster.nodes["a"]
    assert _balance(cluster, state, pod("cpu", cpu="1")) == 87  # from 50 of 100 to 75
    assert _balance(cluster, state, pod("nothing")) is None


def _facts(cluster: Cluster, made: Object) -> PodFacts:
    named = {"namespace": "default", "uid": made["metadata"]["name"], **made["metadata"]}
    return cluster.shapes.facts({**made, "metadata": named})


def _balance(cluster: Cluster, state: NodeState, made: Object) -> object:
    around = SchedulingContext(cluster, VolumeObjects(KUBERNETES), {}, EVERYTHING)
    score = NodeResourcesBalancedAllocation().prepare(_facts(cluster, made), around).score
    return None if score is None else score.key(state)


async def test_resized_pod_counts_until_its_node_is_done(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        await add_nodes(bench, node("a", cpu="4"))
        await bench.create("pods", pod("first", cpu="3"))
        await bench.rest(2)
        held = {"name": "main", "image": "web:1", "imageID": "", "ready": True, "restartCount": 0}
        held |= {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}}
        await bench.patch("pods", "first", {"status": {"containerStatuses": [held]}}, "status")
        (container,) = bench.get("pods", "first")["spec"]["containers"]
        smaller = {**container, "resources": {"requests": {"cpu": "1"}}}
        await bench.patch("pods", "first", {"spec": {"containers": [smaller]}}, "resize")
        await bench.create("pods", pod("second", cpu="2"))
        await bench.rest(20)
        assert assigned(bench)["second"] == ""
        held |= {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
        await bench.patch("pods", "first", {"status": {"containerStatuses": [held]}}, "status")
        await bench.rest(20)
        assert assigned(bench)["second"] == "a"


def _requests(**spec: object) -> Requests:
    made: Object = {"spec": {"containers": [{"name": "main"}], **spec}}
    return requests_of(made, NEWEST.features)


def test_sidecars_count_beside_what_runs_with_them() -> None:
    def container(name: str, cpu: str, **more: str) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    sidecar, first = container("s", "2", restartPolicy="Always"), container("i", "3")
    main = [container("main", "1")]
    assert _requests(containers=main, initContainers=[sidecar, first]).total("cpu") == 5000
    assert _requests(containers=main, initContainers=[first, sidecar]).total("cpu") == 3000
    whole = _requests(containers=main, initContainers=[sidecar], resources={"requests": {"cpu": "8"}})
    assert (whole.total("cpu"), whole.total("memory", 7)) == (8000, 14)


def test_tolerations_that_compare() -> None:
    taint = {"key": "sla", "value": "950", "effect": "NoSchedule"}
    assert tolerates({"key": "sla", "operator": "Gt", "value": "900"}, taint)
    assert not tolerates({"key": "sla", "operator": "Lt", "value": "900"}, taint)
    assert not tolerates({"key": "sla", "operator": "Gt", "value": "0900"}, taint)


async def test_only_changes_that_concern_a_pod_make_it_tried_again(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_scheduling(tmp_path, release=NEWEST) as bench:
        taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
        await add_nodes(bench, node("a", cpu="1", taints=[taint]))
        await bench.create("pods", pod("waits", cpu="1"))
        await bench.rest(20)

        (scheduler,) = (loop.controller for loop in bench.workloads.loops if loop.name == "scheduler")
        assert isinstance(scheduler, Scheduler)
        before = sum(scheduler.statistics().attempts.values())
        await bench.patch("nodes", "a", {"metadata": {"labels": {"disk": "ssd"}}})
        await bench.patch("pods", "waits", {"metadata": {"annotations": {"note": "x"}}})
        await bench.rest(20)
        assert sum(scheduler.statistics().attempts.values()) == before
        await bench.patch("nodes", "a", {"spec": {"taints": None}})
        await bench.rest(20)
        assert assigned(bench) == {"waits": "a"}
