"""Jobs: run pods until as many of them have succeeded as the job asks for, or too many have failed.

Every pod has a finalizer until it is counted. So none is missed and none counts twice, wherever a pass is interrupted:

1. the uids of finished pods are written to `status.uncountedTerminatedPods`,
2. these pods lose the finalizer,
3. the uids are removed from the status, and the counts rise accordingly.

A uid in the status without a pod that has the finalizer is at step 3. For an Indexed job the status has the indexes
that succeeded, and only failures are counted this way. The last write adds the condition of a finished job.

A pod that fails is replaced: the first at once, the next after 10 s, 20 s, 40 s and so on up to six minutes, until one
succeeds. If a pod fails within a second of the last start, it is replaced after that second, as in v1.25, which
reconciles a job a second after one of its pods has changed. Counting is immediate: only the replacement waits.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import CHANGED, Pace, Parts, WorkloadController
from rewound.actors.workloads.job_indexes import Indexes, index_of, name_prefix, not_needed
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
FIRST_BACKOFF, LONGEST_BACKOFF = 10.0, 360.0  # seconds
SOON: Final = 1.0  # seconds
INTERVAL: Final = 0.1  # seconds between two passes over many pods
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_CHECK_EVERY: Final = 64  # pods
# Before the name of a pod in a key: its finalizer must be removed; no job has such a name.
POD: Final = "pod/"


def finished_condition(job: Object) -> Object | None:
    """The condition that the job is complete or has failed."""
    for condition_type in ("Complete", "Failed"):
        condition = condition_of(job, condition_type)
        if condition is not None and condition["status"] == "True":
            return condition
    return None


@dataclass(slots=True)
class Backoff:
    """When to reconcile a job and to replace its failed pods, in seconds of trio's clock."""

    failures: int = 0  # passes that found a new failure since the last success
    started: float = -SOON  # when pods were last created
    until: float = 0.0

    def failed(self, now: float) -> None:
        if now - self.started < SOON and self.failures:
            self.until = self.started + SOON
        else:
            self.until = now + self._pause()
        self.failures += 1

    def reset(self) -> None:
        self.failures, self.until = 0, 0.0

    def _pause(self) -> float:
        if not self.failures:
            return 0.0
        # Limit the exponent before taking the power: a job may have any number of failures.
        return float(min(FIRST_BACKOFF * 2 ** min(self.failures - 1, 10), LONGEST_BACKOFF))


@dataclass(slots=True)
class Progress:
    """The state of a pass: a job, its pods, and its new status."""

    job: Object
    pods: list[Object]
    status: Object
    active: int
    succeeded: int
    failed: int
    succeeded_before: Indexes  # of an Indexed job
    succeeded_indexes: Indexes
    has_crashed: bool  # whether one of the uncounted pods has failed
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
        self._tracking = self.names.key("job-tracking", "batch")
        self._index = self.names.key("job-completion-index", "batch")
        self._jobs = self.keyed_by("jobs.batch")
        self._pods = self.dependents("pods", self._jobs)
        self._claims = Claims(self.client, self._jobs, self._pods, (self._tracking,))
        self._writer = PodWriter(self.client, self.recorder, self._jobs.definition, self._pods.definition)
        self._pace = Pace(self.queue, INTERVAL)
        self._backoffs: dict[str, Backoff] = {}  # by the uid of the job
        self._jobs.listen(self._job_changed)
        self._pods.listen(self._pod_changed)

    async def catch_up(self) -> None:
        await super().catch_up()
        await self._pods.visit(partial(self._pod_changed, None))

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and finished_condition(new) is not None:
            self._backoffs.pop(new["metadata"]["uid"], None)
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            uid = old["metadata"]["uid"]
            self._backoffs.pop(uid, None)
            for pod in self._pods.controlled_by(uid):
                self._pod_changed(None, pod)

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
        if job is None or finished_condition(job) is not None:
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
        status = copied(job["status"])
        status["ready"] = len((yield from chosen(active, is_ready)))
        status.setdefault("uncountedTerminatedPods", {})
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", self.now_text())
        found = Progress(job, pods, status, len(active), 0, 0, Indexes(), Indexes(), False)
        yield from self._count(found)
        return found

    def _count(self, found: Progress) -> Steps[None]:
        """Count pods already counted, pods being counted, and pods to be counted."""
        status, known = found.status, set(found.uncounted("failed"))

        def is_valid(pod: Object) -> bool:
            return self._is_tracked(pod) and self._has_valid_index(found, pod)

        def is_new_failure(pod: Object) -> bool:
            return pod["metadata"]["uid"] not in known and self._has_failed(found, pod)

        valid = yield from chosen(found.pods, is_valid)
        new = yield from chosen(valid, is_new_failure)
        found.failed = status.get("failed", 0) + len(known) + len(new)
        found.has_crashed = any(pod["status"].get("phase") == "Failed" for pod in new)
        successes = yield from chosen(valid, lambda pod: bool(pod["status"].get("phase") == "Succeeded"))
        if found.is_indexed:
            completions = found.spec["completions"]
            found.succeeded_before = Indexes.read(status.get("completedIndexes", ""), completions)
            more = (index for pod in successes if (index := index_of(pod, self._index)) is not None)
            found.succeeded_indexes = yield from found.succeeded_before.with_more(more)
            found.succeeded = len(found.succeeded_indexes)
        else:
            counted = set(found.uncounted("succeeded"))
            more_uids = {pod["metadata"]["uid"] for pod in successes} - counted
            found.succeeded = status.get("succeeded", 0) + len(counted) + len(more_uids)

    def _has_valid_index(self, found: Progress, pod: Object) -> bool:
        if not found.is_indexed:
            return True
        index = index_of(pod, self._index)
        return index is not None and index < found.spec["completions"]

    def _has_failed(self, found: Progress, pod: Object) -> bool:
        """Whether a pod counts as failed: a deleted one does, since its outcome may never be reported."""
        phase = pod["status"].get("phase")
        if phase != "Failed" and (phase == "Succeeded" or not is_terminating(pod)):
            return False
        return not _is_ignored(found, pod)

    def _counts_as_failed(self, found: Progress, pod: Object) -> bool:
        return self._has_valid_index(found, pod) and not _is_ignored(found, pod)

    async def _pass(self, key: Key, found: Progress) -> None:
        job = found.job
        backoff = self._backoffs.setdefault(job["metadata"]["uid"], Backoff())
        has_new_failure = found.failed > found.status.get("failed", 0)
        has_new_success = found.succeeded > found.status.get("succeeded", 0)
        if has_new_success:
            backoff.reset()
        if has_new_failure and found.has_crashed:
            backoff.failed(trio.current_time())
        end = await in_turns(self._failure(key, found))
        errors: list[RequestError] = []
        if end is not None:
            active = await in_turns(chosen(found.pods, is_active))
            errors = await self._writer.delete(job, active)
            found.active = len(errors)
            if errors:
                end = None  # pods remain that must be counted
        elif not is_terminating(job):
            errors = await self._manage(key, found, backoff)
            end = self._completion(found)
            if end is None:
                self._note_suspension(found, backoff)
        else:
            end = self._completion(found)
        found.status["active"] = found.active
        await self._track(found, end)
        if errors:
            raise errors[0]

    def _failure(self, key: Key, found: Progress) -> Steps[Object | None]:
        """The condition of a job that fails now."""
        spec, limit = found.spec, found.spec.get("backoffLimit", 6)
        target = condition_of(found.job, "FailureTarget")
        if target is not None:
            return self._condition("Failed", "True", target.get("reason", ""), target.get("message", ""))
        message = yield from self._policy_failure(found)
        if message:
            return self._condition("FailureTarget", "True", "PodFailurePolicy", message)
        if found.failed > limit or (yield from _restarted_too_often(found, limit)):
            text = "Job has reached the specified backoff limit"
            return self._condition("Failed", "True", "BackoffLimitExceeded", text)
        if "activeDeadlineSeconds" in spec and not found.is_suspended:
            deadline = micros_of(found.status["startTime"]) + spec["activeDeadlineSeconds"] * 1_000_000
            left = deadline - self.now()
            if left <= 0:
                text = "Job was active longer than specified deadline"
                return self._condition("Failed", "True", "DeadlineExceeded", text)
            self.queue.add_after(key, left / 1_000_000)
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
        return self._condition("Complete", "True", "", "") if enough and not found.active else None

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

    def _note_suspension(self, found: Progress, backoff: Backoff) -> None:
        known = condition_of({"status": found.status}, "Suspended")
        wanted = "True" if found.is_suspended else "False"
        if (known is None and wanted == "False") or (known is not None and known["status"] == wanted):
            return
        backoff.reset()
        word = "suspended" if found.is_suspended else "resumed"
        condition = self._condition("Suspended", wanted, f"Job{word.capitalize()}", f"Job {word}")
        _set_condition(found.status, condition)
        found.events.append(("Normal", word.capitalize(), f"Job {word}"))
        if not found.is_suspended:
            found.status["startTime"] = self.now_text()  # the deadline counts from when it runs

    async def _manage(self, key: Key, found: Progress, backoff: Backoff) -> list[RequestError]:
        """Create missing pods, or delete surplus ones, but not both in one pass."""
        active = await in_turns(chosen(found.pods, is_active))
        wanted = self._wanted(found)
        surplus = await in_turns(self._surplus(found, active, max(0, len(active) - wanted)))
        if surplus:
            surplus = surplus if found.is_suspended else surplus[:BURST]
            errors = await self._remove(found.job, surplus)
            found.active -= len(surplus) - len(errors)
            return errors
        missing = min(wanted - len(active), BURST)
        if missing <= 0:
            return []
        if (pause := backoff.until - trio.current_time()) > 0:
            self.queue.add_after(key, pause)
            return []
        errors = await self._writer.create(found.job, await in_turns(self._new_pods(found, active, missing)))
        backoff.started = trio.current_time()
        mine = self._pods.controlled_by(found.job["metadata"]["uid"])
        found.active = len(await in_turns(chosen(mine, is_active)))
        return [error for error in errors if not is_namespace_terminating(error)]

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

    def _new_pods(self, found: Progress, active: list[Object], count: int) -> Steps[list[Object]]:
        new = partial(pod_from_template, found.spec["template"], self._jobs.definition, found.job)
        if not found.is_indexed:
            return [self._tracked(new())] * count
        taken = (index for pod in active if (index := index_of(pod, self._index)) is not None)
        not_missing = yield from found.succeeded_indexes.with_more(taken)
        indexes = not_missing.missing(found.spec["completions"], count)
        name, made = found.job["metadata"]["name"], list[Object]()
        for index in indexes:
            made.append(self._indexed(self._tracked(new()), name, index))
            yield
        return made

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
        spec["hostname"] = f"{job}-{index}"
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            variables = container.get("env") or []
            if not any(one["name"] == INDEX_VARIABLE for one in variables):
                reference = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{self._index}']"}
                added = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": reference}}
                container["env"] = [*variables, added]
        return pod

    async def _track(self, found: Progress, end: Object | None) -> None:
        """Count the finished pods, in the three steps above; then the job may end."""
        tracked = await in_turns(chosen(found.pods, self._is_tracked))
        _settle(found, {pod["metadata"]["uid"] for pod in tracked})
        ended, is_all = await in_turns(self._add_uncounted(found, tracked, end is not None))
        if end is not None and end["type"] == "FailureTarget":
            _set_condition(found.status, end)
            end = self._condition("Failed", "True", end["reason"], end["message"])
        await self._write(found)
        errors = await run_concurrently(self._remove_finalizer, ended)
        remaining = await in_turns(chosen(tracked, self._is_still_tracked))
        _settle(found, {pod["metadata"]["uid"] for pod in remaining})
        if end is not None and is_all and not errors and not found.status["uncountedTerminatedPods"]:
            self._end(found, end)
        await self._write(found)
        if errors:
            raise errors[0]

    def _add_uncounted(
        self, found: Progress, tracked: list[Object], ends: bool
    ) -> Steps[tuple[list[Object], bool]]:
        """Add finished pods to the status. Returns the pods that lose their finalizer, and whether these are all."""
        is_deleted, ended, is_all = is_terminating(found.job), [], True
        succeeded, failed = list(found.uncounted("succeeded")), list(found.uncounted("failed"))
        indexes: list[int] = []
        if found.is_indexed:
            tracked = yield from in_order(
                tracked, lambda pod: _index_or_minus_one(index_of(pod, self._index))
            )
        for number, pod in enumerate(tracked):
            if number % _CHECK_EVERY == 0:
                yield
            uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
            goes = is_terminating(pod) or ends
            if goes or is_deleted or phase in ("Succeeded", "Failed"):
                ended.append(pod)
            if phase == "Succeeded" and uid not in failed:
                index = index_of(pod, self._index)
                if not found.is_indexed and uid not in succeeded:
                    succeeded.append(uid)
                elif index is not None and self._is_new_success(found, index):
                    indexes.append(index)
            elif (phase == "Failed" or goes) and uid not in failed and self._counts_as_failed(found, pod):
                failed.append(uid)
            if len(indexes) + len(succeeded) + len(failed) >= MOST_UNCOUNTED:
                is_all = False
                break
        uncounted = {"succeeded": succeeded, "failed": failed}
        found.status["uncountedTerminatedPods"] = {part: uids for part, uids in uncounted.items() if uids}
        if found.is_indexed:
            counted = yield from found.succeeded_before.with_more(indexes)
            found.status |= {"completedIndexes": str(counted), "succeeded": len(counted)}
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
        always = ("ready", "uncountedTerminatedPods")
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
