"""The status that a simulated node gives a pod: a function of the pod, its annotations and the time.

The status contains the whole history of the pod: when it started, when each container started or ended and how often.
So the same function continues from any moment, also after a restart of the server, and a pod whose status is correct
gets no write. `next_step` also returns after how many seconds the status changes by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.nodes.behaviour import Behaviour

SECOND: Final = 1_000_000  # microseconds
FINAL_PHASES: Final = ("Succeeded", "Failed")
CRASH_LOOP_RESTARTS: Final = 3  # of a pod in CrashLoop, unless an annotation sets the number
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10, 300  # seconds between two restarts of a container
BACK_OFF_RESET: Final = 600  # seconds after which a container counts as healthy
# The order in which the API shows the fields of a status.
_ORDER: Final = (
    "phase",
    "conditions",
    "message",
    "reason",
    "nominatedNodeName",
    "hostIP",
    "podIP",
    "podIPs",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "qosClass",
    "ephemeralContainerStatuses",
)


class Step(NamedTuple):
    status: Object | None = None  # to be written; None: unchanged
    wake: float | None = None  # seconds until the next change; None: only when something changes the pod


AT_REST: Final = Step()


class Placement(NamedTuple):
    """Where a pod runs."""

    host_ip: str
    new_ip: Callable[[], str]  # a free address for a pod that has none


def next_step(pod: Object, behaviour: Behaviour, placement: Placement, now: int) -> Step:
    """`now` is in microseconds since 1970."""
    status = pod.get("status") or {}
    if status.get("phase") in FINAL_PHASES or behaviour.phase == "Hold":
        return AT_REST
    moment = _Moment(pod, status, behaviour, now)
    phase, containers, inits = moment.containers()
    new = {**status, "phase": phase, "containerStatuses": containers}
    if inits:
        new["initContainerStatuses"] = inits
    new["hostIP"] = placement.host_ip
    new["startTime"] = seconds_text(moment.started)
    if "podIP" not in new and behaviour.phase != "ImagePull":
        address = placement.host_ip if pod["spec"].get("hostNetwork") else placement.new_ip()
        new["podIP"], new["podIPs"] = address, [{"ip": address}]
    if phase == "Failed" and behaviour.reason:
        new["reason"] = behaviour.reason
    new["conditions"] = _conditions(pod["spec"], status.get("conditions") or (), new, now)
    return Step(None if new == status else {name: new[name] for name in _ORDER if name in new}, moment.wake)


def seconds_to_deletion(pod: Object, behaviour: Behaviour, now: int) -> float | None:
    """After how many seconds the node stops a pod that is being deleted; None if it does not, or has."""
    metadata = pod["metadata"]
    grace: int | None = metadata.get("deletionGracePeriodSeconds")
    if not grace or behaviour.holds_termination:
        return None
    if not behaviour.terminate_after:
        return 0.0
    deadline = micros_of(metadata["deletionTimestamp"])
    takes = min(behaviour.terminate_after, float(grace))
    return max(0.0, (deadline - now) / SECOND - grace + takes)


class _Moment:
    """A pod at one moment of its run."""

    def __init__(self, pod: Object, status: Object, behaviour: Behaviour, now: int) -> None:
        self._pod, self._spec = pod, pod["spec"]
        self._behaviour = behaviour
        self._now = now
        self._text = seconds_text(now)
        start = status.get("startTime")
        self.started = micros_of(start) if start else now
        self._old = {one["name"]: one for one in status.get("containerStatuses") or ()}
        self._old_inits = {one["name"]: one for one in status.get("initContainerStatuses") or ()}
        self._inits = self._spec.get("initContainers") or ()
        # When the first init container starts, or without one the first container.
        self._created = self.started + round(behaviour.start_after * SECOND)
        self.wake: float | None = None

    def containers(self) -> tuple[str, list[Object], list[Object]]:
        """The phase, and the statuses of containers and of init containers."""
        inits = [self._init(number, one) for number, one in enumerate(self._inits)]
        if any("terminated" in one["state"] and one["state"]["terminated"]["exitCode"] for one in inits):
            return "Failed", self._waiting("PodInitializing"), inits
        if not all(one["ready"] for one in inits):
            return "Pending", self._waiting("PodInitializing"), inits
        if self._pending(self._created):
            return "Pending", self._waiting("ContainerCreating"), inits
        phase = self._phase()
        containers = [self._container(one, phase) for one in self._spec["containers"]]
        if phase == "ImagePull":
            return "Pending", containers, inits
        if phase in FINAL_PHASES:
            return phase, containers, inits
        ends = [one["state"]["terminated"]["exitCode"] for one in containers if "terminated" in one["state"]]
        if len(ends) == len(containers):
            return "Failed" if any(ends) else "Succeeded", containers, inits
        return "Running", containers, inits

    def _phase(self) -> str:
        behaviour = self._behaviour
        if behaviour.phase in FINAL_PHASES and self._pending(
            self.started + round(behaviour.run_for * SECOND)
        ):
            return "Running"
        return behaviour.phase

    def _pending(self, due: int) -> bool:
        """Whether this moment is in the future; if so, the pod changes then."""
        if due <= self._now:
            return False
        seconds = (due - self._now) / SECOND
        self.wake = seconds if self.wake is None else min(self.wake, seconds)
        return True

    def _waiting(self, reason: str) -> list[Object]:
        return [
            self._status(one, {"waiting": {"reason": reason}}, self._old.get(one["name"]), created=False)
            for one in self._spec["containers"]
        ]

    def _init(self, number: int, container: Object) -> Object:
        behaviour, old = self._behaviour, self._old_inits.get(container["name"])
        length = round(behaviour.init_for * SECOND)
        begin = self._created + number * length
        if self._pending(begin):
            return self._status(container, {"waiting": {"reason": "PodInitializing"}}, old, created=False)
        if self._pending(begin + length):
            return self._status(container, _running(old, self._text), old)
        code = behaviour.init_exit_code if number == 0 else 0
        ended = _terminated(code, seconds_text(begin), seconds_text(begin + length))
        if code and self._spec.get("restartPolicy") != "Never":
            restarts = CRASH_LOOP_RESTARTS if behaviour.restarts is None else behaviour.restarts
            return self._status(container, _crash_loop(), old, restarts=restarts, last=ended)
        if code == 0 or number == 0:
            return self._status(container, ended, old, ready=code == 0)
        return self._status(container, {"waiting": {"reason": "PodInitializing"}}, old, created=False)

    def _container(self, container: Object, phase: str) -> Object:
        behaviour, old = self._behaviour, self._old.get(container["name"])
        if phase == "ImagePull":
            message = f"Back-off pulling image {quoted(container['image'])}"
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
            return self._status(container, waiting, old, created=False)
        if phase == "CrashLoop":
            restarts = CRASH_LOOP_RESTARTS if behaviour.restarts is None else behaviour.restarts
            last = _kept_end(old) or _terminated(_failure(behaviour), self._text, self._text)
            return self._status(container, _crash_loop(), old, restarts=restarts, last=last)
        if phase in FINAL_PHASES:
            code = 0 if phase == "Succeeded" else _failure(behaviour)
            begun = _started_at(old) or seconds_text(self.started)
            return self._status(
                container, _terminated(code, begun, self._text), old, restarts=_restarts(behaviour, old)
            )
        if behaviour.exit_after is not None:
            return self._restarting(container, old, behaviour.exit_after)
        return self._run(container, _running(old, self._text), old, _restarts(behaviour, old))

    def _run(
        self, container: Object, state: Object, old: Object | None, restarts: int, last: Object | None = None
    ) -> Object:
        begun = micros_of(state["running"]["startedAt"])
        if begun > self._now - SECOND and old is None:
            begun = self._now  # the text has no fraction
        startup, readiness = _probe_delays(container)
        is_started = not (startup and self._pending(begun + startup * SECOND))
        waits_for_probe = bool(readiness) and self._pending(begun + readiness * SECOND)
        waits = self._behaviour.ready_after and self._pending(
            self.started + round(self._behaviour.ready_after * SECOND)
        )
        ready = is_started and not waits_for_probe and not waits and self._behaviour.phase != "NeverReady"
        return self._status(
            container, state, old, ready=ready, started=is_started, restarts=restarts, last=last
        )

    def _restarting(self, container: Object, old: Object | None, exit_after: float) -> Object:
        """A container that exits after some seconds, repeatedly if the pod's restartPolicy says so."""
        restarts, last = (0, {}) if old is None else (old["restartCount"], old.get("lastState") or {})
        state = (old or {}).get("state") or {}
        if "terminated" in state:
            return old  # type: ignore[return-value]
        if state.get("waiting", {}).get("reason") == "CrashLoopBackOff" and "terminated" in last:
            due = micros_of(last["terminated"].get("finishedAt") or self._text) + _back_off(restarts) * SECOND
            if self._pending(due):
                return old  # type: ignore[return-value]
            return self._run(container, _running(None, self._text), old, restarts + 1, last)
        state = _running(old, self._text)
        begun = micros_of(state["running"]["startedAt"])
        if self._pending((begun if old else self._now) + round(exit_after * SECOND)):
            return self._run(container, state, old, restarts, last)
        code = self._behaviour.exit_code or 0
        ended = _terminated(code, state["running"]["startedAt"], self._text)
        policy = self._spec.get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            return self._status(container, ended, old, restarts=restarts)
        if restarts == 0 or exit_after >= BACK_OFF_RESET:
            self._pending(self._now + round(exit_after * SECOND))
            return self._run(container, _running(None, self._text), old, restarts + 1, ended)
        self._pending(self._now + _back_off(restarts) * SECOND)
        metadata = self._pod["metadata"]
        message = (
            f"back-off {_duration(_back_off(restarts))} restarting failed container={container['name']} "
            f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        )
        return self._status(container, _crash_loop(message), old, restarts=restarts, last=ended)

    def _status(
        self,
        container: Object,
        state: Object,
        old: Object | None,
        *,
        ready: bool = False,
        started: bool = False,
        restarts: int = 0,
        last: Object | None = None,
        created: bool = True,
    ) -> Object:
        image, name = container["image"], container["name"]
        status = {
            "name": name,
            "state": state if old is None or not _same(old.get("state"), state) else old["state"],
            "lastState": (old or {}).get("lastState") or {} if last is None else last,
            "ready": ready,
            "restartCount": restarts,
            "image": image,
            "imageID": f"sim://{image}" if created else "",
        }
        if created:
            status["containerID"] = f"sim://{self._pod['metadata']['uid']}/{name}"
        status["started"] = started or ready
        return status


def _same(old: Object | None, new: Object) -> bool:
    """Whether both are the same state, apart from times."""
    if not old or old.keys() != new.keys():
        return False
    (kind,) = new
    times = ("startedAt", "finishedAt")
    before = {name: value for name, value in old[kind].items() if name not in times}
    after = {name: value for name, value in new[kind].items() if name not in times}
    if kind == "running":
        return bool(old[kind].get("startedAt") == new[kind].get("startedAt"))
    return before == after


def _running(old: Object | None, text: str) -> Object:
    """Running since it first ran, or now."""
    state = (old or {}).get("state") or {}
    known = (state.get("running") or {}).get("startedAt")
    return state if known else {"running": {"startedAt": text}}


def _terminated(code: int, started: str, finished: str) -> Object:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished}}


def _crash_loop(message: str = "back-off restarting failed container") -> Object:
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}


def _kept_end(old: Object | None) -> Object | None:
    state = (old or {}).get("state") or {}
    crashing = state.get("waiting", {}).get("reason") == "CrashLoopBackOff"
    return old.get("lastState") if crashing and old is not None else None


def _started_at(old: Object | None) -> str:
    running = ((old or {}).get("state") or {}).get("running") or {}
    text: str = running.get("startedAt", "")
    return text


def _failure(behaviour: Behaviour) -> int:
    return 1 if behaviour.exit_code is None else behaviour.exit_code


def _restarts(behaviour: Behaviour, old: Object | None) -> int:
    if behaviour.restarts is not None:
        return behaviour.restarts
    return 0 if old is None or behaviour.exit_after is None else int(old["restartCount"])


def _back_off(restarts: int) -> int:
    """Seconds before the next restart; the first restart does not wait."""
    doubled = FIRST_BACK_OFF << min(max(restarts, 1) - 1, 10)
    return min(doubled, LONGEST_BACK_OFF)


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _probe_delays(container: Object) -> tuple[int, int]:
    """Seconds after its start when the startup probe, and when both probes have succeeded."""
    startup, readiness = container.get("startupProbe"), container.get("readinessProbe")
    if startup is None and readiness is None:
        return 0, 0
    starts = int((startup or {}).get("initialDelaySeconds") or 0)
    if readiness is None:
        return starts, starts
    again = (int(readiness.get("successThreshold") or 1) - 1) * int(readiness.get("periodSeconds") or 10)
    return starts, max(starts, int(readiness.get("initialDelaySeconds") or 0) + again)


def _conditions(spec: Object, old: Sequence[Object], status: Object, now: int) -> list[Object]:
    """The conditions of a kubelet, and those of other writers; each keeps its position."""
    containers_ready = _containers_ready(status)
    made = {
        "Initialized": _initialized(status),
        "Ready": containers_ready or _gates(spec, old),
        "ContainersReady": containers_ready,
        "PodScheduled": {},
    }
    text = seconds_text(now)
    conditions = []
    for one in old:
        kind = one["type"]
        conditions.append(_condition(kind, made.pop(kind), one, text) if kind in made else one)
    conditions.extend(_condition(kind, problem, None, text) for kind, problem in made.items())
    return conditions


def _condition(kind: str, problem: Object, old: Object | None, text: str) -> Object:
    value = problem.get("status", "True")
    unchanged = old is not None and old["status"] == value
    since = old["lastTransitionTime"] if unchanged and old is not None else text
    made = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    for name in ("reason", "message"):
        if problem.get(name):
            made[name] = problem[name]
    return made


def _initialized(status: Object) -> Object:
    if status["phase"] == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    return _unready(status.get("initContainerStatuses") or (), "ContainersNotInitialized", "incomplete")


def _containers_ready(status: Object) -> Object:
    if (reason := {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(status["phase"])) is not None:
        return {"status": "False", "reason": reason}
    return _unready(status["containerStatuses"], "ContainersNotReady", "unready")


def _unready(containers: Iterable[Object], reason: str, word: str) -> Object:
    names = [one["name"] for one in containers if not one["ready"]]
    if not names:
        return {}
    message = f"containers with {word} status: [{' '.join(names)}]"
    return {"status": "False", "reason": reason, "message": message}


def _gates(spec: Object, conditions: Sequence[Object]) -> Object:
    """Why the readiness gates of a pod with ready containers are not satisfied."""
    messages: list[str] = []
    for gate in spec.get("readinessGates") or ():
        kind: Any = gate["conditionType"]
        found = next((one for one in conditions if one["type"] == kind), None)
        if found is None:
            messages.append(f"corresponding condition of pod readiness gate {quoted(kind)} does not exist.")
        elif found["status"] != "True":
            messages.append(
                f'the status of pod readiness gate {quoted(kind)} is not "True", but {found["status"]}'
            )
    if not messages:
        return {}
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(messages)}
