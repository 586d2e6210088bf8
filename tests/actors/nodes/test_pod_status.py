"""The status of a pod on a simulated node is computed from the pod, its annotations and the time."""

from __future__ import annotations

from itertools import count
from typing import Any

from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.nodes.admission import Rejection
from rewound.actors.nodes.behaviour import behaviour_of
from rewound.actors.nodes.pod_status import (
    Placement,
    Step,
    next_step,
    seconds_to_deletion,
    stopped_status,
    stopping_events,
)
from rewound.actors.scheduler.evaluation import finished
from rewound.actors.versions.features import V1_25, Release, choose_release
from tests.cases import cases

NEWEST = choose_release("1.36")
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
        self._since: int | None = None
        self._images: set[str] = set()
        self._hooks: dict[str, int] = {}
        self.events: list[tuple[str, str]] = []
        self.features = V1_25.features
        self.resize_problem: Rejection | None = None
        self.found: dict[tuple[str, str], Object] = {}  # by resource and name

    def at(self, seconds: float) -> Step:
        behaviour = behaviour_of(self.object, KUBERNETES)
        placement = Placement(
            "192.168.0.1",
            lambda: f"10.244.0.{next(self._numbers)}",
            lambda reference: self.found.get((reference.resource, reference.name)),
            self.features,
            bad_images=("*:non-existent",),
            images=self._images,
            hooks=self._hooks,
            resize_problem=lambda: self.resize_problem,
        )
        now = START + round(seconds * SECOND)
        step = finished(next_step(self.object, behaviour, placement, now, self._since))
        self._since = now
        self.events += [(event.reason, event.message) for event in step.events]
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
    assert pod.at(0)[:2] == (pod.status, None)
    assert (pod.status["phase"], pod.ready, pod.state) == ("Running", True, "running")
    assert (pod.status["podIP"], pod.status["hostIP"]) == ("10.244.0.1", "192.168.0.1")
    assert (
        list(pod.status)[:3] == ["phase", "conditions", "hostIP"] and pod.status["qosClass"] == "BestEffort"
    )
    assert pod.at(100)[:2] == (None, None)


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
    assert pod.at(50).status is None


def test_held_pod_gets_no_status_until_it_is_released() -> None:
    pod = Pod({"phase": "Hold"})
    assert pod.at(0)[:2] == (None, None)
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
    assert [one["ready"] for one in pod.status["initContainerStatuses"]] == [True, False]
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
    assert pod.at(11)[:2] == (None, None)


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
    assert pod.at(25).wake == 12  # for another Event
    assert pod.at(44.9).status is None
    assert "back-off 20s" in pod.status["containerStatuses"][0]["state"]["waiting"]["message"]
    assert pod.status["phase"] == "Running"
    last = pod.status["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (1, "Error")


def test_pauses_begin_with_a_second_and_end_at_a_minute_with_that_gate() -> None:
    pod = Pod({"exit-after": "5", "exit-code": "1"})
    pod.features = choose_release("1.36", "ReduceDefaultCrashLoopBackOffDecay=true").features
    pod.at(0)
    now, pauses = 5.0, []
    pod.at(now)  # the first restart does not wait
    for _ in range(8):
        now += 5
        pod.at(now)
        message = pod.status["containerStatuses"][0]["state"]["waiting"]["message"]
        pause = 60 if message.startswith("back-off 1m0s ") else int(message.split()[1][:-1])
        assert message.endswith("restarting failed container=c pod=p_default(u)")
        pauses.append(pause)
        now += pause
        assert pod.at(now).status is not None and pod.state == "running"
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


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
    assert (
        seconds_to_deletion(pod, behaviour, V1_25.features, START + SECOND) == seconds
    )  # deleted a second ago


def test_pause_starts_again_after_a_healthy_run() -> None:
    pod = Pod({"exit-after": "700", "exit-code": "1"})
    for seconds in (0, 700, 1400):
        pod.at(seconds)
    assert (pod.state, pod.restarts) == ("running", 2)
    pod.object["metadata"]["annotations"]["sim/exit-after"] = "5"
    pod.at(1405)
    assert "back-off 10s" in pod.status["containerStatuses"][0]["state"]["waiting"]["message"]


def test_events_of_a_container_that_crashes_tell_its_story() -> None:
    pod = Pod({"exit-after": "5", "exit-code": "1"})
    for seconds in (0, 5, 10, 20, 25, 37, 45):
        pod.at(seconds)
    reasons = [reason for reason, _ in pod.events]
    first = ["Pulling", "Pulled", "Created", "Started", "Pulled", "Created", "Started", "BackOff"]
    assert reasons == [
        *first,
        "Pulled",
        "Created",
        "Started",
        "BackOff",
        "BackOff",
        "Pulled",
        "Created",
        "Started",
    ]
    assert ("Started", "Started container c") in pod.events
    assert ("Pulled", 'Container image "i" already present on machine') in pod.events


def test_texts_of_events_are_those_of_the_version() -> None:
    pod = Pod({"exit-after": "1"})
    pod.features = NEWEST.features
    for seconds in (0, 1, 2):
        pod.at(seconds)
    assert pod.events[:4] == [
        ("Pulling", 'Pulling image "i"'),
        (
            "Pulled",
            'Successfully pulled image "i" in 0s (0s including waiting). Image size: 10485760 bytes.',
        ),
        ("Created", "Container created"),
        ("Started", "Container started"),
    ]
    assert pod.events[-1] == ("BackOff", "Back-off restarting failed container c in pod p_default(u)")
    assert pod.condition("PodReadyToStartContainers")["status"] == "True"
    assert pod.status["hostIPs"] == [{"ip": "192.168.0.1"}]


def test_sidecar_starts_before_the_containers_and_ends_after_them() -> None:
    sidecar = {
        "name": "s",
        "image": "i",
        "restartPolicy": "Always",
        "startupProbe": {"initialDelaySeconds": 2},
    }
    inits = [sidecar, {"name": "a", "image": "i"}]
    pod = Pod({"init-for": "3", "exit-after.c": "5"}, initContainers=inits, restartPolicy="Never")
    assert pod.at(0).wake == 2 and pod.condition("Initialized")["status"] == "False"
    assert pod.at(2).wake == 3 and pod.status["phase"] == "Pending"
    pod.at(5)
    assert pod.status["phase"] == "Running" and pod.ready
    pod.at(10)
    assert pod.status["phase"] == "Succeeded"
    assert [list(one["state"]) for one in pod.status["initContainerStatuses"]] == [["terminated"]] * 2
    assert pod.events[-1] == ("Killing", "Stopping container s")


def test_failed_init_container_restarts_with_real_counts() -> None:
    pod = Pod({"init-exit-code": "4"}, initContainers=[{"name": "a", "image": "i"}])
    pod.at(0)
    pod.at(10)
    (init,) = pod.status["initContainerStatuses"]
    assert (init["restartCount"], init["lastState"]["terminated"]["exitCode"]) == (2, 4)
    assert "back-off 20s" in init["state"]["waiting"]["message"] and pod.status["phase"] == "Pending"


def test_image_that_cannot_be_pulled_is_tried_again() -> None:
    pod = Pod(containers=[{"name": "c", "image": "web:non-existent"}])
    assert pod.at(0).wake == 1
    assert (pod.status["phase"], pod.state) == ("Pending", "waiting ErrImagePull")
    assert pod.at(1).wake == 9
    assert pod.state == "waiting ImagePullBackOff"
    pod.at(10)
    assert pod.state == "waiting ErrImagePull"
    reasons = [reason for reason, _ in pod.events]
    assert reasons == ["Pulling", "Failed", "Failed", "BackOff", "Failed", "Pulling", "Failed", "Failed"]
    assert pod.events[2] == ("Failed", "Error: ErrImagePull")
    pod.object["spec"]["containers"] = [{"name": "c", "image": "web:1"}]
    pod.at(11)
    assert pod.ready


def test_invalid_image_reference_is_inspected_in_vain() -> None:
    pod = Pod(containers=[{"name": "c", "image": "Bad Image"}])
    pod.at(0)
    assert pod.state == "waiting InvalidImageName"
    assert [reason for reason, _ in pod.events] == ["InspectFailed", "Failed"]


def test_missing_objects_of_volumes_keep_a_pod_from_starting() -> None:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("keys", "data")]
    volumes = [
        {"name": "keys", "secret": {"secretName": "s"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
        {"name": "unused", "configMap": {"name": "c"}},
    ]
    pod = Pod(containers=[{"name": "c", "image": "i", "volumeMounts": mounts}], volumes=volumes)
    step = pod.at(0)
    assert {one.name for one in step.missing} == {"s", "d"}
    assert (pod.status["phase"], pod.state) == ("Pending", "waiting ContainerCreating")
    assert "podIP" not in pod.status
    assert pod.events[0] == (
        "FailedMount",
        'MountVolume.SetUp failed for volume "keys" : secret "s" not found',
    )
    assert 'persistentvolumeclaims "d" not found' in pod.events[1][1]
    assert pod.at(0.5).events and not pod.at(0.6).events  # tried again
    pod.found = {("secrets", "s"): {}, ("persistentvolumeclaims", "d"): {"status": {"phase": "Pending"}}}
    pod.at(20)
    assert pod.events[-1][1].endswith("error processing PVC default/d: PVC is not bound")
    pod.found["persistentvolumeclaims", "d"] = {"status": {"phase": "Bound"}}
    assert pod.at(21).missing == frozenset() and pod.ready


@cases(
    "source, message",
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            'secret "s" not found',
        ),
        ({"envFrom": [{"configMapRef": {"name": "m"}}]}, 'configmap "m" not found'),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "k"}}}]},
            "couldn't find key k in ConfigMap default/here",
        ),
        ({"envFrom": [{"secretRef": {"name": "s", "optional": True}}]}, ""),
    ],
)
def test_missing_objects_of_the_environment_are_a_config_error(source: Object, message: str) -> None:
    pod = Pod(containers=[{"name": "c", "image": "i", **source}])
    pod.found = {("configmaps", "here"): {"data": {"other": "1"}}}
    pod.at(0)
    waiting = pod.status["containerStatuses"][0]["state"].get("waiting", {})
    assert waiting == ({"reason": "CreateContainerConfigError", "message": message} if message else {})
    if message:
        assert pod.events[-1] == ("Failed", f"Error: {message}")


@cases(
    "path, message",
    [
        ("$(A)/$(HERE)-$(NAME)", ""),
        ("$$(GONE)/x", ""),
        ("$(A)/$(GONE)/$(EMPTY)", "missing value for EMPTY, GONE"),
        ("$(ROOT)/x", "error SubPath `/tmp-1/x` must not be an absolute path"),
        ("$(A)/$(UP)", "unable to provision SubPath `1/..`: must not contain '..'"),
        ("$(KUBERNETES_SERVICE_HOST)/$(HOST)", ""),
    ],
)
def test_mount_path_of_the_environment_is_expanded(path: str, message: str) -> None:
    environment = [
        {"name": "A", "value": "1"},
        {"name": "ROOT", "value": "/tmp-$(A)"},
        {"name": "UP", "valueFrom": {"secretKeyRef": {"name": "s", "key": "up"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "EMPTY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['gone']"}}},
    ]
    mounts = [{"name": "data", "mountPath": "/data", "subPathExpr": path}]
    container = {"name": "c", "image": "i", "env": environment, "volumeMounts": mounts}
    container["envFrom"] = [{"configMapRef": {"name": "m"}}]
    pod = Pod(containers=[container], volumes=[{"name": "data", "emptyDir": {}}])
    pod.found = {("configmaps", "m"): {"data": {"HERE": "1"}}, ("secrets", "s"): {"data": {"up": "Li4="}}}
    pod.at(0)
    waiting = pod.status["containerStatuses"][0]["state"].get("waiting", {})
    assert waiting == ({"reason": "CreateContainerConfigError", "message": message} if message else {})


def test_failing_liveness_probe_restarts_a_container() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2}
    pod = Pod({"fail-liveness": "7"}, containers=[{"name": "c", "image": "i", "livenessProbe": probe}])
    pod.at(0)
    assert pod.ready
    for seconds in (10, 15):
        pod.at(seconds)
    assert (pod.restarts, pod.state) == (1, "running")
    last = pod.status["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 137
    unhealthy = ("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500")
    assert pod.events.count(unhealthy) == 2
    assert ("Killing", "Container c failed liveness probe, will be restarted") in pod.events


@cases(
    ("annotations", "grace", "seconds", "failed"),
    [
        ({"pre-stop-for": "4"}, None, 4, False),
        ({"pre-stop-for": "40"}, None, 20, False),  # until the grace period of the pod is over
        ({"pre-stop-for": "40"}, 3, 3, False),  # that of the probe takes precedence
        ({"fail-pre-stop.c": "2"}, None, 2, True),
    ],
)
def test_pre_stop_hook_runs_before_a_container_that_failed_its_probe_restarts(
    annotations: dict[str, str], grace: int | None, seconds: int, failed: bool
) -> None:
    probe: Object = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 1}
    if grace is not None:
        probe["terminationGracePeriodSeconds"] = grace
    container = {"name": "c", "image": "i", "livenessProbe": probe, "lifecycle": {"preStop": {"exec": {}}}}
    pod = Pod({"fail-liveness": "5", **annotations}, containers=[container], terminationGracePeriodSeconds=20)
    pod.at(0)
    wake = pod.at(5).wake
    assert wake is not None and wake <= seconds
    killing = ("Killing", "Container c failed liveness probe, will be restarted")
    assert (pod.restarts, pod.state) == (0, "running") and pod.events[-1] == killing
    pod.at(5 + seconds - 0.5)
    assert pod.restarts == 0
    pod.at(5 + seconds)
    assert (pod.restarts, pod.state) == (1, "running")
    last = pod.status["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["exitCode"], last["finishedAt"]) == (137, seconds_text(START + (5 + seconds) * SECOND))
    assert pod.events.count(killing) == 1
    assert (("FailedPreStopHook", "PreStopHook failed") in pod.events) == failed
    assert [reason for reason, _ in pod.events].count("Unhealthy") == 1


def test_failing_readiness_probe_takes_ready_away() -> None:
    probe = {"exec": {"command": ["x"]}, "periodSeconds": 5, "failureThreshold": 2}
    pod = Pod({"fail-readiness.c": "10"}, containers=[{"name": "c", "image": "i", "readinessProbe": probe}])
    pod.at(0)
    assert pod.ready
    pod.at(10)
    assert pod.ready and pod.events[-1] == ("Unhealthy", "Readiness probe failed: ")
    pod.at(15)
    assert not pod.ready and pod.restarts == 0
    pod.object["metadata"]["annotations"].clear()
    pod.at(16)
    assert pod.ready


def test_failing_startup_probe_restarts_a_container() -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 2, "failureThreshold": 3}
    pod = Pod({"fail-startup": "0"}, containers=[{"name": "c", "image": "i", "startupProbe": probe}])
    for seconds in (0, 2, 4):
        pod.at(seconds)
    assert pod.restarts == 1 and not pod.status["containerStatuses"][0]["started"]
    assert ("Killing", "Container c failed startup probe, will be restarted") in pod.events


def test_pod_over_its_deadline_fails() -> None:
    pod = Pod(activeDeadlineSeconds=30)
    assert pod.at(0).wake == 30
    pod.at(30)
    assert (pod.status["phase"], pod.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert pod.status["message"] == "Pod was active on the node longer than the specified deadline"
    assert pod.state == "terminated Error"
    assert pod.at(31)[:2] == (None, None)


def test_ephemeral_container_runs_once() -> None:
    pod = Pod({"exit-after.debug": "3"})
    pod.at(0)
    pod.object["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i"}]
    assert pod.at(1).wake == 3 and pod.ready
    pod.at(4)
    (debug,) = pod.status["ephemeralContainerStatuses"]
    assert "terminated" in debug["state"] and pod.status["phase"] == "Running"


@cases(
    "version, policy, takes, phase, code",
    [
        (V1_25, "Always", "1", "Running", 0),
        (NEWEST, "Always", "60", "Failed", 137),
        (NEWEST, "Never", "1", "Succeeded", 0),
    ],
)
def test_deleted_pod_has_terminated_containers(
    version: Release, policy: str, takes: str, phase: str, code: int
) -> None:
    pod = Pod({"terminate-after": takes}, restartPolicy=policy)
    pod.at(0)
    pod.object["metadata"] |= {"deletionGracePeriodSeconds": 30, "deletionTimestamp": "2023-11-14T22:13:50Z"}
    placement = Placement("192.168.0.1", str, features=version.features)
    behaviour = behaviour_of(pod.object, KUBERNETES)
    assert [event.message for event in stopping_events(pod.object)] == ["Stopping container c"]
    status = finished(stopped_status(pod.object, behaviour, placement, START + SECOND))
    assert status is not None and status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code


def test_resize_waits_for_room_and_then_restarts_what_has_to() -> None:
    def container(cpu: str, memory: str) -> Object:
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        resources = {"requests": {"cpu": cpu, "memory": memory}}
        return {"name": "c", "image": "i", "resources": resources, "resizePolicy": policy}

    def allocated() -> Object:
        found: Object = pod.status["containerStatuses"][0]["allocatedResources"]
        return found

    pod = Pod(containers=[container("1", "1Gi")])
    pod.features = NEWEST.features
    pod.at(0)
    assert allocated() == {"cpu": "1", "memory": "1Gi"}
    pod.object["spec"]["containers"] = [container("2", "1Gi")]
    pod.resize_problem = Rejection("Deferred", "Node didn't have enough resource: cpu")
    pod.at(1)
    pending = pod.condition("PodResizePending")
    assert (pending["reason"], allocated()["cpu"], pod.events[-1][0]) == ("Deferred", "1", "ResizeDeferred")
    before = len(pod.events)
    assert pod.at(2).status is None and len(pod.events) == before
    pod.resize_problem = None
    pod.at(13)
    assert allocated()["cpu"] == "2" and pod.restarts == 0
    assert "PodResizePending" not in [one["type"] for one in pod.status["conditions"]]
    assert [reason for reason, _ in pod.events[-2:]] == ["ResizeStarted", "ResizeCompleted"]
    pod.object["spec"]["containers"] = [container("2", "2Gi")]
    pod.at(14)
    assert (allocated()["memory"], pod.restarts) == ("2Gi", 1)


def test_resize_takes_as_long_as_annotated() -> None:
    def container(cpu: str) -> Object:
        return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}

    def cpus() -> list[str]:
        (one,) = pod.status["containerStatuses"]
        of_pod = (pod.status["allocatedResources"], pod.status["resources"]["requests"])
        return [found["cpu"] for found in (one["allocatedResources"], one["resources"]["requests"], *of_pod)]

    pod = Pod({"resize-for": "5"}, containers=[container("1")])
    pod.features = NEWEST.features
    pod.at(0)
    pod.object["spec"]["containers"] = [container("2")]
    assert pod.at(10).wake == 5 and cpus() == ["2", "1", "2", "1"]
    assert pod.condition("PodResizeInProgress")["status"] == "True"
    pod.object["spec"]["containers"] = [container("3")]
    assert pod.at(12).wake == 5 and cpus() == ["3", "1", "3", "1"]
    assert pod.at(13).status is None
    pod.at(17)
    assert cpus() == ["3"] * 4 and pod.events[-1][0] == "ResizeCompleted"
    assert "PodResizeInProgress" not in [one["type"] for one in pod.status["conditions"]]


def test_alpha_resize_has_a_field_instead_of_conditions() -> None:
    pod = Pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}])
    pod.features = choose_release("1.30", "InPlacePodVerticalScaling=true").features
    pod.at(0)
    pod.object["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
    pod.resize_problem = Rejection("Infeasible", "Node didn't have enough capacity: cpu")
    pod.at(1)
    assert pod.status["resize"] == "Infeasible" and "PodResizePending" not in str(pod.status)
    pod.resize_problem = None
    pod.at(13)
    assert "resize" not in pod.status


def test_resources_of_a_pod_are_its_own_or_those_of_its_containers() -> None:
    def container(name: str, **resources: Object) -> Object:
        return {"name": name, "image": "i", "resources": resources}

    sidecar = {**container("s", requests={"cpu": "100m"}), "restartPolicy": "Always"}
    before = container("a", requests={"cpu": "3", "memory": "1Gi"})
    limited = container("c", requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi"})
    pod = Pod(
        containers=[limited, container("d", requests={"cpu": "500m"}, limits={"memory": "1Gi"})],
        initContainers=[sidecar, before],
        resources={"limits": {"memory": "4Gi"}},
        overhead={"cpu": "10m", "memory": "1Mi"},
    )
    pod.features = NEWEST.features
    pod.at(0)
    assert pod.status["allocatedResources"] == {"cpu": "3110m", "memory": "1025Mi"}
    assert pod.status["resources"]["limits"] == {"memory": "4097Mi"}
    plain = Pod()
    plain.features = NEWEST.features
    plain.at(0)
    assert plain.status["resources"] == {} and "allocatedResources" not in plain.status
    plain.features = choose_release("1.34").features
    assert "resources" not in Pod().status


def test_containers_report_their_mounts_user_and_signal() -> None:
    mounts = [
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/b", "readOnly": True},
        {"name": "c", "mountPath": "/c", "readOnly": True, "recursiveReadOnly": "Enabled"},
    ]
    container = {"name": "c", "image": "i", "volumeMounts": mounts, "lifecycle": {"stopSignal": "SIGUSR1"}}
    container["securityContext"] = {"runAsUser": 7}
    context = {"runAsUser": 1, "runAsGroup": 2, "supplementalGroups": [4, 2], "fsGroup": 3}
    pod = Pod({"start-after": "1"}, containers=[container], securityContext=context)
    pod.features = choose_release("1.36", "ContainerStopSignals=true").features
    pod.at(0)
    (waiting,) = pod.status["containerStatuses"]
    assert [one.get("recursiveReadOnly") for one in waiting["volumeMounts"]] == [None, "Disabled", "Enabled"]
    assert not {"user", "stopSignal", "resources"} & waiting.keys()
    pod.at(1)
    (running,) = pod.status["containerStatuses"]
    assert running["user"] == {"linux": {"uid": 7, "gid": 2, "supplementalGroups": [2, 4, 3]}}
    assert (running["stopSignal"], running["resources"]) == ("SIGUSR1", {})
    old = Pod(containers=[container])
    old.at(0)
    assert not {"user", "stopSignal", "resources", "volumeMounts"} & old.status["containerStatuses"][0].keys()


@cases(
    "kind, rule, code, restarts, phase",
    [
        ("containers", {"operator": "In", "values": [3]}, "3", 1, "Running"),
        ("containers", {"operator": "NotIn", "values": [3]}, "3", 0, "Failed"),
        ("containers", {"operator": "In", "values": [0]}, "0", 1, "Running"),
        ("initContainers", {"operator": "In", "values": [3]}, "3", 1, "Pending"),
        ("initContainers", {"operator": "In", "values": [0]}, "0", 0, "Running"),
    ],
)
def test_rules_restart_a_container_by_its_exit_code(
    kind: str, rule: Object, code: str, restarts: int, phase: str
) -> None:
    rules = [{"action": "Restart", "exitCodes": rule}]
    ruled = {"name": "r", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    pod = Pod({"exit-after.r": "1", "exit-code.r": code}, restartPolicy="Never")
    pod.object["spec"][kind] = [ruled]
    pod.features = NEWEST.features
    pod.at(0)
    pod.at(1)
    (found,) = pod.status[kind[:-1] + "Statuses"]
    assert (found["restartCount"], pod.status["phase"]) == (restarts, phase)


def test_rule_restarts_all_containers_from_the_first_on() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    source = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    pod = Pod(
        {"exit-after.c": "5", "exit-code.c": "42", "init-for": "2"},
        restartPolicy="Never",
        containers=[source, {"name": "d", "image": "i"}],
        initContainers=[{"name": "a", "image": "i"}],
    )
    pod.features = NEWEST.features
    pod.at(0)
    pod.at(2)
    assert pod.ready and pod.condition("AllContainersRestarting")["status"] == "False"
    assert pod.at(7).wake == 2
    assert pod.status["phase"] == "Pending" and pod.condition("Initialized")["status"] == "True"
    assert [one["state"]["waiting"]["reason"] for one in pod.status["containerStatuses"]] == [
        "RestartingAllContainers"
    ] * 2
    assert ("Killing", "killing") in pod.events
    pod.at(9)
    assert pod.ready
    every = pod.status["containerStatuses"] + pod.status["initContainerStatuses"]
    assert [one["restartCount"] for one in every] == [1, 1, 1]
    assert {one["lastState"]["terminated"]["reason"] for one in every} == {"RestartingAllContainers"}


def test_containers_that_all_restart_at_once_do_so_once_a_second() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [7]}}]
    source = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    pod = Pod({"exit-after": "0"}, containers=[source])
    pod.features = NEWEST.features
    assert [pod.at(second).wake for second in range(3)] == [1.0] * 3
    assert pod.restarts == 3


def test_post_start_hooks_delay_containers_one_after_the_other() -> None:
    sleeps = {"name": "c", "image": "i", "lifecycle": {"postStart": {"sleep": {"seconds": 3}}}}
    runs = {"name": "d", "image": "i", "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}
    pod = Pod({"post-start-for": "2"}, containers=[sleeps, runs])
    pod.features = NEWEST.features
    assert pod.at(0).wake == 3 and pod.status["phase"] == "Pending"
    assert [one for one, _ in pod.events] == ["Pulling", "Pulled", "Created", "Started"]
    assert pod.at(1).status is None
    assert pod.at(3).wake == 2 and pod.state == "running"
    pod.at(5)
    assert pod.ready and len(pod.events) == 7
    assert [one["state"]["running"]["startedAt"][-3:] for one in pod.status["containerStatuses"]] == [
        "20Z",
        "23Z",
    ]


def test_post_start_hook_that_fails_restarts_its_container() -> None:
    container = {"name": "c", "image": "i", "lifecycle": {"postStart": {"httpGet": {"port": 80}}}}
    pod = Pod({"fail-post-start": "1"}, containers=[container])
    assert pod.at(0).wake == 1
    assert pod.at(1).wake == 1 and pod.restarts == 0
    assert [one for one, _ in pod.events[4:6]] == ["FailedPostStartHook", "Killing"]
    pod.at(2)
    assert (pod.restarts, pod.state) == (1, "waiting CrashLoopBackOff")
    assert pod.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


def test_sidecars_stop_after_the_containers_in_reverse_order_and_in_time() -> None:
    def sidecar(name: str) -> Object:
        return {"name": name, "image": "i", "restartPolicy": "Always"}

    def ended() -> dict[str, tuple[str, int]]:
        ends = {one["name"]: one["state"]["terminated"] for one in pod.status["initContainerStatuses"]}
        return {name: (end["finishedAt"][-5:-1], end["exitCode"]) for name, end in ends.items()}

    pod = Pod(
        {"exit-after.c": "5", "terminate-after.s": "3", "terminate-after.t": "4"},
        restartPolicy="Never",
        initContainers=[sidecar("s"), sidecar("t")],
        terminationGracePeriodSeconds=6,
    )
    pod.features = NEWEST.features
    pod.at(0)
    assert pod.at(5).wake == 4 and pod.status["phase"] == "Running"
    assert [message for _, message in pod.events[-2:]] == ["Stopping container t", "Stopping container s"]
    assert pod.at(9).wake == 2 and pod.status["phase"] == "Running"
    pod.at(11)
    assert pod.status["phase"] == "Succeeded" and len(pod.events) == 12
    assert ended() == {"t": ("3:29", 0), "s": ("3:31", 137)}  # a second longer would have been enough


@cases(
    "grace, seconds, codes",
    [
        (30, 13.0, {"c": 0, "s": 0}),
        (10, 11.0, {"c": 0, "s": 137}),
        (3, 5.0, {"c": 137, "s": 137}),
    ],
)
def test_deleted_pod_runs_its_hooks_within_the_grace_period(
    grace: int, seconds: float, codes: dict[str, int]
) -> None:
    hook = {"preStop": {"sleep": {"seconds": 5}}}
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always"}
    container = {"name": "c", "image": "i", "lifecycle": hook}
    pod = Pod({"terminate-after": "4"}, containers=[container], initContainers=[sidecar])
    pod.features = NEWEST.features
    pod.at(0)
    deleted = {"deletionGracePeriodSeconds": grace, "deletionTimestamp": seconds_text(START + grace * SECOND)}
    pod.object["metadata"] |= deleted
    behaviour = behaviour_of(pod.object, KUBERNETES)
    assert seconds_to_deletion(pod.object, behaviour, NEWEST.features, START) == seconds
    placement = Placement("192.168.0.1", str, features=NEWEST.features)
    status = finished(stopped_status(pod.object, behaviour, placement, START + round(seconds * SECOND)))
    assert status is not None
    every = status["containerStatuses"] + status["initContainerStatuses"]
    assert {one["name"]: one["state"]["terminated"]["exitCode"] for one in every} == codes


def test_restarts_after_a_jump_of_the_clock_are_few() -> None:
    pod = Pod({"exit-after": "1", "exit-code": "1"})
    pod.at(0)
    for day in range(30, 120, 30):
        before = len(pod.events)
        pod.at(day * 86400)
        assert len(pod.events) - before < 12
    assert pod.restarts <= 6


def test_container_whose_end_somebody_else_wrote_restarts() -> None:
    pod = Pod()
    pod.at(0)
    (one,) = pod.status["containerStatuses"]
    ends: Object = {"state": {"terminated": {"exitCode": 3}}, "lastState": {"terminated": {"exitCode": 4}}}
    pod.status["containerStatuses"] = [{**one, **ends, "restartCount": 2**31 - 1}]
    pod.at(1)
    assert (pod.state, pod.restarts) == ("running", 2**31 - 1)
