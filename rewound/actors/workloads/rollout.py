"""Decides the next step of a Deployment; reads and writes no objects itself.

`Rollout` gets a Deployment and its ReplicaSets in their current state, and returns the next writes. The controller
makes them, and calls again with the state after them: whatever happened in between, each decision is about the current
state. Numbers, conditions, annotations and messages are those of v1.25.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.apps import DEPLOYMENT_ROLLBACK
from rewound.actors.kinds.declaration.workloads import int64_of, number_in
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps
from rewound.actors.versions.features import (
    SCALED_FROM_TO,
    SHORTENED_SETS,
    TERMINATING_REPLICAS,
    V1_25,
    Release,
)
from rewound.actors.workloads.pods import condition_of, copied, is_terminating
from rewound.actors.workloads.template_hash import template_hash

TEMPLATE_HASH: Final = "pod-template-hash"
_LONGEST_NAME: Final = 253
_NO_LIMIT: Final = 2**31 - 1  # as a progress deadline, or as a limit of the history
_LONGEST_HISTORY: Final = 2000  # characters of old revisions in an annotation

PROGRESSING, AVAILABLE, FAILURE = "Progressing", "Available", "ReplicaFailure"
CREATED, FOUND = "NewReplicaSetCreated", "FoundNewReplicaSet"
UPDATED, COMPLETED, TIMED_OUT = "ReplicaSetUpdated", "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED, NOT_CREATED = "DeploymentPaused", "DeploymentResumed", "ReplicaSetCreateError"


@dataclass(frozen=True, slots=True)
class Create:
    """Create the ReplicaSet of the current template (`Rollout.new_set`), with this revision."""

    revision: str


@dataclass(frozen=True, slots=True)
class Annotate:
    """Copy annotations and minReadySeconds of the Deployment to a ReplicaSet."""

    name: str
    annotations: dict[str, str]
    min_ready_seconds: int


@dataclass(frozen=True, slots=True)
class Scale:
    name: str
    before: int
    after: int
    annotations: dict[str, str]  # record the size of the Deployment
    direction: str = ""  # that of all ReplicaSets together, for the Event; "" for its own

    def message(self, release: Release) -> str | None:
        """The message of the Event; None if only annotations change."""
        if self.before == self.after:
            return None
        direction = self.direction or ("up" if self.before < self.after else "down")
        start = f"Scaled {direction} replica set {self.name}"
        if SCALED_FROM_TO in release.features:
            return f"{start} from {self.before} to {self.after}"
        return f"{start} to {self.after} from {self.before}"


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a ReplicaSet beyond the limit of the history."""

    name: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    status: Object
    revision: str | None = None  # the new annotation, if it changes


@dataclass(frozen=True, slots=True)
class RollBack:
    """Finish a rollback: write the Deployment without the rollback request."""

    changed: Object
    event_type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Wake:
    """Reconcile again when the progress deadline has passed."""

    seconds: float


Step = Create | Annotate | Scale | Remove | WriteStatus | RollBack | Wake


@dataclass(frozen=True, slots=True)
class Annotations:
    """The keys of annotations by which a Deployment keeps track of its ReplicaSets."""

    revision: str
    history: str
    desired: str
    maximum: str
    not_copied: frozenset[str]

    @classmethod
    def of(cls, names: Names) -> Annotations:
        revision, history = names.key("revision", "deployment"), names.key("revision-history", "deployment")
        desired, maximum = (
            names.key("desired-replicas", "deployment"),
            names.key("max-replicas", "deployment"),
        )
        applied = names.key("last-applied-configuration", "kubectl")
        not_copied = frozenset((revision, history, desired, maximum, applied, DEPLOYMENT_ROLLBACK))
        return cls(revision, history, desired, maximum, not_copied)


class Rollout:
    def __init__(
        self,
        keys: Annotations,
        deployment: Object,
        replica_sets: Iterable[Object],
        now: int,
        has_running_pods: Callable[[Object], bool],
        release: Release = V1_25,
    ) -> None:
        """`has_running_pods` returns whether a ReplicaSet still has pods that have not finished."""
        self._keys = keys
        self._deployment = deployment
        self._spec, self._status = deployment["spec"], deployment["status"]
        self._now = now
        self._has_running_pods = has_running_pods
        self._release = release
        self._all = sorted(replica_sets, key=_age)
        self._new = next(
            (one for one in self._all if same_template(self._template_of(one), self._template)), None
        )
        self._old = [one for one in self._all if one is not self._new]

    def steps(self) -> Sequence[Step]:
        """The next writes; call again after them. Empty, or only a `Wake`, if there is nothing to do."""
        if is_terminating(self._deployment):
            return self._sync_revision() or self._write_status()
        if paused := self._pause_or_resume():
            return paused
        revision = _number(_annotations(self._deployment).get(DEPLOYMENT_ROLLBACK))
        if self._spec.get("paused"):
            cleaned = self._clean_up() if revision is None else ()
            return self._sync_revision() or self._scale() or cleaned or self._write_status()
        if revision is not None:
            return self._sync_revision() or self._create() or self._roll_back(revision)
        if steps := self._sync_revision():
            return steps
        if self._was_scaled():
            return self._scale() or self._write_status()
        if self._spec["strategy"]["type"] == "Recreate":
            return self._recreate()
        return self._create() or self._roll()

    @property
    def _replicas(self) -> int:
        return int(self._spec["replicas"])

    @property
    def _is_rolling(self) -> bool:
        return bool(self._spec["strategy"]["type"] == "RollingUpdate")

    def _limits(self) -> tuple[int, int]:
        """How many pods there may be above the number of replicas, and how many may be unavailable."""
        if not self._is_rolling:
            return 0, 0
        update = self._spec["strategy"].get("rollingUpdate") or {}
        surge = _share(update.get("maxSurge", 0), self._replicas, rounded_by=99)
        unavailable = _share(update.get("maxUnavailable", 0), self._replicas, rounded_by=0)
        if not surge and not unavailable:
            unavailable = 1  # percentages of a few replicas round to zero; a rollout must be able to start
        return surge, min(unavailable, self._replicas)

    @property
    def _most_replicas(self) -> int:
        return self._replicas + self._limits()[0]

    @property
    def _least_available(self) -> int:
        return self._replicas - self._limits()[1]

    @property
    def _template(self) -> Object:
        return self._template_of(self._deployment)

    @staticmethod
    def _template_of(owner: Object) -> Object:
        template: Object = owner["spec"]["template"]
        return template

    def _next_revision(self) -> int:
        return max((_revision(self._keys, one) or 0 for one in self._old), default=0) + 1

    def _sync_revision(self) -> Sequence[Step]:
        """Update the ReplicaSet of the current template, then the revision of the Deployment."""
        if self._new is None:
            return ()
        annotations = self._new_annotations(self._new)
        min_ready_seconds = self._spec.get("minReadySeconds", 0)
        if (
            annotations != _annotations(self._new)
            or self._new["spec"].get("minReadySeconds", 0) != min_ready_seconds
        ):
            return (Annotate(_name(self._new), annotations, min_ready_seconds),)
        revision = annotations.get(self._keys.revision, "")
        status = self._status
        if self._has_deadline and condition_of(self._deployment, PROGRESSING) is None:
            message = f"Found new replica set {quoted(_name(self._new))}"
            status = self._with_condition(status, PROGRESSING, "True", FOUND, message)
        changes = _annotations(self._deployment).get(self._keys.revision, "") != revision
        if changes or status is not self._status:
            return (WriteStatus(status, revision if changes else None),)
        return ()

    def _new_annotations(self, new: Object) -> dict[str, str]:
        """The annotations of the Deployment, and the highest revision; the previous one goes into the history."""
        before = _annotations(new)
        found = {**before, **self._copied_annotations()}
        stored = before.get(self._keys.revision)
        number, revision = _number(stored or "0"), self._next_revision()
        if number is None:
            return before  # another client changed it: nothing is certain
        if number >= revision:
            return found
        found[self._keys.revision] = str(revision)
        if stored is not None:
            found[self._keys.history] = _extended_history(before.get(self._keys.history, ""), stored)
        return found

    def _copied_annotations(self) -> dict[str, str]:
        own = _annotations(self._deployment)
        return {key: value for key, value in own.items() if key not in self._keys.not_copied}

    def _create(self) -> Sequence[Step]:
        return () if self._new is not None else (Create(str(self._next_revision())),)

    def new_set(self, revision: str) -> Steps[Object]:
        """The ReplicaSet of the current template. The time depends on the size of the template."""
        metadata, template = self._deployment["metadata"], self._template
        hashed = yield from template_hash(template, self._status.get("collisionCount"), self._release)
        labels = {**(template["metadata"].get("labels") or {}), TEMPLATE_HASH: hashed}
        selector = self._spec["selector"]
        spec = {
            "replicas": self._size_of_new(0),
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: hashed},
            },
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        }
        if min_ready_seconds := self._spec.get("minReadySeconds"):
            spec["minReadySeconds"] = min_ready_seconds
        annotations = {
            **self._copied_annotations(),
            self._keys.revision: revision,
            **self._replica_annotations(),
        }
        name = metadata["name"]
        if SHORTENED_SETS in self._release.features:
            name = name[: _LONGEST_NAME - len(hashed) - 1]
        name = f"{name}-{hashed}"
        return copied(
            {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}
        )

    def _replica_annotations(self) -> dict[str, str]:
        return {self._keys.desired: str(self._replicas), self._keys.maximum: str(self._most_replicas)}

    def _was_scaled(self) -> bool:
        """Whether active ReplicaSets have their sizes for another number of replicas."""
        known = (_number(_annotations(one).get(self._keys.desired)) for one in self._all if _size(one) > 0)
        return any(number is not None and number != self._replicas for number in known)

    def _scale_to(self, one: Object, after: int, direction: str = "") -> Sequence[Step]:
        annotations = self._replica_annotations()
        if after == _size(one) and annotations.items() <= _annotations(one).items():
            return ()
        return (Scale(_name(one), _size(one), after, annotations, direction),)

    def _resize(self, one: Object, after: int) -> Sequence[Step]:
        return self._scale_to(one, after) if after != _size(one) else ()

    def _scale(self) -> Sequence[Step]:
        """Follow spec.replicas while no rollout is in progress, or in the middle of one."""
        active = [one for one in self._all if _size(one) > 0]
        if len(active) == 1:
            return self._resize(active[0], self._replicas)
        if not active:
            newest = self._new or (self._old[-1] if self._old else None)
            return self._resize(newest, self._replicas) if newest is not None else ()
        if self._is_saturated():
            return [step for one in active if one is not self._new for step in self._resize(one, 0)]
        return self._scale_in_proportion(active) if self._is_rolling else ()

    def _is_saturated(self) -> bool:
        """Whether the new ReplicaSet has all replicas, and all are available."""
        if self._new is None:
            return False
        desired = _number(_annotations(self._new).get(self._keys.desired))
        return _size(self._new) == desired == _available(self._new) == self._replicas

    def _scale_in_proportion(self, active: list[Object]) -> Sequence[Step]:
        allowed = self._most_replicas if self._replicas else 0
        missing = allowed - sum(map(_size, active))
        # Of equal size, the newer one grows first, the older one shrinks first.
        ordered = sorted(active, key=_age, reverse=missing > 0)
        ordered.sort(key=_size, reverse=True)
        sizes, given = [], 0
        for one in ordered:
            part = self._proportion(one, missing, given)
            sizes.append(_size(one) + part)
            given += part
        sizes[0] = max(0, sizes[0] + missing - given)
        direction = "up" if missing > 0 else "down"  # an adopted one may grow while the Deployment shrinks
        return [
            step
            for one, size in zip(ordered, sizes, strict=True)
            for step in self._scale_to(one, size, direction)
        ]

    def _proportion(self, one: Object, missing: int, given: int) -> int:
        """This ReplicaSet's part of the missing (or surplus) replicas, if others already got some."""
        size, left = _size(one), missing - given
        if not missing or not left:
            return 0
        if not self._replicas:
            part = -size
        else:
            # The size for which it has its present one.
            total = _number(_annotations(one).get(self._keys.maximum))
            total = self._status.get("replicas", 0) if total is None else total
            part = int(size * self._most_replicas / total + 0.5) - size if total else left
        return min(part, left) if missing > 0 else max(part, left)

    def _roll(self) -> Sequence[Step]:
        assert self._new is not None
        size = _size(self._new)
        wanted = self._size_of_new(size) if size < self._replicas else self._replicas
        return (
            self._resize(self._new, wanted)
            or self._shrink_old(self._new)
            or (self._clean_up() if self._is_complete(self._status) else ())
            or self._write_rollout_status()
        )

    def _size_of_new(self, size: int) -> int:
        """The size that the new ReplicaSet may grow to."""
        if not self._is_rolling:
            return self._replicas
        room = self._most_replicas - sum(map(_size, self._all))
        return size if room <= 0 else size + min(room, self._replicas - size)

    def _shrink_old(self, new: Object) -> Sequence[Step]:
        """Remove unavailable replicas first, then as many available ones as there are more than needed."""
        sizes = {_name(one): _size(one) for one in self._old if _size(one) > 0}
        unavailable = _size(new) - _available(new)
        most = sum(map(_size, self._all)) - self._least_available - unavailable
        active = [one for one in self._old if _name(one) in sizes]
        # If it has more available pods than it should have, it has not seen its last change, and its numbers are too
        # high.
        if not active or most <= 0 or any(_available(one) > _size(one) for one in self._all):
            return ()
        steps: list[Step] = []
        for one in active:
            gone = min(most, _size(one) - _available(one))
            if gone > 0:
                steps += self._scale_to(one, _size(one) - gone)
                sizes[_name(one)] -= gone
                most -= gone
        spare = sum(map(_available, active)) + _available(new) - self._least_available
        for one in active:
            before = sizes[_name(one)]
            gone = min(before, spare)
            if gone > 0:
                steps.append(Scale(_name(one), before, before - gone, self._replica_annotations()))
                spare -= gone
        return steps

    def _recreate(self) -> Sequence[Step]:
        shrinking = [step for one in self._old for step in self._resize(one, 0)]
        if shrinking:
            return shrinking
        if self._has_old_pods():
            return self._write_rollout_status()
        if self._new is None:
            return self._create()
        return (
            self._resize(self._new, self._replicas)
            or (self._clean_up() if self._is_complete(self._status) else ())
            or self._write_rollout_status()
        )

    def _has_old_pods(self) -> bool:
        return any(_count(one, "replicas") for one in self._old) or any(
            map(self._has_running_pods, self._old)
        )

    def _clean_up(self) -> Sequence[Step]:
        """Delete the oldest ReplicaSets that have no pods, down to the limit of the history."""
        limit = self._spec.get("revisionHistoryLimit")
        if limit is None or limit == _NO_LIMIT:
            return ()
        old = [one for one in self._old if not is_terminating(one)]
        old.sort(key=lambda one: (_revision(self._keys, one) or 0, *_age(one)))
        return [Remove(_name(one)) for one in old[: max(0, len(old) - limit)] if _is_empty(one)]

    def _roll_back(self, revision: int) -> Sequence[Step]:
        """Use the template of a revision; 0 is the one before the current one."""
        revisions = {_revision(self._keys, one): one for one in reversed(self._all)}
        known = sorted(number for number in revisions if number is not None)
        wanted = revision or (known[-2] if len(known) > 1 else 0)
        changed = copied(self._deployment)
        annotations = changed["metadata"]["annotations"]
        del annotations[DEPLOYMENT_ROLLBACK]
        if not wanted:
            return (_refused(changed, "RevisionNotFound", "Unable to find last revision."),)
        found = revisions.get(wanted)
        if found is None:
            return (_refused(changed, "RevisionNotFound", "Unable to find the revision to rollback to."),)
        name = quoted(_name(self._deployment))
        if same_template(self._template_of(found), self._template):
            why = f"The rollback revision contains the same template as current deployment {name}"
            return (_refused(changed, "TemplateUnchanged", why),)
        changed["spec"]["template"] = without_hash(self._template_of(found))
        kept = {key: value for key, value in annotations.items() if key in self._keys.not_copied}
        theirs = _annotations(found).items()
        changed["metadata"]["annotations"] = {
            **kept,
            **{key: value for key, value in theirs if key not in self._keys.not_copied},
        }
        message = f"Rolled back deployment {name} to revision {wanted}"
        return (RollBack(changed, "Normal", "DeploymentRollback", message),)

    @property
    def _has_deadline(self) -> bool:
        return self._spec.get("progressDeadlineSeconds") not in (None, _NO_LIMIT)

    def _pause_or_resume(self) -> Sequence[Step]:
        """The condition that keeps a pause from counting as lack of progress."""
        current = condition_of(self._deployment, PROGRESSING)
        reason = current.get("reason") if current is not None else None
        paused = bool(self._spec.get("paused"))
        if not self._has_deadline or reason == TIMED_OUT or paused == (reason == PAUSED):
            return ()
        reason, message = (PAUSED, "Deployment is paused") if paused else (RESUMED, "Deployment is resumed")
        return (WriteStatus(self._with_condition(self._status, PROGRESSING, "Unknown", reason, message)),)

    def _counted(self) -> Object:
        """The status counted from the ReplicaSets, with the present conditions."""
        available = sum(map(_available, self._all))
        counts = {
            "observedGeneration": self._deployment["metadata"].get("generation", 0),
            "replicas": sum(_count(one, "replicas") for one in self._all),
            "updatedReplicas": _count(self._new, "replicas") if self._new is not None else 0,
            "readyReplicas": sum(_count(one, "readyReplicas") for one in self._all),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(map(_size, self._all)) - available),
        }
        status: Object = {part: number for part, number in counts.items() if number}
        if TERMINATING_REPLICAS in self._release.features:
            status |= self._terminating()
        if (collisions := self._status.get("collisionCount")) is not None:
            status["collisionCount"] = collisions
        status["conditions"] = self._status.get("conditions") or []
        if available >= self._least_available:
            words = "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
        else:
            words = "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        return self._with_condition(status, AVAILABLE, *words)

    def _terminating(self) -> Object:
        """Nothing if a ReplicaSet has not reported it yet."""
        reported = [one["status"] for one in self._all if one["status"].get("observedGeneration")]
        if any("terminatingReplicas" not in status for status in reported):
            return {}
        return {"terminatingReplicas": sum(status["terminatingReplicas"] for status in reported)}

    def _write_status(self) -> Sequence[Step]:
        status = self._counted()
        return (WriteStatus(status),) if status != self._status else ()

    def _write_rollout_status(self) -> Sequence[Step]:
        status = self._with_progress(self._counted())
        status = self._with_failure(status)
        if status != self._status:
            return (WriteStatus(status),)
        current = condition_of(self._deployment, PROGRESSING)
        if (
            not self._has_deadline
            or current is None
            or self._is_complete(status)
            or current.get("reason") in (TIMED_OUT, COMPLETED)  # time alone changes neither
        ):
            return ()
        return (Wake(max(0.0, (self._deadline(current) - self._now) / 1_000_000)),)

    def _with_progress(self, status: Object) -> Object:
        if not self._has_deadline:
            return _without_condition(status, PROGRESSING)
        current = condition_of(self._deployment, PROGRESSING)
        reason = current.get("reason") if current is not None else None
        if status.get("replicas") == status.get("updatedReplicas") and reason == COMPLETED:
            return status
        about = (
            f"ReplicaSet {quoted(_name(self._new))}"
            if self._new is not None
            else f"Deployment {quoted(_name(self._deployment))}"
        )
        if self._is_complete(status):
            message = f"{about} has successfully progressed."
            return self._with_condition(status, PROGRESSING, "True", COMPLETED, message)
        if self._progressed(status):
            # Also with the same reason, so that its time is that of the last progress.
            moved = self._condition(PROGRESSING, "True", UPDATED, f"{about} is progressing.")
            if current is not None and current["status"] == "True" and "lastTransitionTime" in current:
                moved["lastTransitionTime"] = current["lastTransitionTime"]
            without = _without_condition(status, PROGRESSING)
            return {**without, "conditions": [*without["conditions"], moved]}
        if current is not None and self._timed_out(current):
            message = f"{about} has timed out progressing."
            return self._with_condition(status, PROGRESSING, "False", TIMED_OUT, message)
        return status

    def _is_complete(self, status: Object) -> bool:
        counts = [status.get(part, 0) for part in ("updatedReplicas", "replicas", "availableReplicas")]
        generation = self._deployment["metadata"].get("generation", 0)
        return counts == [self._replicas] * 3 and status.get("observedGeneration", 0) >= generation

    def _progressed(self, status: Object) -> bool:
        """Whether there are more new, ready or available pods, or fewer old ones, than before."""

        def counts(of: Object) -> tuple[int, ...]:
            updated = of.get("updatedReplicas", 0)
            old = of.get("replicas", 0) - updated
            return updated, -old, of.get("readyReplicas", 0), of.get("availableReplicas", 0)

        return any(after > before for after, before in zip(counts(status), counts(self._status), strict=True))

    def _deadline(self, progressing: Object) -> int:
        """The progress deadline, in microseconds."""
        since = micros_of(progressing["lastUpdateTime"]) if "lastUpdateTime" in progressing else 0
        return since + int(self._spec["progressDeadlineSeconds"]) * 1_000_000 + 1

    def _timed_out(self, progressing: Object) -> bool:
        reason = progressing.get("reason")
        return reason == TIMED_OUT or (reason != COMPLETED and self._deadline(progressing) <= self._now)

    def _with_failure(self, status: Object) -> Object:
        """Add the failure of a ReplicaSet to create or delete pods: of the new one first."""
        first = [self._new] if self._new is not None else []
        failures = (condition_of(one, FAILURE) for one in (*first, *self._old))
        failure = next((one for one in failures if one is not None), None)
        if failure is None:
            return _without_condition(status, FAILURE)
        taken = {**failure}
        if "lastTransitionTime" in failure:
            taken["lastUpdateTime"] = failure["lastTransitionTime"]
        return _with_condition(status, taken)

    def failed_to_create(self, name: str, error: str) -> tuple[Object | None, str]:
        """The status after the new ReplicaSet could not be created, if it changes; and the message."""
        message = f"Failed to create new replica set {quoted(name)}: {error}"
        if not self._has_deadline:
            return None, message
        return self._with_condition(self._status, PROGRESSING, "False", NOT_CREATED, message), message

    def created(self, name: str) -> Object:
        """The status after the new ReplicaSet was created."""
        status: Object = self._status
        if not self._has_deadline:
            return status
        message = f"Created new replica set {quoted(name)}"
        return self._with_condition(status, PROGRESSING, "True", CREATED, message)

    def _with_condition(
        self, status: Object, condition_type: str, value: str, reason: str, message: str
    ) -> Object:
        return _with_condition(status, self._condition(condition_type, value, reason, message))

    def _condition(self, condition_type: str, value: str, reason: str, message: str) -> Object:
        now = seconds_text(self._now)
        return {
            "type": condition_type,
            "status": value,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }


def same_template(one: Object, other: Object) -> bool:
    """Whether templates are equal except for their hash label: stored ones have one form."""
    return without_hash(one) == without_hash(other)


def without_hash(template: Object) -> Object:
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if TEMPLATE_HASH not in labels:
        return template
    labels = {key: value for key, value in labels.items() if key != TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _with_condition(status: Object, condition: Object) -> Object:
    """Replace the condition of this type, unless the present one has the same value and reason."""
    conditions: list[Object] = status.get("conditions") or []
    current = next((one for one in conditions if one["type"] == condition["type"]), None)
    if current is not None and current["status"] == condition["status"]:
        if current.get("reason") == condition.get("reason"):
            return status
        if "lastTransitionTime" in current:
            condition = {**condition, "lastTransitionTime": current["lastTransitionTime"]}
    return {**status, "conditions": [one for one in conditions if one is not current] + [condition]}


def _without_condition(status: Object, condition_type: str) -> Object:
    conditions = [one for one in status.get("conditions") or [] if one["type"] != condition_type]
    return {**status, "conditions": conditions}


def _refused(changed: Object, reason: str, message: str) -> RollBack:
    return RollBack(changed, "Warning", f"DeploymentRollback{reason}", message)


def _extended_history(history: str, revision: str) -> str:
    """The history with one more revision; the oldest are dropped if it becomes too long."""
    revisions = [*history.split(","), revision] if history else [revision]
    while len(revisions) > 1 and len(",".join(revisions)) > _LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)


def _share(value: int | str, replicas: int, *, rounded_by: int) -> int:
    """A number, or a percentage of the replicas: rounded down by 0, up by 99."""
    if isinstance(value, str):
        return (number_in(value) * replicas + rounded_by) // 100
    return value


def _number(text: str | None) -> int | None:
    return None if text is None else int64_of(text)


def _name(stored: Object) -> str:
    name: str = stored["metadata"]["name"]
    return name


def _annotations(stored: Object) -> dict[str, str]:
    annotations: dict[str, str] = stored["metadata"].get("annotations") or {}
    return annotations


def _revision(keys: Annotations, one: Object) -> int | None:
    """None if the annotation is no number, 0 if there is none."""
    return _number(_annotations(one).get(keys.revision, "0"))


def _age(one: Object) -> tuple[str, str]:
    """Sort key: the oldest first."""
    return one["metadata"]["creationTimestamp"], _name(one)


def _size(one: Object) -> int:
    size: int = one["spec"]["replicas"]
    return size


def _count(one: Object, part: str) -> int:
    count: int = one["status"].get(part, 0)
    return count


def _available(one: Object) -> int:
    return _count(one, "availableReplicas")


def _is_empty(one: Object) -> bool:
    """Whether it has no pods and should have none, and its controller has seen that."""
    observed = one["metadata"].get("generation", 0) <= _count(one, "observedGeneration")
    return observed and not _size(one) and not _count(one, "replicas")
