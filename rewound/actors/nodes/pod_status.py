"""The status that a simulated node gives a pod: a function of the pod, its annotations, what it refers to and the time.

The status contains the whole history of the pod: when it started, when each container started or ended and how often.
So the same function continues from any moment, also after a restart of the server, and a pod whose status is correct
gets no write. `next_step` also returns the Events that are due, and after how many seconds it has to be called again.

Users determine how many containers a pod has, and how much they refer to: all work is in steps.

The order is a kubelet's: volumes, the sandbox, init containers one after the other, then all containers; a pod that
has no time left, or whose containers have all ended, ends. `containers` has the life of each container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.core.pod import POD_STATUS
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.nodes.admission import Rejection
from rewound.actors.nodes.behaviour import Behaviour
from rewound.actors.nodes.containers import (
    EPHEMERAL,
    GRACE_SECONDS,
    INIT,
    KILLED,
    NORMAL,
    REGULAR,
    RETRY,
    SECOND,
    SIDECAR,
    WARNING,
    Container,
    Moment,
    PodEvent,
)
from rewound.actors.nodes.references import Find, Reference, References
from rewound.actors.nodes.resources import pod_resources
from rewound.actors.nodes.termination import Ending, endings, takes_time
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.versions.features import (
    HOST_IPS,
    OBSERVED_GENERATION,
    READY_TO_START,
    REJECTED_PODS,
    RESIZE,
    RESIZE_CONDITIONS,
    RESIZE_EVENTS,
    RESIZE_POD_LEVEL,
    RESTART_ALL,
    TERMINAL_WHEN_DELETED,
    UNPROCESSED_VOLUMES,
    V1_25,
)

FINAL_PHASES: Final = ("Succeeded", "Failed")
_ENDS: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}  # the reasons of conditions, by phase
CRASH_LOOP_RESTARTS: Final = 3  # of a pod in CrashLoop, unless an annotation sets the number
_FIRST_MOUNT, _LONGEST_MOUNT = SECOND // 2, 122 * SECOND  # between two tries to set up a volume
_MOUNT_TIMEOUT: Final = 123 * SECOND  # until a kubelet says which volumes it waits for
_OWN_CONDITIONS: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_RESIZE_PENDING, _RESIZE_IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
_RESTARTING_ALL: Final = "AllContainersRestarting"
_STRIDE: Final = 16  # containers between two pauses, at some twenty microseconds each
_DEADLINE: Final = Rejection(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)


class Step(NamedTuple):
    status: Object | None = None  # to be written; None: unchanged
    wake: float | None = None  # seconds until the next change; None: only when something changes the pod
    events: Sequence[PodEvent] = ()
    missing: frozenset[Reference] = frozenset()  # objects whose change may change the pod


AT_REST: Final = Step()


@dataclass(slots=True)
class Placement:
    """Where a pod runs."""

    host_ip: str
    new_ip: Callable[[], str]  # a free address for a pod that has none
    find: Find = lambda reference: None
    features: frozenset[str] = V1_25.features
    bad_images: tuple[str, ...] = ()
    images: set[str] = field(default_factory=set)  # that the node has
    hooks: dict[str, int] = field(default_factory=dict)  # of the pod: see `Moment`
    runtime_handlers: frozenset[str] | None = None  # None: all
    device_group: str = ""  # of the claims of devices; empty: pods can have none
    unattached: frozenset[str] = frozenset()  # volumes of the pod that have to be attached first
    has_events: bool = True  # whether somebody records the Events
    resize_problem: Callable[[], Rejection | None] = lambda: None  # why the pod cannot have its new resources


def next_step(
    pod: Object, behaviour: Behaviour, placement: Placement, now: int, since: int | None = None
) -> Steps[Step]:
    """The step of a pod that is not being deleted.

    Times are in microseconds since 1970; `since` is when this was last called, None: not yet in this process.
    """
    status = pod.get("status") or {}
    if status.get("phase") in FINAL_PHASES or behaviour.phase == "Hold":
        return AT_REST
    run = yield from _PodRun(pod, status, behaviour, placement, now, since).begun()
    if run.is_over_deadline():
        return (yield from run.fail(_DEADLINE, NORMAL))
    run.resize()
    yield
    yield from run.advance()
    return (yield from run.step())


def failed_step(
    pod: Object, reason: Rejection, disruption: str, placement: Placement, now: int
) -> Steps[Step]:
    """The step of a pod that its node stops to make room, which `disruption` explains."""
    run = yield from _PodRun(pod, pod["status"], Behaviour(), placement, now, now).begun()
    return (yield from run.fail(reason, WARNING, disruption))


def rejected_status(pod: Object, rejection: Rejection, features: frozenset[str], now: int) -> Object:
    """The status of a pod that its node does not admit. It has no conditions of a kubelet."""
    status = pod.get("status") or {}
    prefix = "Pod was rejected: " if REJECTED_PODS in features else "Pod "
    made = {
        "phase": "Failed",
        "conditions": [one for one in status.get("conditions") or () if one["type"] not in _OWN_CONDITIONS],
        "message": prefix + rejection.message,
        "reason": rejection.reason,
        "startTime": seconds_text(now),
    }
    if OBSERVED_GENERATION in features and "generation" in pod["metadata"]:
        made["observedGeneration"] = pod["metadata"]["generation"]
    return POD_STATUS.arranged({**status, **made})


def stopped_status(pod: Object, behaviour: Behaviour, placement: Placement, now: int) -> Steps[Object | None]:
    """The status of a deleted pod whose containers have ended; None if none was running."""
    status = pod.get("status") or {}
    if status.get("phase") in FINAL_PHASES or not status.get("containerStatuses"):
        return None
    run = yield from _PodRun(pod, status, behaviour, placement, now, now).begun()
    return (yield from run.stop())


def images_of(pod: Object) -> Iterator[str]:
    """The images that the containers of a pod have used."""
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(kind) or ():
            if one.get("imageID"):
                yield one["image"]


def stopping_events(pod: Object) -> list[PodEvent]:
    """The Events of a pod that begins to stop."""
    found = []
    for kind, statuses in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    ):
        for one in (pod.get("status") or {}).get(statuses) or ():
            if "running" in (one.get("state") or {}):
                path = f"spec.{kind}{{{one['name']}}}"
                found.append(PodEvent(NORMAL, "Killing", f"Stopping container {one['name']}", path))
    return found


def seconds_to_deletion(
    pod: Object, behaviour: Behaviour, features: frozenset[str], now: int
) -> float | None:
    """After how many seconds the node stops a pod that is being deleted; None if it does not, or has."""
    if not pod["metadata"].get("deletionGracePeriodSeconds") or behaviour.holds_termination:
        return None
    if not takes_time(pod["spec"], behaviour):
        return 0.0
    found = _endings(pod, behaviour, features).values()
    last = max(
        (one.finished for one in found), default=_begin_of_end(pod) + _time_without_containers(pod, behaviour)
    )
    return max(0.0, (last - now) / SECOND)


def _begin_of_end(pod: Object) -> int:
    """When a deleted pod began to stop."""
    metadata = pod["metadata"]
    return micros_of(metadata["deletionTimestamp"]) - int(metadata["deletionGracePeriodSeconds"]) * SECOND


def _time_without_containers(pod: Object, behaviour: Behaviour) -> int:
    """How long a pod takes to stop in which nothing runs."""
    grace = float(pod["metadata"]["deletionGracePeriodSeconds"])
    return round(min(behaviour.terminate_after, grace) * SECOND)


def failing_hooks(pod: Object, behaviour: Behaviour, features: frozenset[str]) -> list[tuple[int, PodEvent]]:
    """The Events of the preStop hooks that fail while a pod stops, and when these are due."""
    if not behaviour.hooks and not behaviour.of_containers:
        return []
    inits = {one["name"] for one in pod["spec"].get("initContainers") or ()}
    return [
        (
            one.hook_failed,
            PodEvent(WARNING, "FailedPreStopHook", "PreStopHook failed", f"spec.{kind}{{{name}}}"),
        )
        for name, one in _endings(pod, behaviour, features).items()
        if one.hook_failed is not None
        for kind in ("initContainers" if name in inits else "containers",)
    ]


def _endings(pod: Object, behaviour: Behaviour, features: frozenset[str]) -> dict[str, Ending]:
    """How the containers of a deleted pod end."""
    status = pod.get("status") or {}
    running = {
        one["name"]
        for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for one in status.get(kind) or ()
        if "running" in (one.get("state") or {})
    }
    grace = pod["metadata"]["deletionGracePeriodSeconds"]
    return endings(pod["spec"], running, behaviour, _begin_of_end(pod), grace, features)


class _PodRun:
    """A pod at one moment of its run."""

    def __init__(
        self,
        pod: Object,
        status: Object,
        behaviour: Behaviour,
        placement: Placement,
        now: int,
        since: int | None,
    ) -> None:
        self._pod, self._spec, self._status = pod, pod["spec"], status
        self._behaviour, self._placement = behaviour, placement
        start = status.get("startTime")
        self._started = micros_of(start) if start else now
        if not start:
            since = now - 1
        self._references = References(pod, placement.find)
        self._moment = Moment(
            pod,
            behaviour,
            self._references,
            placement.features,
            now,
            now if since is None else since,
            bad_images=placement.bad_images,
            images=placement.images,
            hooks=placement.hooks,
            has_events=placement.has_events,
        )
        self._inits: list[Container] = []
        self._regular: list[Container] = []
        self._ephemeral: list[Container] = []
        self._has_sandbox = self._was_initialized = self._was_over = False
        self._chosen_phase = ""  # by an annotation
        self._resize_problem: Rejection | None = None
        self._resizing_since: int | None = None
        self._resources: Object = {}  # of the whole pod
        if RESIZE_POD_LEVEL in placement.features:
            self._resources = pod_resources(self._spec)
        self._allocated: Object = self._resources.get("requests") or {}

    def begun(self) -> Steps[_PodRun]:
        """Read the states of the containers; returns itself."""
        spec, olds = self._spec, self._statuses("initContainerStatuses")
        for number, one in enumerate(spec.get("initContainers") or ()):
            kind = SIDECAR if one.get("restartPolicy") == "Always" else INIT
            self._inits.append(self._container(one, kind, olds, number))
            if number % _STRIDE == _STRIDE - 1:
                yield
        for part, statuses, kind, containers in (
            ("containers", "containerStatuses", REGULAR, self._regular),
            ("ephemeralContainers", "ephemeralContainerStatuses", EPHEMERAL, self._ephemeral),
        ):
            olds = self._statuses(statuses)
            for number, one in enumerate(spec.get(part) or ()):
                containers.append(self._container(one, kind, olds))
                if number % _STRIDE == _STRIDE - 1:
                    yield
        self._has_sandbox = any(one.has_run for one in (*self._inits, *self._regular))
        self._was_initialized = any(one.has_run and not one.is_removed for one in self._regular)
        self._was_over = self._is_over()
        return self

    def _statuses(self, kind: str) -> dict[str, Object]:
        return {one["name"]: one for one in reversed(self._status.get(kind) or ())}

    def _container(self, spec: Object, kind: str, olds: Mapping[str, Object], number: int = 0) -> Container:
        behaviour, name = self._behaviour, spec["name"]
        if kind == INIT:
            script = behaviour.init_script(name, number)
        elif kind == REGULAR:
            script = behaviour.script(name)
        else:
            script = behaviour.sidecar_script(name)
        return Container(self._moment, spec, kind, script, olds.get(name))

    def is_over_deadline(self) -> bool:
        seconds = self._spec.get("activeDeadlineSeconds")
        return bool(seconds) and not self._moment.is_ahead(self._started + seconds * SECOND)

    def resize(self) -> None:
        """Give the containers the resources that the spec asks for by now, if the node has them."""
        moment, old = self._moment, self._status.get("resources")
        resized = [one for one in (*self._inits, *self._regular) if one.is_resized]
        is_resized = resized or (old is not None and old != self._resources and self._has_sandbox)
        if RESIZE not in moment.features or not is_resized:
            return
        begun = self._begin_of_resize()
        if begun is None or not all(one.is_allocated for one in resized):
            self._resize_problem = self._placement.resize_problem()
            if self._resize_problem is not None:
                self._defer_resize(self._resize_problem)
                for one in resized:
                    one.keep_resources()
                self._resources, self._allocated = old or {}, self._status.get("allocatedResources") or {}
                return
            self._report_resize("ResizeStarted", "Pod resize started")
            begun = moment.now
        if RESIZE_CONDITIONS in moment.features and moment.is_ahead(
            begun + round(self._behaviour.resize_for * SECOND)
        ):
            self._resizing_since = begun
            for one in resized:
                one.keep_resources(allocated=True)
            self._resources = old or {}
            return
        for one in resized:
            one.restart_to_resize()
        self._report_resize("ResizeCompleted", "Pod resize completed")

    def _begin_of_resize(self) -> int | None:
        """When the resize began that is in progress."""
        conditions: Sequence[Object] = self._status.get("conditions") or ()
        for one in conditions:
            if one["type"] == _RESIZE_IN_PROGRESS and one["status"] == "True":
                return micros_of(one.get("lastTransitionTime") or self._moment.text)
        return None

    def _defer_resize(self, problem: Rejection) -> None:
        """Report why a resize has to wait, once, and try again later."""
        conditions: Sequence[Object] = self._status.get("conditions") or ()
        old: Object = next((one for one in conditions if one["type"] == _RESIZE_PENDING), {})
        if old.get("message") != problem.message:
            self._report_resize(f"Resize{problem.reason}", f"Pod resize {problem.reason}", problem.message)
        self._moment.is_ahead(self._moment.now + RETRY)

    def _report_resize(self, reason: str, text: str, problem: str = "") -> None:
        if RESIZE_EVENTS in self._moment.features:
            summary: Object = {
                kind: [{"name": one.name, "resources": one.resources} for one in containers]
                for kind, containers in (("initContainers", self._inits), ("containers", self._regular))
                if containers
            }
            summary["generation"] = self._pod["metadata"].get("generation", 0)
            if problem:
                summary["error"] = problem
            message = f"{text}: {orjson.dumps(summary).decode()}"
            self._moment.event(WARNING if problem else NORMAL, reason, message)

    def advance(self) -> Steps[None]:
        """Make all changes that are due."""
        first = self._started + round(self._behaviour.start_after * SECOND)
        for one in (*self._inits, *self._regular, *self._ephemeral):
            if not one.state:
                one.wait("PodInitializing" if self._inits else "ContainerCreating")
        if not self._has_sandbox:
            for lacks in (self._lacks_volumes, self._lacks_devices, self._lacks_runtime):
                if (yield from lacks()):
                    return
        self._has_sandbox = True
        if self._moment.is_ahead(first):
            return
        yield from self._advance_containers(first)
        if self._restarts_all():
            for one in reversed((*self._inits, *self._regular)):
                one.remove()
            self._was_initialized = False
            yield from self._advance_containers(self._moment.now)
            if self._restarts_all():  # again: a kubelet looks at its containers every second
                self._moment.is_ahead(self._moment.now + SECOND)

    def _restarts_all(self) -> bool:
        return any(one.restarts_all for one in (*self._inits, *self._regular))

    def _advance_containers(self, first: int) -> Steps[None]:
        for number, one in enumerate(self._ephemeral, 1):
            yield from one.advance(first)
            if number % _STRIDE == 0:
                yield
        for number, one in enumerate(self._inits, 1):
            if number % _STRIDE == 0:
                yield
            if (self._was_initialized and one.kind == INIT) or self._was_over:
                continue
            yield from one.advance(first)
            if one.is_initialized:
                first = max(first, one.done_at)
            elif not self._was_initialized:
                self._stop_sidecars()
                return
        runs_hook = False  # a kubelet starts the next container after it
        for number, one in enumerate(self._regular, 1):
            if number % _STRIDE == 0:
                yield
            if one.has_run or not runs_hook:
                yield from self._advance_regular(one, first)
            runs_hook = runs_hook or one.name in self._moment.hooks
        self._stop_sidecars()

    def _is_over(self) -> bool:
        """Whether all containers have ended, and none restarts."""
        return all(one.is_over for one in self._regular)

    def _advance_regular(self, container: Container, first: int) -> Steps[None]:
        behaviour, now = self._behaviour, self._moment.now
        phase = behaviour.phase
        if phase == "ImagePull":
            container.pull_back_off(first)
        elif phase == "CrashLoop":
            restarts = CRASH_LOOP_RESTARTS if behaviour.restarts is None else behaviour.restarts
            container.crash_loop(restarts, _failure(behaviour))
        else:
            yield from container.advance(first)
            ends = phase in FINAL_PHASES and container.is_running
            if ends and not self._moment.is_ahead(self._started + round(behaviour.run_for * SECOND)):
                container.terminate(0 if phase == "Succeeded" else _failure(behaviour), now)
                self._chosen_phase = phase

    def _stop_sidecars(self) -> None:
        """Stop them once the containers have ended, the last one first."""
        sidecars = [one for one in reversed(self._inits) if one.is_running and one.kind == SIDECAR]
        if not sidecars:
            return
        if self._chosen_phase or not self._is_over():
            if self._phase() in FINAL_PHASES:
                for one in sidecars:
                    one.kill()
            return
        ends = [one.end["finishedAt"] for one in self._regular if one.end and one.end.get("finishedAt")]
        begun = max(map(micros_of, ends), default=self._moment.now)
        grace = self._spec.get("terminationGracePeriodSeconds", GRACE_SECONDS)
        names = {one.name for one in self._inits if one.kind == SIDECAR and one.has_run}
        found = endings(self._spec, names, self._behaviour, begun, grace, self._moment.features)
        for one in sidecars:
            if not self._was_over:
                one.event(NORMAL, "Killing", f"Stopping container {one.name}")
            if not self._moment.is_ahead(found[one.name].finished):
                one.terminate(found[one.name].code, found[one.name].finished)

    def _lacks_volumes(self) -> Steps[bool]:
        moment, references, first = self._moment, self._references, self._started
        claims = yield from references.claim_problems()
        broken = yield from references.volume_problems()
        unattached = [name for name in references.mounted_volumes() if name in self._placement.unattached]
        if not claims and not broken and not unattached:
            return False
        if broken and moment.last_try(first, _FIRST_MOUNT, _LONGEST_MOUNT) > moment.since:
            for volume, problem in broken.items():
                message = f"MountVolume.SetUp failed for volume {quoted(volume)} : {problem}"
                moment.event(WARNING, "FailedMount", message)
        if moment.repeats(first if claims else first + _MOUNT_TIMEOUT, RETRY if claims else _MOUNT_TIMEOUT):
            every, unmounted = (
                " ".join(references.mounted_volumes()),
                " ".join([*claims, *broken, *unattached]),
            )
            problem = ", ".join(claims.values()) or "timed out waiting for the condition"
            lists = f"unmounted volumes=[{unmounted}], unattached volumes=[{every if claims or unattached else ''}]"
            if UNPROCESSED_VOLUMES in moment.features:
                lists = f"unmounted volumes=[{unmounted}], "
                lists += f"unattached volumes=[{' '.join(unattached)}], "
                lists += f"failed to process volumes=[{' '.join(claims)}]"
                problem = problem if claims else "context deadline exceeded"
            moment.event(WARNING, "FailedMount", f"Unable to attach or mount volumes: {lists}: {problem}")
        return True

    def _lacks_devices(self) -> Steps[bool]:
        if not self._placement.device_group:
            return False
        problem = yield from self._references.device_problem(self._placement.device_group)
        if problem and self._moment.repeats(self._started, RETRY):
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            self._moment.event(WARNING, "FailedPrepareDynamicResources", message)
        return bool(problem)

    def _lacks_runtime(self) -> Steps[bool]:
        problem = yield from self._references.runtime_problem(self._placement.runtime_handlers)
        if problem and self._moment.repeats(self._started, RETRY):
            message = f"Failed to create pod sandbox: {problem}"
            self._moment.event(WARNING, "FailedCreatePodSandBox", message)
        return bool(problem)

    def step(self) -> Steps[Step]:
        """The step to the status as it is now."""
        phase = self._phase()
        reason = self._behaviour.reason if phase == "Failed" else ""
        new = yield from self._new_status(phase, {"reason": reason} if reason else {})
        moment = self._moment
        unchanged = new == self._status
        missing = frozenset(self._references.missing)
        return Step(None if unchanged else POD_STATUS.arranged(new), moment.wake, moment.events, missing)

    def fail(self, reason: Rejection, event_type: str, disruption: str = "") -> Steps[Step]:
        """End the pod: stop its containers. `disruption` says why it has to make room."""
        moment = self._moment
        moment.event(event_type, reason.reason, reason.message)
        for one in (*self._regular, *reversed(self._inits), *self._ephemeral):
            if not one.state:
                one.wait("ContainerCreating")
            one.kill(code=KILLED)
        new = yield from self._new_status("Failed", {"reason": reason.reason, "message": reason.message})
        if disruption and REJECTED_PODS in moment.features:
            target = {"status": "True", "reason": "TerminationByKubelet", "message": disruption}
            made = _condition("DisruptionTarget", target, None, moment.text, new.get("observedGeneration"))
            others = [one for one in new["conditions"] if one["type"] != "DisruptionTarget"]
            new["conditions"] = [*others, made]
        return Step(POD_STATUS.arranged(new), None, moment.events)

    def stop(self) -> Steps[Object]:
        """The status after the containers of a deleted pod have ended by themselves, or at the end of their time."""
        made = _endings(self._pod, self._behaviour, self._moment.features)
        last = max((one.finished for one in made.values()), default=0)
        late = max(self._moment.now - last, 0)  # an annotation or a node that was down held it back
        for one in (*self._regular, *self._inits, *self._ephemeral):
            if one.is_running:
                one.terminate(made[one.name].code, made[one.name].finished + late)
        phase = self._status["phase"]
        if TERMINAL_WHEN_DELETED in self._moment.features:
            ends = [one.end["exitCode"] if one.end else KILLED for one in self._regular]
            phase = "Failed" if any(ends) else "Succeeded"
        elif (found := self._phase()) in FINAL_PHASES and self._spec.get("restartPolicy") != "Always":
            phase = found
        return POD_STATUS.arranged((yield from self._new_status(phase, {})))

    def _new_status(self, phase: str, more: Object) -> Steps[Object]:
        pod, status, placement, features = self._pod, self._status, self._placement, self._moment.features
        new = {**status, **more, "phase": phase}
        for name, containers in (
            ("initContainerStatuses", self._inits),
            ("containerStatuses", self._regular),
            ("ephemeralContainerStatuses", self._ephemeral),
        ):
            if containers:
                statuses = new[name] = []
                for part in parts_of(containers, _STRIDE):
                    statuses.extend(one.status() for one in part)
                    yield
        new["hostIP"] = placement.host_ip
        if HOST_IPS in features and placement.host_ip:
            new["hostIPs"] = [{"ip": placement.host_ip}]
        new["startTime"] = seconds_text(self._started)
        if "podIP" not in new and self._has_sandbox and self._behaviour.phase != "ImagePull":
            address = placement.host_ip if self._spec.get("hostNetwork") else placement.new_ip()
            new["podIP"], new["podIPs"] = address, [{"ip": address}]
        if RESIZE_POD_LEVEL in features and self._has_sandbox:
            new["resources"] = self._resources
            new["allocatedResources"] = self._allocated
            if not self._allocated:
                del new["allocatedResources"]
        if RESIZE in features and RESIZE_CONDITIONS not in features:
            new["resize"] = "" if self._resize_problem is None else self._resize_problem.reason
            if not new["resize"]:
                del new["resize"]
        generation = pod["metadata"].get("generation") if OBSERVED_GENERATION in features else None
        if generation is not None:
            new["observedGeneration"] = generation
        new["conditions"] = self._conditions(new, generation)
        return new

    def _phase(self) -> str:
        """The phase, by the states of all containers."""
        if self._chosen_phase:
            return self._chosen_phase
        inits = [one for one in self._inits if one.kind == INIT]
        for one in inits:
            if one.is_over and one.end is not None and one.end["exitCode"]:
                return "Failed"
        is_initialized = self._was_initialized or all(one.is_initialized for one in self._inits)
        waits = any(not one.has_run for one in self._regular)
        if not is_initialized or waits:
            return "Pending"
        if not all(one.is_over for one in self._regular) or any(one.is_running for one in self._inits):
            return "Running"
        failed = any(one.end is not None and one.end["exitCode"] for one in self._regular)
        return "Failed" if failed else "Succeeded"

    def _conditions(self, new: Object, generation: int | None) -> list[Object]:
        """The conditions of a kubelet, and those of other writers; each keeps its position."""
        old: Sequence[Object] = self._status.get("conditions") or ()
        containers_ready = self._containers_ready(new["phase"])
        made: dict[str, Object] = {}
        if READY_TO_START in self._moment.features:
            is_up = self._has_sandbox and new["phase"] not in FINAL_PHASES
            made["PodReadyToStartContainers"] = {} if is_up else {"status": "False"}
        if RESIZE_CONDITIONS in self._moment.features:
            if self._resize_problem is not None:
                made[_RESIZE_PENDING] = {**self._resize_problem._asdict(), "status": "True"}
            if self._resizing_since is not None:
                made[_RESIZE_IN_PROGRESS] = {"status": "True", "since": seconds_text(self._resizing_since)}
        made["Initialized"] = self._initialized(new["phase"])
        made["Ready"] = containers_ready or _gates(self._spec, old)
        made["ContainersReady"] = containers_ready
        made["PodScheduled"] = {}
        if RESTART_ALL in self._moment.features and any(
            one.may_restart_all for one in (*self._inits, *self._regular)
        ):
            made[_RESTARTING_ALL] = {"status": "False", "reason": _ENDS.get(new["phase"], "")}
        text = self._moment.text
        conditions = []
        for one in old:
            kind = one["type"]
            if kind in made:
                conditions.append(_condition(kind, made.pop(kind), one, text, generation))
            elif kind not in (_RESIZE_PENDING, _RESIZE_IN_PROGRESS):
                conditions.append(one)
        conditions.extend(_condition(kind, problem, None, text, generation) for kind, problem in made.items())
        return conditions

    def _initialized(self, phase: str) -> Object:
        if phase == "Succeeded":
            return {"status": "True", "reason": "PodCompleted"}
        if any(one.has_run for one in self._regular):  # also before all restarted: it stays so
            return {}
        incomplete = (one.name for one in self._inits if not one.is_initialized)
        return _unready(incomplete, "ContainersNotInitialized", "incomplete")

    def _containers_ready(self, phase: str) -> Object:
        if (reason := _ENDS.get(phase)) is not None:
            return {"status": "False", "reason": reason}
        lasting = (*(one for one in self._inits if one.kind == SIDECAR), *self._regular)
        return _unready((one.name for one in lasting if not one.ready), "ContainersNotReady", "unready")


def _failure(behaviour: Behaviour) -> int:
    return 1 if behaviour.exit_code is None else behaviour.exit_code


def _condition(kind: str, problem: Object, old: Object | None, text: str, generation: int | None) -> Object:
    value = problem.get("status", "True")
    unchanged = old is not None and old["status"] == value
    since = old["lastTransitionTime"] if unchanged and old is not None else text
    since = problem.get("since", since)
    made = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    if generation is not None:
        made = {"type": kind, "observedGeneration": generation, **made}
    for name in ("reason", "message"):
        if problem.get(name):
            made[name] = problem[name]
    return made


def _unready(names: Iterable[str], reason: str, word: str) -> Object:
    listed = " ".join(names)
    if not listed:
        return {}
    return {"status": "False", "reason": reason, "message": f"containers with {word} status: [{listed}]"}


def _gates(spec: Object, conditions: Sequence[Object]) -> Object:
    """Why the readiness gates of a pod with ready containers are not satisfied."""
    messages: list[str] = []
    by_type = {one["type"]: one for one in reversed(conditions)}
    for gate in spec.get("readinessGates") or ():
        kind: Any = gate["conditionType"]
        found = by_type.get(kind)
        if found is None:
            messages.append(f"corresponding condition of pod readiness gate {quoted(kind)} does not exist.")
        elif found["status"] != "True":
            messages.append(
                f'the status of pod readiness gate {quoted(kind)} is not "True", but {found["status"]}'
            )
    if not messages:
        return {}
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(messages)}
