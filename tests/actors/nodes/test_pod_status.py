"""The status of a pod on a simulated node is computed from the pod, its annotations and the time."""

from __future__ import annotations

from itertools import count
from typing import Any

from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.nodes.behaviour import behaviour_of
from rewound.actors.nodes.pod_status import Placement, Step, next_step, seconds_to_deletion
from tests.cases import cases

START = 1_700_000_000_000_000
SECOND = 1_000_000


class Pod:
    """A pod on a node, whose status is updated as the node would write it."""

    def __init__(self, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        containers = spec.pop("containers", [{"name": "c", "image": "i"}])
        self.object: Object = {
            "metadata": {
                "name": "p",
                "namespace": "default",
                "uid": "u",
                "annotations": {f"sim/{key}": value for key, value in (annotations or {}).items()},
            },
            "spec": {"containers": containers, "restartPolicy": "Always", **spec},
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        }
        self._numbers = count(1)

    def at(self, seconds: float) -> Step:
        behaviour = behaviour_of(self.object, KUBERNETES)
        placement = Placement("192.168.0.1", lambda: f"10.244.0.{next(self._numbers)}")
        step = next_step(self.object, behaviour, placement, START + round(seconds * SECOND))
        if step.status is not None:
            self.object = {**self.object, "status": step.status}
        return step

    @property
    def status(self) -> Object:
        status: Object = self.object["status"]
        return status

    def condition(self, kind: str) -> Object:
        return next(one for one in self.status["conditions"] if one["type"] == kind)

    @property
    def ready(self) -> bool:
        return bool(self.condition("Ready")["status"] == "True")

    @property
    def state(self) -> str:
        (state,) = self.status["containerStatuses"][0]["state"].items()
        return f"{state[0]} {state[1].get('reason', '')}".strip()

    @property
    def restarts(self) -> int:
        restarts: int = self.status["containerStatuses"][0]["restartCount"]
        return restarts


def test_pod_runs_at_once_and_its_status_stays() -> None:
    pod = Pod()
    assert pod.at(0) == (pod.status, None)
    assert (pod.status["phase"], pod.ready, pod.state) == ("Running", True, "running")
    assert (pod.status["podIP"], pod.status["hostIP"]) == ("10.244.0.1", "192.168.0.1")
    assert (
        list(pod.status)[:3] == ["phase", "conditions", "hostIP"] and pod.status["qosClass"] == "BestEffort"
    )
    assert pod.at(100) == (None, None)


@cases(
    "annotations, phase, ready, state, restarts",
    [
        ({"phase": "Running"}, "Running", True, "running", 0),
        ({"phase": "NeverReady", "restarts": "2"}, "Running", False, "running", 2),
        ({"phase": "Succeeded"}, "Succeeded", False, "terminated Completed", 0),
        ({"phase": "Failed", "exit-code": "7"}, "Failed", False, "terminated Error", 0),
        ({"phase": "CrashLoop"}, "Running", False, "waiting CrashLoopBackOff", 3),
        ({"phase": "ImagePull"}, "Pending", False, "waiting ImagePullBackOff", 0),
        ({"phase": "Nonsense"}, "Running", True, "running", 0),
    ],
)
def test_annotations_choose_the_phase(
    annotations: dict[str, str], phase: str, ready: bool, state: str, restarts: int
) -> None:
    pod = Pod(annotations)
    pod.at(0)
    assert (pod.status["phase"], pod.ready, pod.state, pod.restarts) == (phase, ready, state, restarts)
    assert pod.at(50) == (None, None)


def test_held_pod_gets_no_status_until_it_is_released() -> None:
    pod = Pod({"phase": "Hold"})
    assert pod.at(0) == (None, None)
    pod.object["metadata"]["annotations"]["sim/phase"] = "Running"
    pod.at(1)
    assert pod.ready


def test_failed_pod_has_its_exit_code_and_reason() -> None:
    pod = Pod({"phase": "Failed", "exit-code": "3", "reason": "Evicted"})
    pod.at(0)
    terminated = pod.status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], pod.status["reason"]) == (3, "Evicted")
    assert pod.condition("Ready")["reason"] == "PodFailed"


def test_wrong_annotations_are_reported_and_left_out() -> None:
    wrong = {"phase": "Nonsense", "ready-after": "soon", "exit-code": "256", "restarts": "-1"}
    behaviour = behaviour_of(Pod(wrong).object, KUBERNETES)
    assert behaviour._replace(problems=()) == behaviour_of(Pod().object, KUBERNETES)
    named = [problem.partition(":")[0] for problem in behaviour.problems]
    assert named == ["sim/phase", "sim/exit-code", "sim/restarts", "sim/ready-after"]


def test_phase_of_one_ordinal_or_completion_index() -> None:
    pod = Pod({"phase.1": "Failed"})
    metadata = pod.object["metadata"]
    metadata["labels"] = {"statefulset.kubernetes.io/pod-name": "web-1"}
    metadata["name"] = "web-0"
    assert behaviour_of(pod.object, KUBERNETES).phase == "Running"
    metadata["name"] = "web-1"
    assert behaviour_of(pod.object, KUBERNETES).phase == "Failed"
    metadata["annotations"]["batch.kubernetes.io/job-completion-index"] = "0"
    assert behaviour_of(pod.object, KUBERNETES).phase == "Running"


def test_start_takes_as_long_as_annotated() -> None:
    pod = Pod({"start-after": "2.5"})
    assert pod.at(0).wake == 2.5
    assert (pod.status["phase"], pod.state) == ("Pending", "waiting ContainerCreating")
    assert pod.at(2).status is None
    pod.at(2.5)
    assert pod.status["phase"] == "Running" and pod.ready


def test_init_containers_run_one_after_the_other() -> None:
    inits = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    pod = Pod({"init-for": "3"}, initContainers=inits)
    assert pod.at(0).wake == 3
    assert [list(one["state"]) for one in pod.status["initContainerStatuses"]] == [["running"], ["waiting"]]
    condition = pod.condition("Initialized")
    assert condition["message"] == "containers with incomplete status: [a b]"
    assert (condition["reason"], pod.state) == ("ContainersNotInitialized", "waiting PodInitializing")
    assert pod.at(3).wake == 3
    assert [list(one["state"]) for one in pod.status["initContainerStatuses"]] == [
        ["terminated"],
        ["running"],
    ]
    pod.at(6)
    assert pod.status["phase"] == "Running" and pod.condition("Initialized")["status"] == "True"


@cases("policy, phase", [("Never", "Failed"), ("Always", "Pending")])
def test_failed_init_container_ends_the_pod_or_restarts(policy: str, phase: str) -> None:
    pod = Pod({"init-exit-code": "4"}, initContainers=[{"name": "a", "image": "i"}], restartPolicy=policy)
    pod.at(0)
    (state,) = pod.status["initContainerStatuses"][0]["state"]
    assert (pod.status["phase"], state) == (phase, "terminated" if policy == "Never" else "waiting")


def test_ready_and_final_phase_come_after_their_time() -> None:
    pod = Pod({"phase": "Succeeded", "run-for": "10", "ready-after": "4"})
    assert pod.at(0).wake == 4 and not pod.ready
    assert pod.at(4).wake == 6 and pod.ready
    pod.at(10)
    assert pod.status["phase"] == "Succeeded" and pod.condition("Initialized")["reason"] == "PodCompleted"
    assert pod.at(11) == (None, None)


def test_probes_delay_readiness() -> None:
    probes = {"startupProbe": {"initialDelaySeconds": 2}, "readinessProbe": {"initialDelaySeconds": 5}}
    pod = Pod(containers=[{"name": "c", "image": "i", **probes}])
    assert pod.at(0).wake == 2 and not pod.status["containerStatuses"][0]["started"]
    assert pod.at(2).wake == 3 and pod.status["containerStatuses"][0]["started"] and not pod.ready
    pod.at(5)
    assert pod.ready


def test_readiness_gates_hold_back_ready() -> None:
    pod = Pod(readinessGates=[{"conditionType": "example.com/gate"}])
    pod.at(0)
    ready = pod.condition("Ready")
    missing = 'corresponding condition of pod readiness gate "example.com/gate" does not exist.'
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "ReadinessGatesNotReady",
        missing,
    )
    assert pod.condition("ContainersReady")["status"] == "True"
    gate = {"type": "example.com/gate", "status": "False", "lastTransitionTime": None, "lastProbeTime": None}
    pod.status["conditions"].insert(0, gate)
    pod.at(1)
    assert pod.condition("Ready")["message"].endswith('is not "True", but False')
    gate["status"] = "True"
    pod.at(2)
    assert pod.ready and pod.status["conditions"][0] is gate


def test_container_that_ends_restarts_after_growing_pauses() -> None:
    pod = Pod({"exit-after": "5", "exit-code": "1"})
    assert pod.at(0).wake == 5
    pod.at(5)  # the first restart does not wait
    assert (pod.state, pod.restarts, pod.ready) == ("running", 1, True)
    assert pod.at(10).wake == 10
    assert (pod.state, pod.restarts, pod.ready) == ("waiting CrashLoopBackOff", 1, False)
    message = pod.status["containerStatuses"][0]["state"]["waiting"]["message"]
    assert message == "back-off 10s restarting failed container=c pod=p_default(u)"
    assert pod.at(12).status is None
    pod.at(20)
    assert (pod.state, pod.restarts) == ("running", 2)
    assert pod.at(25).wake == 20
    assert pod.status["phase"] == "Running"
    last = pod.status["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (1, "Error")


@cases(
    "policy, code, phase",
    [("Never", "0", "Succeeded"), ("Never", "2", "Failed"), ("OnFailure", "0", "Succeeded")],
)
def test_restart_policy_decides_how_a_pod_ends(policy: str, code: str, phase: str) -> None:
    pod = Pod({"exit-after": "1", "exit-code": code}, restartPolicy=policy)
    pod.at(0)
    pod.at(1)
    assert pod.status["phase"] == phase


def test_status_of_others_stays() -> None:
    pod = Pod()
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": "x"}
    target = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": "x"}
    pod.status["conditions"] = [scheduled, target]
    pod.at(0)
    assert pod.status["conditions"][:2] == [scheduled, target]
    assert [one["type"] for one in pod.status["conditions"][2:]] == [
        "Initialized",
        "Ready",
        "ContainersReady",
    ]


def test_pod_on_the_host_network_has_the_address_of_its_node() -> None:
    pod = Pod(hostNetwork=True)
    pod.at(0)
    assert pod.status["podIP"] == "192.168.0.1"


@cases(
    "annotations, grace, seconds",
    [
        ({}, 30, 0.0),
        ({}, 0, None),
        ({"hold-termination": "true"}, 30, None),
        ({"terminate-after": "5"}, 30, 4.0),
        ({"terminate-after": "90"}, 30, 29.0),
    ],
)
def test_deletion_is_completed_in_time(
    annotations: dict[str, str], grace: int, seconds: float | None
) -> None:
    pod = Pod(annotations).object
    pod["metadata"] |= {"deletionGracePeriodSeconds": grace, "deletionTimestamp": "2023-11-14T22:13:50Z"}
    behaviour = behaviour_of(pod, KUBERNETES)
    assert seconds_to_deletion(pod, behaviour, START + SECOND) == seconds  # deleted a second ago
