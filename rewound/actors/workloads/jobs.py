"""Jobs: run pods until as many of them have succeeded as the job asks for, or too many have failed.

Every pod has a finalizer until it is counted. So none is missed and none counts twice, wherever a pass is interrupted:

1. the uids of finished pods are written to `status.uncountedTerminatedPods`,
2. these pods lose the finalizer,
3. the uids are removed from the status, and the counts rise accordingly.

A uid in the status without a pod that has the finalizer is at step 3. For an Indexed job the status has the indexes
that succeeded, and only failures are counted this way. The last write adds the condition of a finished job.

A pod that fails is replaced after 10 s, 20 s, 40 s and so on up to ten minutes, until one succeeds; with
`backoffLimitPerIndex` each index has its own count, in an annotation of its pods. Before 1.28 the first is replaced at
once, and the pause ends at six minutes: `EarlyBackoff`. Counting is immediate: only the replacement waits.

Since 1.31 a job that ends first has the condition FailureTarget or SuccessCriteriaMet, and Failed or Complete when none
of its pods terminates any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from rewound.actors.controllers.client import run_concurrently
from rewound.actors.errors import NotFound, RequestError
from rewound.actors.kinds.batch import JOB_STATUS
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, chosen, in_order, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.store.document import decode
from rewound.actors.versions.features import (
    FAILURE_POLICY,
    FAILURES_BY_POD,
    INDEX_LABELS,
    JOB_SUCCESS,
    MANAGED_BY,
    ONLY_FAILED_PODS,
    PER_INDEX_LIMITS,
    POD_REPLACEMENT,
    SUSPENDED_SCHEDULING,
    TERMINATING_OF_DELETED,
    WIDE_SUCCESS_CRITERIA,
)
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import CHANGED, Pace, Parts, WorkloadController
from rewound.actors.workloads.job_indexes import Indexes, count_of, index_of, name_prefix, not_needed
from rewound.actors.workloads.pods import (
    Claims,
    PodWriter,
    condition_of,
    copied,
    deletion_order,
    is_active,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    pod_from_template,
)

BURST: Final = 500  # pods that one pass creates or deletes at most
MOST_UNCOUNTED: Final = 500  # uids in a status, which take 20 kB
FIRST_BACKOFF, LONGEST_BACKOFF = 10.0, 600.0  # seconds
LONGEST_EARLY_BACKOFF: Final = 360.0  # seconds, before 1.28
SOON: Final = 1.0  # seconds
INTERVAL: Final = 0.1  # seconds between two passes over many pods
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_CHECK_EVERY: Final = 64  # pods
# Before the name of a pod in a key: its finalizer must be removed; no job has such a name.
POD: Final = "pod/"
# The condition of a job that will end, and the one that follows when its pods are gone.
LAST_CONDITIONS: Final = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


def finished_condition(job: Object) -> Object | None:
    """The condition that the job is complete or has failed."""
    for condition_type in ("Complete", "Failed"):
        condition = condition_of(job, condition_type)
        if condition is not None and condition["status"] == "True":
            return condition
    return None


def _pause(failures: int, longest: float) -> float:
    """How long the replacement of a pod waits, by the failures so far."""
    # Limit the exponent before taking the power: a job may have any number of failures.
    return float(min(FIRST_BACKOFF * 2 ** min(failures - 1, 10), longest)) if failures else 0.0


@dataclass(slots=True)
class Backoff:
    """The failures of a job since its last success, and when the last was, in microseconds since the epoch."""

    failures: int = 0
    last_failure: int = 0

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Backoff:
        """The same after more pods have finished. Call with pods that are not yet counted."""
        ended = sorted(finished_at(pod) for pod in failed)
        if succeeded:
            last_success = max(finished_at(pod) for pod in succeeded)
            ended = [time for time in ended if time > last_success]
            return Backoff(len(ended), ended[-1] if ended else 0)
        return Backoff(self.failures + len(ended), ended[-1]) if ended else self

    def seconds_left(self, now: int) -> float:
        return max(0.0, _pause(self.failures, LONGEST_BACKOFF) - (now - self.last_failure) / 1_000_000)


@dataclass(slots=True)
class EarlyBackoff:
    """When to replace the failed pods of a job, in seconds of trio's clock, as before 1.28.

    If a pod fails within a second of the last start, it is replaced after that second: these versions reconcile a job a
    second after one of its pods has changed.
    """

    failures: int = 0  # passes that found a new failure since the last success
    started: float = -SOON  # when pods were last created
    until: float = 0.0

    def failed(self, now: float) -> None:
        if now - self.started < SOON and self.failures:
            self.until = self.started + SOON
        else:
            self.until = now + _pause(self.failures, LONGEST_EARLY_BACKOFF)
        self.failures += 1

    def reset(self) -> None:
        self.failures, self.until = 0, 0.0


def finished_at(pod: Object) -> int:
    """When a pod finished: its last container, or what comes closest to that."""
    status, metadata = pod["status"], pod["metadata"]
    sidecars = {
        one["name"] for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"
    }
    containers = list(status.get("containerStatuses") or ())
    containers += [one for one in status.get("initContainerStatuses") or () if one["name"] in sidecars]
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in containers]
    if ends and all(ends):
        return max(micros_of(end) for end in ends if end)
    ready = condition_of(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return micros_of(ready["lastTransitionTime"])
    if is_terminating(pod):
        grace: int = metadata.get("deletionGracePeriodSeconds", 0)
        return micros_of(metadata["deletionTimestamp"]) - grace * 1_000_000
    return micros_of(metadata["creationTimestamp"])


@dataclass(slots=True)
class Progress:
    """The state of a pass: a job, its pods, and its new status."""

    job: Object
    pods: list[Object]
    status: Object
    active: int
    ready: int
    terminating: int
    succeeded: int = 0
    failed: int = 0
    succeeded_before: Indexes = field(default_factory=Indexes)  # of an Indexed job
    succeeded_indexes: Indexes = field(default_factory=Indexes)
    failed_indexes: Indexes | None = None  # of one with backoffLimitPerIndex
    replaced: dict[int, Object] = field(
        default_factory=dict
    )  # its failed pods that wait for another, by index
    new_successes: list[Object] = field(default_factory=list)  # pods that are not yet counted
    new_failures: list[Object] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)  # recorded once the status is written
    _actions: dict[tuple[str, str], tuple[str, str]] = field(
        default_factory=dict
    )  # by uid and version of pods

    @property
    def spec(self) -> Object:
        spec: Object = self.job["spec"]
        return spec

    @property
    def is_indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    def action_for(self, failed: Object) -> tuple[str, str]:
        """The action of podFailurePolicy for a failed pod, and the message of a job that fails by it."""
        policy = self.spec.get("podFailurePolicy")
        if policy is None:
            return "Count", ""
        key = failed["metadata"]["uid"], failed["metadata"]["resourceVersion"]
        if key not in self._actions:
            self._actions[key] = policy_action(policy, failed)
        return self._actions[key]

    def uncounted(self, part: str) -> list[str]:
        uids: list[str] = (self.status.get("uncountedTerminatedPods") or {}).get(part) or []
        return uids


class Jobs(WorkloadController):
    name, account = "job", "job-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        features = parts.context.features
        self._features = features
        self._ends_in_two_steps = WIDE_SUCCESS_CRITERIA in features and not features.isdisjoint(
            (MANAGED_BY, POD_REPLACEMENT)
        )
        self._tracking = self.names.key("job-tracking", "batch")
        self._failure_count = self.names.key("job-index-failure-count", "batch")
        self._ignored_count = self.names.key("job-index-ignored-failure-count", "batch")
        self._own_name = self.names.key("job-controller")
        self._index = self.names.key("job-completion-index", "batch")
        self._jobs = self.keyed_by("jobs.batch")
        self._pods = self.dependents("pods", self._jobs)
        self._claims = Claims(self.client, self._jobs, self._pods, (self._tracking,))
        self._writer = PodWriter(self.client, self.recorder, self._jobs.definition, self._pods.definition)
        self._pace = Pace(self.queue, INTERVAL)
        self._backoffs: dict[str, Backoff] = {}  # by the uid of the job
        self._early_backoffs: dict[str, EarlyBackoff] = {}  # the same, before 1.28
        self._jobs.listen(self._job_changed)
        self._pods.listen(self._pod_changed)

    async def catch_up(self) -> None:
        await super().catch_up()
        await self._pods.visit(partial(self._pod_changed, None))

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and finished_condition(new) is not None:
            self._forget_failures(new["metadata"]["uid"])
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            uid = old["metadata"]["uid"]
            self._forget_failures(uid)
            for pod in self._pods.controlled_by(uid):
                self._pod_changed(None, pod)

    def _forget_failures(self, uid: str) -> None:
        self._backoffs.pop(uid, None)
        self._early_backoffs.pop(uid, None)

    def _is_of_another_controller(self, job: Object) -> bool:
        return job["spec"].get("managedBy", self._own_name) != self._own_name and MANAGED_BY in self._features

    def _pod_changed(self, _: Object | None, new: Object | None) -> None:
        if new is not None and self._is_orphaned(new):
            self._add_pod(new)

    def _add_pod(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        self.queue.add((namespace, POD + name))

    def _is_tracked(self, pod: Object) -> bool:
        return self._tracking in (pod["metadata"].get("finalizers") or ())

    def _is_orphaned(self, pod: Object) -> bool:
        """Whether a pod has the finalizer, and no job that will remove it."""
        if not self._is_tracked(pod):
            return False
        reference = controller_of(pod)
        if reference is None:
            return True
        if reference["kind"] != self._jobs.definition.kind:
            return False
        job = self._jobs.get(pod["metadata"]["namespace"], reference["name"])
        if job is not None and self._is_of_another_controller(job):
            return False
        return (
            job is None
            or job["metadata"]["uid"] != reference["uid"]
            or (is_terminating(pod) and finished_condition(job) is not None)
        )

    async def reconcile(self, key: Key) -> None:
        if key[1] == CHANGED:
            await self.find_owners_of_changed(key[0])
            return
        namespace, name = key
        if name.startswith(POD):
            pod = self._pods.get(namespace, name.removeprefix(POD))
            if pod is not None and self._is_orphaned(pod):
                await self._remove_finalizer(pod)
            return
        job = self._jobs.get(*key)
        if job is None or finished_condition(job) is not None or self._is_of_another_controller(job):
            self._pace.forget(key)
            return
        if self._pace.is_too_soon(key, len(self._pods.controlled_by(job["metadata"]["uid"]))):
            return
        await self._claims.claim(job, job["spec"]["selector"])
        job = self._jobs.get(*key)
        if job is not None and finished_condition(job) is None:
            try:
                await self._pass(key, await in_turns(self._progress(job)))
            except NotFound:
                return  # it was deleted in the meantime

    def _progress(self, job: Object) -> Steps[Progress]:
        pods = list(self._pods.controlled_by(job["metadata"]["uid"]))
        active = yield from chosen(pods, is_active)
        ready = yield from chosen(active, is_ready)
        terminating = yield from chosen(pods, _is_ending)
        status = copied(job["status"])
        status.setdefault("uncountedTerminatedPods", {})
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", self.now_text())
        found = Progress(job, pods, status, len(active), len(ready), len(terminating))
        yield from self._count(found)
        if found.failed_indexes is not None:
            yield from self._find_replaced(found, active)
        return found

    def _count(self, found: Progress) -> Steps[None]:
        """Count pods already counted, pods being counted, and pods to be counted."""
        status, known = found.status, set(found.uncounted("failed"))

        def is_valid(pod: Object) -> bool:
            return self._is_tracked(pod) and self._has_valid_index(found, pod)

        def is_new_failure(pod: Object) -> bool:
            return pod["metadata"]["uid"] not in known and self._has_failed(found, pod)

        valid = yield from chosen(found.pods, is_valid)
        found.new_failures = yield from chosen(valid, is_new_failure)
        ignored = yield from chosen(found.new_failures, partial(_is_ignored, found))
        found.failed = status.get("failed", 0) + len(known) + len(found.new_failures) - len(ignored)
        successes = yield from chosen(valid, lambda pod: bool(pod["status"].get("phase") == "Succeeded"))
        counted = set(found.uncounted("succeeded"))
        found.new_successes = [pod for pod in successes if pod["metadata"]["uid"] not in counted]
        if not found.is_indexed:
            found.succeeded = status.get("succeeded", 0) + len(counted) + len(found.new_successes)
            return
        completions = found.spec["completions"]
        found.succeeded_before = yield from Indexes.read(status.get("completedIndexes", ""), completions)
        found.succeeded_indexes = yield from found.succeeded_before.with_more(self._indexes_of(successes))
        found.succeeded = len(found.succeeded_indexes)
        if self._limits_indexes(found.job):
            failed = yield from chosen(valid, partial(self._fails_its_index, found))
            before = yield from Indexes.read(status.get("failedIndexes", ""), completions)
            found.failed_indexes = yield from before.with_more(self._indexes_of(failed))

    def _indexes_of(self, pods: Iterable[Object]) -> Iterator[int]:
        return (index for pod in pods if (index := index_of(pod, self._index)) is not None)

    def _limits_indexes(self, job: Object) -> bool:
        return "backoffLimitPerIndex" in job["spec"] and PER_INDEX_LIMITS in self._features

    def _fails_its_index(self, found: Progress, pod: Object) -> bool:
        if not self._has_failed(found, pod):
            return False
        action, _ = found.action_for(pod)
        if action == "FailIndex":
            return True
        limit: int = found.spec["backoffLimitPerIndex"]
        return action != "Ignore" and count_of(pod, self._failure_count) >= limit

    def _find_replaced(self, found: Progress, active: list[Object]) -> Steps[None]:
        """The last failed pod of each index that needs another one: its finalizer stays until that exists."""
        assert found.failed_indexes is not None
        running = set(self._indexes_of(active))
        for part in parts_of(found.pods):
            for pod in part:
                index = index_of(pod, self._index)
                if index is None or not self._is_tracked(pod) or not self._has_valid_index(found, pod):
                    continue
                if index in running or index in found.succeeded_indexes or index in found.failed_indexes:
                    continue
                if self._has_failed(found, pod) and self._is_later(pod, found.replaced.get(index)):
                    found.replaced[index] = pod
            yield

    def _is_later(self, pod: Object, other: Object | None) -> bool:
        if other is None:
            return True
        fewer_or_as_many = self._failures_before(other) <= self._failures_before(pod)
        return fewer_or_as_many and finished_at(pod) >= finished_at(other)

    def _failures_before(self, pod: Object) -> int:
        """How many pods of the index failed before this one."""
        return count_of(pod, self._failure_count) + count_of(pod, self._ignored_count)

    def _has_valid_index(self, found: Progress, pod: Object) -> bool:
        if not found.is_indexed:
            return True
        index = index_of(pod, self._index)
        return index is not None and index < found.spec["completions"]

    def _has_failed(self, found: Progress, pod: Object) -> bool:
        """Whether a pod has failed: a deleted one has, since its outcome may never be reported."""
        phase = pod["status"].get("phase")
        if phase == "Failed" or self._replaces_only_failed(found.job):
            return bool(phase == "Failed")
        return phase != "Succeeded" and is_terminating(pod)

    def _replaces_only_failed(self, job: Object) -> bool:
        """Whether a deleted pod is replaced only when it has failed."""
        if job["spec"].get("podReplacementPolicy") == "Failed" and POD_REPLACEMENT in self._features:
            return True
        has_policy = "podFailurePolicy" in job["spec"] and FAILURE_POLICY in self._features
        return has_policy and ONLY_FAILED_PODS in self._features

    def _counts_as_failed(self, found: Progress, pod: Object) -> bool:
        return self._has_valid_index(found, pod) and not _is_ignored(found, pod)

    async def _pass(self, key: Key, found: Progress) -> None:
        job = found.job
        self._note_failures(found)
        end = await in_turns(self._end_of(key, found))
        errors: list[RequestError] = []
        if end is not None:
            active = await in_turns(chosen(found.pods, is_active))
            errors = await self._delete(found, active)
            if errors:
                end = None  # pods remain that must be counted
        elif not is_terminating(job):
            errors = await self._manage(key, found)
            end = self._completion(found)
            if end is None:
                self._note_suspension(found)
        else:
            end = self._completion(found)
        found.status |= {"active": found.active, "ready": found.ready}
        if POD_REPLACEMENT in self._features:
            found.status["terminating"] = found.terminating
        await self._track(found, end)
        if errors:
            raise errors[0]

    def _note_failures(self, found: Progress) -> None:
        """Note failures for an early version; later ones note them when they are counted."""
        if FAILURES_BY_POD in self._features:
            return
        backoff = self._early_backoffs.setdefault(found.job["metadata"]["uid"], EarlyBackoff())
        if found.succeeded > found.status.get("succeeded", 0):
            backoff.reset()
        counted = (pod for pod in found.new_failures if not _is_ignored(found, pod))
        has_crashed = any(pod["status"].get("phase") == "Failed" for pod in counted)
        if has_crashed and found.failed > found.status.get("failed", 0):
            backoff.failed(trio.current_time())

    async def _delete(self, found: Progress, pods: list[Object]) -> list[RequestError]:
        """Delete pods that must still be counted."""
        errors = await self._writer.delete(found.job, pods)
        self._note_deleted(found, pods, errors)
        return errors

    def _note_deleted(self, found: Progress, pods: list[Object], errors: list[RequestError]) -> None:
        found.active -= len(pods) - len(errors)
        if TERMINATING_OF_DELETED in self._features:
            found.terminating += len(pods) - len(errors)
        found.ready = min(found.ready - sum(map(is_ready, pods)), found.active)

    def _end_of(self, key: Key, found: Progress) -> Steps[Object | None]:
        """The condition of a job that ends now, or whose end an earlier pass has decided."""
        met = condition_of(found.job, "SuccessCriteriaMet")
        if met is not None and met["status"] == "True":
            return met
        target = condition_of(found.job, "FailureTarget")
        if target is not None:
            return self._condition("Failed", "True", target.get("reason", ""), target.get("message", ""))
        failure = yield from self._failure(key, found)
        return failure if failure is not None else (yield from self._success_by_policy(found))

    def _failure(self, key: Key, found: Progress) -> Steps[Object | None]:
        """The condition of a job that fails now."""
        spec, limit = found.spec, found.spec.get("backoffLimit", 6)
        message = yield from self._policy_failure(found)
        if message:
            return self._condition("FailureTarget", "True", "PodFailurePolicy", message)
        if found.failed > limit or (yield from _restarted_too_often(found, limit)):
            return self._failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if "activeDeadlineSeconds" in spec and not found.is_suspended:
            deadline = micros_of(found.status["startTime"]) + spec["activeDeadlineSeconds"] * 1_000_000
            left = deadline - self.now()
            if left <= 0:
                return self._failed("DeadlineExceeded", "Job was active longer than specified deadline")
            self.queue.add_after(key, left / 1_000_000)
        if found.failed_indexes:
            if "maxFailedIndexes" in spec and len(found.failed_indexes) > spec["maxFailedIndexes"]:
                text = "Job has exceeded the specified maximal number of failed indexes"
                return self._failed("MaxFailedIndexesExceeded", text)
            if len(found.failed_indexes) + found.succeeded >= spec["completions"]:
                return self._failed("FailedIndexes", "Job has failed indexes")
        return None

    def _failed(self, reason: str, message: str) -> Object:
        first = "FailureTarget" if self._ends_in_two_steps else "Failed"
        return self._condition(first, "True", reason, message)

    def _success_by_policy(self, found: Progress) -> Steps[Object | None]:
        policy = found.spec.get("successPolicy")
        if policy is None or not found.succeeded_indexes or JOB_SUCCESS not in self._features:
            return None
        for place, rule in enumerate(policy.get("rules") or ()):
            if (yield from _is_met(rule, found)):
                text = f"Matched rules at index {place}"
                return self._condition("SuccessCriteriaMet", "True", "SuccessPolicy", text)
        return None

    def _policy_failure(self, found: Progress) -> Steps[str]:
        if found.spec.get("podFailurePolicy") is None:
            return ""
        for part in parts_of(found.pods):
            for pod in part:
                if self._has_failed(found, pod):
                    action, message = found.action_for(pod)
                    if action == "FailJob":
                        return message
            yield
        return ""

    def _completion(self, found: Progress) -> Object | None:
        """The condition of a job that is complete now."""
        completions = found.spec.get("completions")
        enough = found.succeeded > 0 if completions is None else found.succeeded >= completions
        if not enough or found.active:
            return None
        if not self._ends_in_two_steps:
            return self._condition("Complete", "True", "", "")
        if JOB_SUCCESS not in self._features:
            return self._condition("SuccessCriteriaMet", "True", "", "")
        text = "Reached expected number of succeeded pods"
        return self._condition("SuccessCriteriaMet", "True", "CompletionsReached", text)

    def _condition(self, condition_type: str, status: str, reason: str, message: str) -> Object:
        now = self.now_text()
        condition = {
            "type": condition_type,
            "status": status,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        return {part: value for part, value in condition.items() if value}

    def _note_suspension(self, found: Progress) -> None:
        known = condition_of({"status": found.status}, "Suspended")
        wanted = "True" if found.is_suspended else "False"
        if (known is None and wanted == "False") or (known is not None and known["status"] == wanted):
            return
        if early := self._early_backoffs.get(found.job["metadata"]["uid"]):
            early.reset()
        word = "suspended" if found.is_suspended else "resumed"
        condition = self._condition("Suspended", wanted, f"Job{word.capitalize()}", f"Job {word}")
        _set_condition(found.status, condition)
        found.events.append(("Normal", word.capitalize(), f"Job {word}"))
        if not found.is_suspended:
            found.status["startTime"] = self.now_text()  # the deadline counts from when it runs
        elif SUSPENDED_SCHEDULING in self._features:
            found.status.pop("startTime", None)

    async def _manage(self, key: Key, found: Progress) -> list[RequestError]:
        """Create missing pods, or delete surplus ones, but not both in one pass."""
        active = await in_turns(chosen(found.pods, is_active))
        wanted = self._wanted(found)
        surplus = await in_turns(self._surplus(found, active, max(0, len(active) - wanted)))
        if surplus:
            surplus = surplus if found.is_suspended else surplus[:BURST]
            errors = await self._remove(found.job, surplus)
            self._note_deleted(found, surplus, errors)
            return errors
        if self._replaces_only_failed(found.job) and FAILURES_BY_POD in self._features:
            wanted -= found.terminating
        missing = min(wanted - len(active), BURST)
        if missing <= 0:
            return []
        if (pause := self._pause_of(found)) > 0:
            self.queue.add_after(key, pause)
            return []
        new, pause = await in_turns(self._new_pods(found, active, missing))
        if not new and pause:
            self.queue.add_after(key, pause)
        errors = await self._writer.create(found.job, new)
        if early := self._early_backoffs.get(found.job["metadata"]["uid"]):
            early.started = trio.current_time()
        mine = self._pods.controlled_by(found.job["metadata"]["uid"])
        found.active = len(await in_turns(chosen(mine, is_active)))
        return [error for error in errors if not is_namespace_terminating(error)]

    def _pause_of(self, found: Progress) -> float:
        """How long the job waits before it creates pods; not one whose indexes wait by themselves."""
        if found.failed_indexes is not None:
            return 0.0
        if early := self._early_backoffs.get(found.job["metadata"]["uid"]):
            return early.until - trio.current_time()
        return self._backoff(found).seconds_left(self.now())

    def _backoff(self, found: Progress) -> Backoff:
        known = self._backoffs.get(found.job["metadata"]["uid"], Backoff())
        return known.after(found.new_successes, found.new_failures)

    def _wanted(self, found: Progress) -> int:
        """How many pods should be active."""
        if found.is_suspended:
            return 0
        parallelism: int = found.spec["parallelism"]
        completions: int | None = found.spec.get("completions")
        if completions is None:
            # One success ends it: the other pods may finish, and are not replaced.
            return found.active if found.succeeded else parallelism
        return max(0, min(parallelism, completions - found.succeeded))

    def _surplus(self, found: Progress, active: list[Object], at_least: int) -> Steps[list[Object]]:
        removed: list[Object] = []
        if found.is_indexed:
            completions = found.spec["completions"]
            removed, active = yield from not_needed(active, self._index, completions)
        if len(removed) < at_least:
            removed += (yield from in_order(active, deletion_order))[: at_least - len(removed)]
        return removed

    async def _remove(self, job: Object, pods: Sequence[Object]) -> list[RequestError]:
        """Delete surplus pods: without the finalizer, so that they do not count as failed."""

        async def remove(pod: Object) -> None:
            await self._remove_finalizer(pod)
            errors = await self._writer.delete(job, [pod])
            if errors:
                raise errors[0]

        return await run_concurrently(remove, pods)

    def _new_pods(
        self, found: Progress, active: list[Object], count: int
    ) -> Steps[tuple[list[Object], float]]:
        """The pods to create, and how long to wait if each index must wait."""
        new = partial(pod_from_template, found.spec["template"], self._jobs.definition, found.job)
        if not found.is_indexed:
            return [self._tracked(new())] * count, 0.0
        not_missing = yield from found.succeeded_indexes.with_more(self._indexes_of(active))
        if self._replaces_only_failed(found.job):
            ending = yield from chosen(found.pods, _is_ending)
            not_missing = yield from not_missing.with_more(self._indexes_of(ending))
        if found.failed_indexes is not None:
            not_missing = yield from not_missing.with_all(found.failed_indexes)
        name, made = found.job["metadata"]["name"], list[Object]()
        pauses = list[float]()
        for index in not_missing.missing(found.spec["completions"], count):
            replaced = found.replaced.get(index)
            if replaced is not None and (pause := self._pause_after(replaced)) > 0:
                pauses.append(pause)
                continue
            pod = self._indexed(self._tracked(new()), name, index)
            if found.failed_indexes is not None:
                self._count_failures(found, pod, replaced)
            made.append(pod)
            yield
        return made, min(pauses, default=0.0)

    def _pause_after(self, failed: Object) -> float:
        return Backoff(self._failures_before(failed) + 1, finished_at(failed)).seconds_left(self.now())

    def _count_failures(self, found: Progress, pod: Object, replaced: Object | None) -> None:
        counts = {self._failure_count: 0, self._ignored_count: 0}
        if replaced is not None:
            counts = {annotation: count_of(replaced, annotation) for annotation in counts}
            counts[self._ignored_count if _is_ignored(found, replaced) else self._failure_count] += 1
        if not counts[self._ignored_count]:
            del counts[self._ignored_count]
        written = {annotation: str(count) for annotation, count in counts.items()}
        pod["metadata"]["annotations"] = dict(sorted({**pod["metadata"]["annotations"], **written}.items()))

    def _tracked(self, pod: Object) -> Object:
        finalizers = pod["metadata"].get("finalizers") or []
        if self._tracking not in finalizers:
            pod["metadata"]["finalizers"] = [*finalizers, self._tracking]
        return pod

    def _indexed(self, pod: Object, job: str, index: int) -> Object:
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["generateName"] = name_prefix(job, index)
        annotations = {**(metadata.get("annotations") or {}), self._index: str(index)}
        metadata["annotations"] = dict(sorted(annotations.items()))
        part = "annotations"
        if INDEX_LABELS in self._features:
            part = "labels"
            metadata["labels"] = dict(
                sorted({**(metadata.get("labels") or {}), self._index: str(index)}.items())
            )
        spec["hostname"] = f"{job}-{index}"
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            variables = container.get("env") or []
            if not any(one["name"] == INDEX_VARIABLE for one in variables):
                reference = {"apiVersion": "v1", "fieldPath": f"metadata.{part}['{self._index}']"}
                added = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": reference}}
                container["env"] = [*variables, added]
        return pod

    async def _track(self, found: Progress, end: Object | None) -> None:
        """Count the finished pods, in the three steps above; then the job may end."""
        tracked = await in_turns(chosen(found.pods, self._is_tracked))
        backoff = self._backoff(found)
        _settle(found, {pod["metadata"]["uid"] for pod in tracked})
        ended, is_all = await in_turns(self._add_uncounted(found, tracked, end))
        if end is not None and end["type"] in LAST_CONDITIONS:
            if condition_of({"status": found.status}, end["type"]) is None:
                _set_condition(found.status, end)
            last = LAST_CONDITIONS[end["type"]]
            end = self._condition(last, "True", end.get("reason", ""), end.get("message", ""))
        await self._write(found)
        if FAILURES_BY_POD in self._features:
            self._backoffs[found.job["metadata"]["uid"]] = backoff
        errors = await run_concurrently(self._remove_finalizer, ended)
        remaining = await in_turns(chosen(tracked, self._is_still_tracked))
        _settle(found, {pod["metadata"]["uid"] for pod in remaining})
        is_counted = is_all and not errors and not found.status["uncountedTerminatedPods"]
        if end is not None and is_counted and not (self._ends_in_two_steps and found.terminating):
            self._end(found, end)
        await self._write(found)
        if errors:
            raise errors[0]

    def _add_uncounted(
        self, found: Progress, tracked: list[Object], end: Object | None
    ) -> Steps[tuple[list[Object], bool]]:
        """Add finished pods to the status. Returns the pods that lose their finalizer, and whether these are all."""
        is_deleted, ended, is_all = is_terminating(found.job), [], True
        is_failure = end is not None and end["type"] != "SuccessCriteriaMet"
        waiting = {pod["metadata"]["uid"] for pod in found.replaced.values()}
        succeeded, failed = list(found.uncounted("succeeded")), list(found.uncounted("failed"))
        indexes: list[int] = []
        if found.is_indexed:
            tracked = yield from in_order(
                tracked, lambda pod: _index_or_minus_one(index_of(pod, self._index))
            )
        for number, pod in enumerate(tracked):
            if number % _CHECK_EVERY == 0:
                yield
            uid, has_succeeded = pod["metadata"]["uid"], pod["status"].get("phase") == "Succeeded"
            has_failed = self._has_failed(found, pod)
            is_replaced = has_failed and uid not in waiting
            if not (is_deleted or end is not None or has_succeeded or is_replaced):
                continue
            ended.append(pod)
            if has_succeeded and uid not in failed:
                index = index_of(pod, self._index)
                if not found.is_indexed and uid not in succeeded:
                    succeeded.append(uid)
                elif index is not None and self._is_new_success(found, index):
                    indexes.append(index)
            elif (has_failed or is_failure) and uid not in failed and self._counts_as_failed(found, pod):
                failed.append(uid)
            if len(indexes) + len(succeeded) + len(failed) >= MOST_UNCOUNTED:
                is_all = False
                break
        uncounted = {"succeeded": succeeded, "failed": failed}
        found.status["uncountedTerminatedPods"] = {part: uids for part, uids in uncounted.items() if uids}
        if found.is_indexed:
            counted = yield from found.succeeded_before.with_more(indexes)
            completed = yield from counted.text()
            found.status |= {"completedIndexes": completed, "succeeded": len(counted)}
        if found.failed_indexes is not None:
            found.status["failedIndexes"] = yield from found.failed_indexes.text()
        return ended, is_all

    def _is_new_success(self, found: Progress, index: int) -> bool:
        return found.is_indexed and index < found.spec["completions"] and index not in found.succeeded_before

    def _end(self, found: Progress, end: Object) -> None:
        status, completions = found.status, found.spec.get("completions")
        _set_condition(status, end)
        if end["type"] != "Complete":
            found.events.append(("Warning", end["reason"], end["message"]))
            return
        if completions is not None and status.get("succeeded", 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            found.events.append(("Warning", "TooManySucceededPods", text))
        status["completionTime"] = end["lastTransitionTime"]
        found.events.append(("Normal", "Completed", "Job completed"))

    async def _write(self, found: Progress) -> None:
        """Store the status if it differs, and record its Events."""
        always = ("ready", "terminating", "failedIndexes", "uncountedTerminatedPods")
        kept = {part: value for part, value in found.status.items() if value or part in always}
        status = JOB_STATUS.arranged(kept)
        if status != found.job["status"]:
            changed = {**found.job, "status": status}
            found.job = decode(await self.client.replace(self._jobs.definition, changed, "status"))
        for event in found.events:
            self.recorder.event(self._jobs.definition, found.job, *event)
        found.events.clear()

    def _is_still_tracked(self, pod: Object) -> bool:
        now = self._pods.get(*key_of(pod))
        return now is not None and now["metadata"]["uid"] == pod["metadata"]["uid"] and self._is_tracked(now)

    async def _remove_finalizer(self, pod: Object) -> None:
        if not self._is_still_tracked(pod):
            return
        metadata = {"uid": pod["metadata"]["uid"], "$deleteFromPrimitiveList/finalizers": [self._tracking]}
        try:
            await self.client.patch(self._pods.definition, *key_of(pod), {"metadata": metadata}, "strategic")
        except NotFound:
            return


def _settle(found: Progress, tracked: set[str]) -> None:
    """Count the pods in the status that have lost the finalizer."""
    uncounted = {}
    for part in ("succeeded", "failed"):
        uids = found.uncounted(part)
        uncounted[part] = [uid for uid in uids if uid in tracked]
        found.status[part] = found.status.get(part, 0) + len(uids) - len(uncounted[part])
    found.status["uncountedTerminatedPods"] = {part: uids for part, uids in uncounted.items() if uids}


def _set_condition(status: Object, condition: Object) -> None:
    others = status.get("conditions") or []
    places = (place for place, one in enumerate(others) if one["type"] == condition["type"])
    place = next(places, len(others))
    status["conditions"] = [*others[:place], condition, *others[place + 1 :]]


def _is_ending(pod: Object) -> bool:
    return is_terminating(pod) and pod["status"].get("phase") not in ("Succeeded", "Failed")


def _is_met(rule: Object, found: Progress) -> Steps[bool]:
    """Whether the succeeded indexes of a job meet a rule of its success policy."""
    wanted, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if wanted is None:
        return count is not None and found.succeeded >= count
    indexes = yield from Indexes.read(wanted, found.spec["completions"])
    common = yield from indexes.shared_with(found.succeeded_indexes)
    return len(indexes) > 0 and (common == len(indexes) or (count is not None and common >= count))


def _index_or_minus_one(index: int | None) -> int:
    return -1 if index is None else index


def _restarted_too_often(found: Progress, limit: int) -> Steps[bool]:
    """Whether container restarts (restartPolicy OnFailure) have reached the limit."""
    if found.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for some in parts_of(found.pods):
        for pod in some:
            if pod["status"].get("phase") in ("Running", "Pending"):
                for part in ("initContainerStatuses", "containerStatuses"):
                    restarts += sum(one.get("restartCount", 0) for one in pod["status"].get(part) or ())
        yield
    return restarts >= max(limit, 1)


def _is_ignored(found: Progress, failed: Object) -> bool:
    return found.action_for(failed)[0] == "Ignore"


def policy_action(policy: Object, pod: Object) -> tuple[str, str]:
    """The action of the first rule that matches a failed pod (default Count), and the message of a job that fails."""
    namespace, name = key_of(pod)
    for place, rule in enumerate(policy["rules"] or ()):
        matched = ""
        if rule.get("onExitCodes") is not None:
            container = _exited_with(rule["onExitCodes"], pod)
            if container is not None:
                code = container["state"]["terminated"]["exitCode"]
                matched = (
                    f"Container {container['name']} for pod {namespace}/{name} failed with exit code {code}"
                )
        elif condition := _condition_among(rule.get("onPodConditions") or (), pod):
            matched = f"Pod {namespace}/{name} has condition {condition}"
        if matched:
            return rule["action"], f"{matched} matching {rule['action']} rule at index {place}"
    return "Count", ""


def _exited_with(codes: Object, pod: Object) -> Object | None:
    for part in ("containerStatuses", "initContainerStatuses"):
        for container in pod["status"].get(part) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended is None or not ended.get("exitCode"):
                continue
            is_named = codes.get("containerName") in (None, container["name"])
            if is_named and (ended["exitCode"] in codes["values"]) == (codes["operator"] == "In"):
                return container  # type: ignore[no-any-return]
    return None


def _condition_among(patterns: Sequence[Object], pod: Object) -> str:
    for condition in pod["status"].get("conditions") or ():
        for pattern in patterns:
            if (condition["type"], condition["status"]) == (pattern["type"], pattern["status"]):
                return str(condition["type"])
    return ""
