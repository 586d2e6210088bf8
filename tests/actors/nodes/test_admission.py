"""A simulated node admits a pod that is bound to it only if it fits, as a kubelet does."""

from __future__ import annotations

from typing import Any

from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.nodes.admission import CRITICAL_PRIORITY, Admission, PodAdmission, Rejection
from rewound.actors.versions.features import V1_25, choose_release
from tests.at_once import at_once
from tests.cases import cases

NEWEST = choose_release("1.36").features


def node(**spec: Any) -> Object:
    return {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "1Gi", "pods": "3"}},
    }


def pod(name: str = "p", cpu: str = "", ports: tuple[int, ...] = (), **spec: Any) -> Object:
    container: Object = {"name": "c", "image": "i", "ports": [{"hostPort": port} for port in ports]}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def admit(new: Object, *others: Object, at: Object | None = None, features: frozenset[str] = NEWEST) -> Any:
    return judged(PodAdmission(KUBERNETES, features, lambda name: others), new, at)


def judged(admission: PodAdmission, new: Object, at: Object | None = None) -> Admission:
    return admission.admit(at_once(admission.facts(new)), at or node())


@cases(
    "new, others, rejection",
    [
        (pod(), [], None),
        (pod(cpu="2"), [], None),
        (
            pod(cpu="1500m"),
            [pod("a", "600m")],
            Rejection(
                "OutOfcpu",
                "Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000",
            ),
        ),
        (
            pod(),
            [pod("a"), pod("b"), pod("c")],
            Rejection(
                "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
            ),
        ),
        (
            pod(ports=(80,)),
            [pod("a", ports=(80,))],
            Rejection(
                "NodePorts",
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            ),
        ),
        (
            pod(nodeSelector={"zone": "b"}),
            [],
            Rejection(
                "NodeAffinity",
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            ),
        ),
        (
            pod(os={"name": "windows"}),
            [],
            Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
    ],
)
def test_pod_that_does_not_fit_is_rejected(
    new: Object, others: list[Object], rejection: Rejection | None
) -> None:
    assert admit(new, *others).rejection == rejection


def test_taints_that_execute_reject_a_pod_without_toleration() -> None:
    tainted = node(taints=[{"key": "k", "effect": "NoExecute"}, {"key": "o", "effect": "NoSchedule"}])
    assert admit(pod(), at=tainted, features=V1_25.features).rejection == Rejection(
        "TaintToleration", "Predicate TaintToleration failed"
    )
    assert admit(pod(tolerations=[{"key": "k", "operator": "Exists"}]), at=tainted).rejection is None


def test_resources_unknown_to_the_node_do_not_count() -> None:
    wanted = pod()
    wanted["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1"}}
    assert admit(wanted).rejection is None
    offering = node()
    offering["status"]["allocatable"]["example.com/gpu"] = "0"
    assert admit(wanted, at=offering).rejection.reason == "OutOfexample.com/gpu"


def test_critical_pod_preempts_as_few_pods_as_it_can() -> None:
    critical = pod(cpu="1", priority=CRITICAL_PRIORITY)
    small, large = pod("small", "300m"), pod("large", "1500m")
    assert admit(critical, small, large).preempted == [large]
    assert admit(pod(cpu="500m", priority=CRITICAL_PRIORITY), small, large).preempted == [small]
    same = pod("same", "1500m", priority=CRITICAL_PRIORITY)
    assert admit(critical, same).rejection.reason == "UnexpectedAdmissionError"
    assert (
        admit(pod(priority=CRITICAL_PRIORITY, nodeSelector={"x": "y"}), large).rejection.reason
        == "NodeAffinity"
    )


def test_pod_of_a_static_pod_is_not_checked() -> None:
    mirror = pod(cpu="9")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    assert admit(mirror).rejection is None


@cases(
    "cpu, problem",
    [
        ("1500m", None),
        (
            "1900m",
            Rejection(
                "Deferred",
                "Node didn't have enough resource: cpu, requested: 1900, used: 400, capacity: 2000",
            ),
        ),
        (
            "3",
            Rejection("Infeasible", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"),
        ),
    ],
)
def test_resize_has_to_fit(cpu: str, problem: Rejection | None) -> None:
    running = [pod("a", "400m", nodeName="n"), pod(cpu="100m", nodeName="n")]
    admission = PodAdmission(KUBERNETES, NEWEST, lambda name: running)
    assert admission.resize_problem(pod(cpu=cpu, nodeName="n"), node()) == problem
    fits = judged(admission, pod("b", "1")).rejection is None
    assert fits == (problem is not None)  # what was resized counts


def test_pods_that_end_make_room() -> None:
    admission = PodAdmission(KUBERNETES, NEWEST, lambda name: ())
    first = pod("a", "2", nodeName="n")
    assert judged(admission, first).rejection is None
    assert judged(admission, first).rejection is None  # once more, because its status was not written
    assert judged(admission, pod("b", "1")).rejection is not None
    admission.pod_ended(first)
    assert judged(admission, pod("b", "1")).rejection is None
