"""The life of a container on a simulated node: a function of its last status, what its program does, and the time.

A container waits for its image and its environment, runs, ends, and restarts after growing pauses, as with a kubelet.
Everything that this needs to know is in its status: when it started, how it last ended, how long it waits. `Container`
makes the changes that are due at a `Moment`, which collects the Events that belong to them and when the next is due.
States that take no time are not written: a container that starts at once goes from waiting to running.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.nodes.behaviour import Behaviour, Script
from rewound.actors.nodes.images import IMAGE_BYTES, full_name, is_bad, parse_error, pull_error
from rewound.actors.nodes.references import References
from rewound.actors.runtime.steps import Steps
from rewound.actors.versions.features import (
    CONTAINER_CREATED,
    CREATED_WITH_COLON,
    GROUPS_POLICY,
    IMAGE_SIZES,
    NAMED_BACK_OFF,
    PULL_ERRORS,
    READ_ONLY_MOUNTS,
    RESIZE,
    RESTART_ALL,
    RESTART_RULES,
    SHORT_BACK_OFF,
    SIDECARS,
    SLEEP_ACTION,
    STOP_SIGNALS,
)

SECOND: Final = 1_000_000  # microseconds
RETRY: Final = 12 * SECOND  # a kubelet looks again at a pod with an error after 10 to 15 seconds
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10, 300  # seconds between two restarts, or two pulls of an image
FIRST_SHORT_BACK_OFF, LONGEST_SHORT_BACK_OFF = 1, 60  # between two restarts, with SHORT_BACK_OFF
_MOST_RESTARTS: Final = 2**31 - 1  # that a status can have
GRACE_SECONDS: Final = 30  # of a pod that names none
KILLED: Final = 137  # the exit code of a container that does not end when asked to
_ERROR_SECONDS: Final = 1  # how long ErrImagePull is shown before ImagePullBackOff
_BACK_OFF: Final = re.compile(r"back-off (?:(\d+)m)?(\d+)s restarting")
_RESOURCES: Final = ("limits", "requests")
# Of containers that are removed because another one ended, by a rule for such ends.
_RESTARTING_ALL: Final = "RestartingAllContainers"
_REMOVED: Final = "The container is removed because RestartAllContainers in place"
_ALL: Final = "RestartAllContainers"
NORMAL, WARNING = "Normal", "Warning"
REGULAR, INIT, SIDECAR, EPHEMERAL = "containers", "initContainers", "sidecars", "ephemeralContainers"


class PodEvent(NamedTuple):
    type: str
    reason: str
    message: str
    field_path: str = ""


class Moment:
    """One look at a pod: at what is due by now, and what the last look did not see yet."""

    def __init__(
        self,
        pod: Object,
        behaviour: Behaviour,
        references: References,
        features: frozenset[str],
        now: int,
        since: int,
        *,
        bad_images: tuple[str, ...] = (),
        images: set[str] | None = None,
        hooks: dict[str, int] | None = None,
        has_events: bool = True,
    ) -> None:
        """`images` are those of the node; a container that starts adds its own.

        `hooks` are the starts of the containers whose postStart hooks run; these keep them up to date.
        """
        self._has_events = has_events
        self.pod, self.behaviour, self.references, self.features = pod, behaviour, references, features
        self.now, self.since = now, since
        self.text = seconds_text(now)
        self.bad_images = bad_images
        self.images: set[str] = set() if images is None else images
        self.hooks: dict[str, int] = {} if hooks is None else hooks
        self.events: list[PodEvent] = []
        self.wake: float | None = None  # seconds until the next change

    def is_ahead(self, due: int) -> bool:
        """Whether this is in the future; if so, the pod changes then."""
        if due <= self.now:
            return False
        seconds = (due - self.now) / SECOND
        self.wake = seconds if self.wake is None else min(self.wake, seconds)
        return True

    def repeats(self, first: int, every: int) -> bool:
        """Whether an Event that repeats is due; the next one wakes the pod."""
        if not self._has_events or self.is_ahead(first):
            return False
        last = first + (self.now - first) // every * every
        self.is_ahead(last + every)
        return last > self.since

    def last_try(self, first: int, pause: int, longest: int) -> int:
        """The last of tries with doubling pauses; the next one wakes the pod."""
        last = first
        while pause < longest and last + pause <= self.now:
            last += pause
            pause *= 2
        pause = min(pause, longest)
        if last + pause <= self.now:
            last += (self.now - last) // pause * pause
        self.is_ahead(last + pause)
        return last

    def event(self, event_type: str, reason: str, message: str, field_path: str = "") -> None:
        self.events.append(PodEvent(event_type, reason, message, field_path))


class Container:
    """A container at a moment: its last status, and the changes since."""

    def __init__(self, moment: Moment, spec: Object, kind: str, script: Script, old: Object | None) -> None:
        self._moment, self.spec, self.kind, self._script = moment, spec, kind, script
        self.name: str = spec["name"]
        self._old = old or {}
        self.state: Object = self._old.get("state") or {}
        self.last: Object = self._old.get("lastState") or {}
        self.restarts: int = self._old.get("restartCount", 0)
        self.ready = self.started = False
        wanted = spec.get("resources") or {}
        self.resources: Object = {name: wanted[name] for name in _RESOURCES if wanted.get(name)}
        self.allocated: Object = self.resources.get("requests") or {}
        started = (self.state.get("running") or {}).get("startedAt")
        self._begun = micros_of(started) if started else 0
        self._hook_failed: int | None = None  # when its postStart hook failed, which ends it

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    @property
    def end(self) -> Object | None:
        """How it ended, unless it runs."""
        if "terminated" in self.state:
            ended: Object = self.state["terminated"]
            return ended
        return None if self.is_running else self.last.get("terminated")

    @property
    def has_run(self) -> bool:
        return self.is_running or self.end is not None

    @property
    def is_removed(self) -> bool:
        """Whether it was removed with all others, to start again."""
        return bool((self.state.get("waiting") or {}).get("reason") == _RESTARTING_ALL)

    @property
    def may_restart_all(self) -> bool:
        return any(rule.get("action") == _ALL for rule in self.spec.get("restartPolicyRules") or ())

    @property
    def restarts_all(self) -> bool:
        """Whether all containers of its pod restart, because it has ended as it has."""
        return "terminated" in self.state and self._rule(self.state["terminated"]["exitCode"]) == _ALL

    @property
    def is_over(self) -> bool:
        """Whether it has ended and does not restart."""
        ended = self.state.get("terminated")
        return ended is not None and not self._restarts_after(ended["exitCode"])

    @property
    def is_initialized(self) -> bool:
        """Whether the next init container may start."""
        if self.kind == SIDECAR:
            return self.started
        return "terminated" in self.state and self.state["terminated"]["exitCode"] == 0

    @property
    def done_at(self) -> int:
        """When it was initialized."""
        if self.kind == SIDECAR:
            return self._begun + _delay(self.spec.get("startupProbe")) * SECOND
        return micros_of(self.state["terminated"].get("finishedAt") or self._moment.text)

    def advance(self, first: int) -> Steps[None]:
        """Start, end and restart it as often as that is due. It may start from the time `first` on."""
        moment = self._moment
        if moment.behaviour.restarts is not None and self._script.exit_after is None and self.kind == REGULAR:
            self.restarts = moment.behaviour.restarts
        while True:
            if self.is_running:
                ended = self._due_end()
                if ended is None:
                    self._probe()
                    return
                self.terminate(*ended)
            elif (end := self.end) is None:
                if not (yield from self._start(first)):
                    return
            else:
                if "terminated" in self.state and (
                    self.restarts_all or not self._restarts_after(end["exitCode"])
                ):
                    return
                # Somebody else may have written an end without a time: then it was long ago.
                finished, pause = (
                    micros_of(end["finishedAt"]) if end.get("finishedAt") else 0,
                    self._pause(end),
                )
                if moment.is_ahead(finished + pause * SECOND):
                    who = f"container={self.name} pod={self._pod_name()}"
                    self._back_off(finished, f"{_duration(pause)} restarting failed {who}")
                    return
                if not (yield from self._start(finished + pause * SECOND)):
                    return

    def wait(self, reason: str, message: str = "") -> None:
        if "terminated" in self.state:
            self.last = self.state
        waiting = {"reason": reason, "message": message} if message else {"reason": reason}
        self.state = {"waiting": waiting}

    def terminate(self, code: int, finished: int) -> None:
        started = (self.state.get("running") or {}).get("startedAt")
        end = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": started or self._moment.text,
            "finishedAt": seconds_text(finished),
            "containerID": self._id(),
        }
        self.state = {"terminated": end}
        self.ready = self.started = False
        self._hook_failed = None

    def kill(self, message: str = "", code: int = 0) -> None:
        """Stop it, if it runs."""
        if self.is_running:
            self.event(NORMAL, "Killing", message or f"Stopping container {self.name}")
            self.terminate(code, self._moment.now)

    def remove(self) -> None:
        """Remove it, to start again with all others."""
        if self.is_running:
            self.event(NORMAL, "Killing", "killing")
        if not self.is_removed and self.has_run:
            self.restarts = min(self.restarts + 1, _MOST_RESTARTS)
            end = {"exitCode": KILLED, "reason": _RESTARTING_ALL, "message": _REMOVED}
            self.last = {"terminated": {**end, "startedAt": None, "finishedAt": None}}
            self.state = {"waiting": {"reason": _RESTARTING_ALL, "message": _REMOVED}}
        self._moment.hooks.pop(self.name, None)
        self.ready = self.started = False

    def crash_loop(self, restarts: int, code: int) -> None:
        """Wait to be restarted, for as long as an annotation says so."""
        self.restarts = restarts
        if not self._is_in_back_off:
            self.terminate(code, self._moment.now)
        end = self.end or {}
        self._back_off(micros_of(end.get("finishedAt") or self._moment.text), "restarting failed container")

    def pull_back_off(self, first: int) -> None:
        """Wait to pull its image again, for as long as an annotation says so."""
        self._report_pulls(first)
        self.wait("ImagePullBackOff", f"Back-off pulling image {quoted(self.spec['image'])}")

    def event(self, event_type: str, reason: str, message: str) -> None:
        field = INIT if self.kind == SIDECAR else self.kind
        self._moment.event(event_type, reason, message, f"spec.{field}{{{self.name}}}")

    def status(self) -> Object:
        is_made = self.has_run
        status: Object = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last,
            "ready": self.ready or (self.kind == INIT and self.is_initialized),
            "restartCount": self.restarts,
            "image": self.spec["image"],
            "imageID": f"sim://{self.spec['image']}" if is_made else "",
        }
        if is_made:
            status["containerID"] = self._id()
        if self.kind in (REGULAR, SIDECAR) or (self.kind == INIT and SIDECARS in self._moment.features):
            status["started"] = self.started
        status |= self._mounts()
        return {**status, **self._facts()} if is_made else status

    def _mounts(self) -> Object:
        """Its volumes; a read-only one is read-only with all that is mounted below it only if that was asked for."""
        mounts = self.spec.get("volumeMounts")
        if not mounts or READ_ONLY_MOUNTS not in self._moment.features:
            return {}
        found = []
        for mount in mounts:
            one = {"name": mount["name"], "mountPath": mount["mountPath"]}
            if mount.get("readOnly"):
                whole = mount.get("recursiveReadOnly") in ("Enabled", "IfPossible")
                one |= {"readOnly": True, "recursiveReadOnly": "Enabled" if whole else "Disabled"}
            found.append(one)
        return {"volumeMounts": found}

    def _facts(self) -> Object:
        """What a container runtime says of a container that it has made."""
        features, facts = self._moment.features, {}
        if RESIZE in features:
            if self.allocated:
                facts["allocatedResources"] = self.allocated
            facts["resources"] = self.resources
        if GROUPS_POLICY in features:
            facts["user"] = {"linux": self._user()}
        if STOP_SIGNALS in features:
            facts["stopSignal"] = (self.spec.get("lifecycle") or {}).get("stopSignal", "SIGTERM")
        return facts

    def _user(self) -> Object:
        """Who runs it, as if all images said root."""
        of_pod = self._moment.pod["spec"].get("securityContext") or {}
        context = {**of_pod, **(self.spec.get("securityContext") or {})}
        group = context.get("runAsGroup") or 0
        groups = [group, *(of_pod.get("supplementalGroups") or ())]
        if of_pod.get("fsGroup") is not None:
            groups.append(of_pod["fsGroup"])
        return {
            "uid": context.get("runAsUser") or 0,
            "gid": group,
            "supplementalGroups": list(dict.fromkeys(groups)),
        }

    @property
    def is_resized(self) -> bool:
        """Whether its spec asks for other resources than it has."""
        return self.is_running and self._old.get("resources", {}) != self.resources

    @property
    def is_allocated(self) -> bool:
        """Whether it was allocated what its spec requests, although it may not have it yet."""
        return bool(self._old.get("allocatedResources", {}) == self.allocated)

    def keep_resources(self, *, allocated: bool = False) -> None:
        """Leave it what it has; `allocated`: it gets more later."""
        self.resources = self._old.get("resources", {})
        if not allocated:
            self.allocated = self._old.get("allocatedResources", {})

    def restart_to_resize(self) -> None:
        """Restart it, if one of the resources that change requires that."""
        old = self._old.get("resources", {})
        for policy in self.spec.get("resizePolicy") or ():
            name = policy["resourceName"]
            before, after = (
                [one.get(kind, {}).get(name) for kind in _RESOURCES] for one in (old, self.resources)
            )
            if policy.get("restartPolicy") == "RestartContainer" and before != after:
                self.kill(f"Container {self.name} resize requires restart, will be restarted", KILLED)

    def _id(self) -> str:
        uid = self._moment.pod["metadata"]["uid"]
        return f"sim://{uid}/{self.name}/{self.restarts}" if self.restarts else f"sim://{uid}/{self.name}"

    # Starting

    def _start(self, first: int) -> Steps[bool]:
        """Pull the image, make the container and start it; or wait and say why not."""
        moment, image = self._moment, self.spec["image"]
        if full_name(image) is None:
            self._fail_to_parse(first)
            return False
        if is_bad(image, moment.bad_images):
            self._fail_to_pull(first)
            return False
        references = moment.references
        problem = yield from references.environment_problem(self.spec)
        problem = problem or (yield from references.mount_problem(self.spec))
        if problem:
            if moment.repeats(first, RETRY):
                self._report_pull()
                self.event(WARNING, "Failed", f"Error: {problem}")
            self.wait("CreateContainerConfigError", problem)
            return False
        begun = moment.hooks.get(self.name)
        if begun is None:
            begun = moment.now
            self._report_pull()
            self._report_start()
        if not self._has_run_hook(begun):
            return False
        if not self.is_removed and (end := self.end) is not None:
            self.last = {"terminated": end}
            self.restarts = min(self.restarts + 1, _MOST_RESTARTS)
        self.state = {"running": {"startedAt": seconds_text(begun)}}
        self._begun = begun
        return True

    def _has_run_hook(self, begun: int) -> bool:
        """Whether its postStart hook is over. Until then its node waits, and reports the state from before."""
        hook = self.spec.get("lifecycle", {}).get("postStart")
        if hook is None:
            return True
        moment, fails = self._moment, self._script.fail_post_start
        seconds = hook_seconds(hook, self._script.post_start_for, moment.features) if fails is None else fails
        over = begun + round(seconds * SECOND)
        if moment.is_ahead(over):
            moment.hooks[self.name] = begun
            return False
        moment.hooks.pop(self.name, None)
        self._hook_failed = None if fails is None else over
        return True

    def _report_pull(self) -> None:
        moment, image = self._moment, self.spec["image"]
        if self.spec.get("imagePullPolicy") == "Never" or (
            self.spec.get("imagePullPolicy") != "Always" and image in moment.images
        ):
            present = f"Container image {quoted(image)} already present on machine"
            said = CONTAINER_CREATED in moment.features
            self.event(NORMAL, "Pulled", f"{present} and can be accessed by the pod" if said else present)
            return
        moment.images.add(image)
        self.event(NORMAL, "Pulling", f"Pulling image {quoted(image)}")
        took = f"{moment.behaviour.start_after:g}s"
        message = f"Successfully pulled image {quoted(image)} in {took} ({took} including waiting)"
        if IMAGE_SIZES in moment.features:
            message += f". Image size: {IMAGE_BYTES} bytes."
        self.event(NORMAL, "Pulled", message)

    def _report_start(self) -> None:
        features, name = self._moment.features, self.name
        if CONTAINER_CREATED in features:
            created, started = "Container created", "Container started"
        else:
            colon = ":" if CREATED_WITH_COLON in features else ""
            created, started = f"Created container{colon} {name}", f"Started container {name}"
        self.event(NORMAL, "Created", created)
        self.event(NORMAL, "Started", started)

    def _fail_to_parse(self, first: int) -> None:
        image = self.spec["image"]
        problem = (
            f"Failed to apply default image tag {quoted(image)}: {parse_error(image, self._moment.features)}"
        )
        if self._moment.repeats(first, RETRY):
            self.event(WARNING, "InspectFailed", problem)
            self.event(WARNING, "Failed", "Error: InvalidImageName")
        self.wait("InvalidImageName", problem)

    def _fail_to_pull(self, first: int) -> None:
        image, moment = self.spec["image"], self._moment
        last = self._report_pulls(first)
        if moment.is_ahead(last + _ERROR_SECONDS * SECOND):
            self.wait("ErrImagePull", pull_error(image))
            return
        message = f"Back-off pulling image {quoted(image)}"
        if PULL_ERRORS in moment.features:
            message += f": ErrImagePull: {pull_error(image)}"
        self.wait("ImagePullBackOff", message)

    def _report_pulls(self, first: int) -> int:
        """Record the Events about pulls that failed; returns when the last one did."""
        image, moment = self.spec["image"], self._moment
        last = moment.last_try(first, FIRST_BACK_OFF * SECOND, LONGEST_BACK_OFF * SECOND)
        if last > moment.since:
            self.event(NORMAL, "Pulling", f"Pulling image {quoted(image)}")
            self.event(WARNING, "Failed", f"Failed to pull image {quoted(image)}: {pull_error(image)}")
            self.event(WARNING, "Failed", "Error: ErrImagePull")
        if moment.repeats(last + _ERROR_SECONDS * SECOND, RETRY):
            self.event(NORMAL, "BackOff", f"Back-off pulling image {quoted(image)}")
            self.event(WARNING, "Failed", "Error: ImagePullBackOff")
        return last

    # Ending and restarting

    def _due_end(self) -> tuple[int, int] | None:
        """The exit code and the time of its end, if it has ended by now."""
        script, moment = self._script, self._moment
        ends: list[tuple[int, int, str]] = []
        if self._hook_failed is not None:
            self.event(WARNING, "FailedPostStartHook", "PostStartHook failed")
            self.event(NORMAL, "Killing", "FailedPostStartHook")
            return KILLED, self._hook_failed
        if script.exit_after is not None:
            ends.append((self._begun + round(script.exit_after * SECOND), script.exit_code, ""))
        for kind in ("startup", "liveness"):
            failing = self._failing_since(kind)
            if failing is not None and not (
                kind == "liveness" and self._failing_since("startup") is not None
            ):
                probe = self.spec[f"{kind}Probe"]
                threshold = probe.get("failureThreshold") or 3
                killed = failing + (threshold - 1) * _period(probe)
                ends.append((killed, KILLED, kind))
        if not ends:
            return None
        due, code, probe_kind = min(ends)
        if probe_kind and moment.since < due:  # nobody probes a container that is being stopped
            self._report_unhealthy(probe_kind)
        if moment.is_ahead(due):
            return None
        finished = due + self._pre_stop(probe_kind, due) if probe_kind else due
        if probe_kind and (finished == due or due > moment.since):
            who = "Init container" if self.kind == SIDECAR else "Container"
            message = f"{who} {self.name} failed {probe_kind} probe"
            if self.kind == REGULAR and self._restarts_after(code):
                message += ", will be restarted"
            self.event(NORMAL, "Killing", message)
        return None if moment.is_ahead(finished) else (code, finished)

    def _pre_stop(self, probe_kind: str, due: int) -> int:
        """How long the preStop hook takes of a container that failed a probe: at most its grace period."""
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if hook is None:
            return 0
        moment, behaviour = self._moment, self._moment.behaviour
        of_probe = self.spec[f"{probe_kind}Probe"].get("terminationGracePeriodSeconds")
        of_pod = moment.pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
        grace = of_pod if of_probe is None else of_probe
        seconds = hook_seconds(hook, behaviour.seconds("pre-stop-for", self.name) or 0.0, moment.features)
        fails = behaviour.seconds("fail-pre-stop", self.name)
        taken: int = round(min(seconds if fails is None else fails, grace) * SECOND)
        if fails is not None and fails <= grace and moment.now >= due + taken > moment.since:
            self.event(WARNING, "FailedPreStopHook", "PreStopHook failed")
        return taken

    def _restarts_after(self, code: int) -> bool:
        spec = self._moment.pod["spec"]
        if "deletionTimestamp" in self._moment.pod["metadata"] or self.kind == EPHEMERAL:
            return False
        if self.kind == SIDECAR:
            return True
        if self.kind == INIT and not code:
            return self._rule(code) == _ALL
        if self._rule(code):
            return True
        policy = spec.get("restartPolicy", "Always")
        if RESTART_RULES in self._moment.features:
            policy = self.spec.get("restartPolicy") or policy
        if self.kind == INIT:
            return bool(policy != "Never")
        return bool(policy == "Always" or (policy == "OnFailure" and code))

    def _rule(self, code: int) -> str:
        """The action of the first of its rules that is for an exit code; "" if none is."""
        features = self._moment.features
        rules = self.spec.get("restartPolicyRules") or () if RESTART_RULES in features else ()
        for rule in rules:
            codes = rule.get("exitCodes") or {}
            if (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
                action: str = rule.get("action", "")
                return action if action != _ALL or RESTART_ALL in features else ""
        return ""

    def _pause(self, end: Object) -> int:
        """Seconds between its end and its restart: twice the last pause, if it did not run for long."""
        waiting = self.state.get("waiting") or {}
        if waiting:
            if self.is_removed:
                return 0
            said = _BACK_OFF.match(waiting.get("message", ""))
            return int(said[1] or 0) * 60 + int(said[2]) if said is not None else 0
        started = micros_of(end.get("startedAt") or self._moment.text)
        finished = micros_of(end.get("finishedAt") or self._moment.text)
        before = self.last.get("terminated")
        pause, longest, missed = FIRST_BACK_OFF, LONGEST_BACK_OFF, 1  # times have no fractions
        if SHORT_BACK_OFF in self._moment.features:
            pause, longest, missed = FIRST_SHORT_BACK_OFF, LONGEST_SHORT_BACK_OFF, 0
        if before is None or finished - started > 2 * longest * SECOND:
            return 0
        paused = (started - micros_of(before.get("finishedAt") or self._moment.text)) // SECOND
        while pause < longest and pause <= paused + missed:
            pause *= 2
        return min(pause, longest)

    @property
    def _is_in_back_off(self) -> bool:
        return bool((self.state.get("waiting") or {}).get("reason") == "CrashLoopBackOff")

    def _back_off(self, since: int, text: str) -> None:
        if self._moment.repeats(since, RETRY) or not self._is_in_back_off:
            named = (
                f" {self.name} in pod {self._pod_name()}" if NAMED_BACK_OFF in self._moment.features else ""
            )
            self.event(WARNING, "BackOff", f"Back-off restarting failed container{named}")
        self.wait("CrashLoopBackOff", f"back-off {text}")

    def _pod_name(self) -> str:
        metadata = self._moment.pod["metadata"]
        return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"

    # Probes

    def _probe(self) -> None:
        """Set whether it has started and is ready."""
        moment = self._moment
        if self.kind in (INIT, EPHEMERAL):
            self.started = self.kind == INIT
            return
        startup, readiness = self.spec.get("startupProbe"), self.spec.get("readinessProbe")
        passed = self._begun + _delay(startup) * SECOND
        fails_to_start = self._failing_since("startup") is not None
        self.started = not fails_to_start and not moment.is_ahead(passed)
        ready = self.started and moment.behaviour.phase != "NeverReady"
        if readiness is not None and not fails_to_start:
            again = ((readiness.get("successThreshold") or 1) - 1) * _period(readiness)
            if moment.is_ahead(max(passed, self._begun + _delay(readiness) * SECOND + again)):
                ready = False
            elif (failing := self._failing_since("readiness")) is not None:
                self._report_unhealthy("readiness")
                never_succeeded = failing <= max(passed, self._begun + _delay(readiness) * SECOND)
                threshold = readiness.get("failureThreshold") or 3
                if never_succeeded or not moment.is_ahead(failing + (threshold - 1) * _period(readiness)):
                    ready = False
        if moment.behaviour.ready_after and self.kind == REGULAR:
            start = (moment.pod.get("status") or {}).get("startTime")
            begun = micros_of(start) if start else moment.now
            if moment.is_ahead(begun + round(moment.behaviour.ready_after * SECOND)):
                ready = False
        self.ready = ready

    def _failing_since(self, kind: str) -> int | None:
        """When a probe fails for the first time, which may be in the future; None if it does not."""
        seconds, probe = self._script.fails.get(kind), self.spec.get(f"{kind}Probe")
        if seconds is None or probe is None:
            return None
        first, period = self._begun + _delay(probe) * SECOND, _period(probe)
        if kind != "startup":
            first = max(first, self._begun + _delay(self.spec.get("startupProbe")) * SECOND)
        late = self._begun + round(seconds * SECOND) - first
        if late > 0 and kind == "startup":
            return None  # it succeeds before, and then is over
        return first + -(-max(late, 0) // period) * period

    def _report_unhealthy(self, kind: str) -> None:
        failing, probe = self._failing_since(kind), self.spec[f"{kind}Probe"]
        assert failing is not None
        if self._moment.repeats(failing, _period(probe)):
            self.event(WARNING, "Unhealthy", f"{kind.capitalize()} probe failed: {self._failure(probe)}")

    def _failure(self, probe: Object) -> str:
        """What a prober says when nobody answers well."""
        if "httpGet" in probe:
            return "HTTP probe failed with statuscode: 500"
        if "tcpSocket" in probe:
            address = (self._moment.pod.get("status") or {}).get("podIP", "")
            return f"dial tcp {address}:{probe['tcpSocket'].get('port', '')}: connect: connection refused"
        if "grpc" in probe:
            return 'service unhealthy (responded with "NOT_SERVING")'
        return ""


def hook_seconds(hook: Object, annotated: float, features: frozenset[str]) -> float:
    """How long a lifecycle hook takes: as long as it says if it sleeps, else what an annotation says."""
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0) if SLEEP_ACTION in features else 0.0
    return annotated


def _delay(probe: Object | None) -> int:
    return int((probe or {}).get("initialDelaySeconds") or 0)


def _period(probe: Object) -> int:
    return int(probe.get("periodSeconds") or 10) * SECOND


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
