"""The phase of an object, in the words that kubectl shows, and whether that is good: the colour of a lifeline.

    Pod         Running and ready: good; Pending, or Running and not ready: working; CrashLoopBackOff: bad
    Deployment  Available: good; Progressing: working; ProgressDeadlineExceeded: bad; Scaled to 0: done
    Node        Ready, NotReady, Ready,SchedulingDisabled
    others      their main condition (Ready, Available, Failed, ...), or status.phase

It reads whatever is stored: the status of custom objects may contain anything, and a value of the wrong type counts
as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeGuard

Document = dict[str, Any]

GOOD, WORKING, BAD, DONE, UNKNOWN = "good", "working", "bad", "done", "unknown"
MAX_ITEMS: Final = 100  # conditions or containers that are read
_WIDTH: Final = 40  # characters of the text


class Phase(NamedTuple):
    words: str
    tone: str


def phase_of(type_name: str, content: Any) -> Phase | None:
    """Return the phase, or None for an object without one. `type_name` is that of the journal: deployments.apps."""
    if not isinstance(content, dict):
        return None
    if _map(content, "metadata").get("deletionTimestamp"):
        return Phase("Terminating", WORKING)
    found = _RULES.get(_short(type_name), _by_condition)(content)
    if found is None or len(found.words) <= _WIDTH:
        return found
    return Phase(found.words[: _WIDTH - 1] + "…", found.tone)


def _short(type_name: str) -> str:
    """Return a type name without the domain of its group, which differs between dialects: ingresses.networking."""
    return ".".join(type_name.split(".", 2)[:2])


def _pod(content: Document) -> Phase | None:
    status = _map(content, "status")
    phase, reason = _text(status, "phase"), _text(status, "reason")
    if phase in ("Failed", "Succeeded"):
        return Phase(reason or phase, BAD if phase == "Failed" else DONE)
    if trouble := next(_container_problems(status), ""):
        return Phase(trouble, BAD)
    if phase == "Running":
        ready = _condition(status, "Ready") == "True"
        return Phase("Running", GOOD) if ready else Phase("NotReady", WORKING)
    if phase == "Pending" or not phase:
        return Phase("Pending", WORKING)
    return Phase(phase, UNKNOWN)


# Reasons for waiting that are not errors.
_STARTING: Final = frozenset(("", "ContainerCreating", "PodInitializing"))


def _container_problems(status: Document) -> Iterator[str]:
    """Yield why containers do not run: CrashLoopBackOff, ImagePullBackOff, Error, ..."""
    for name in ("initContainerStatuses", "containerStatuses"):
        for container in _maps(status, name):
            waiting = _text(_map(container, "state", "waiting"), "reason")
            if waiting not in _STARTING:
                yield waiting
            terminated = _map(container, "state", "terminated")
            if terminated.get("exitCode") not in (None, 0):
                yield _text(terminated, "reason") or "Error"


def _job(content: Document) -> Phase | None:
    status = _map(content, "status")
    if _condition(status, "Failed") == "True":
        return Phase("Failed", BAD)
    if _condition(status, "Complete") == "True":
        return Phase("Complete", DONE)
    if _map(content, "spec").get("suspend") is True:
        return Phase("Suspended", UNKNOWN)
    return Phase("Active" if _number(status, "active") else "Pending", WORKING)


def _cron_job(content: Document) -> Phase | None:
    if _map(content, "spec").get("suspend") is True:
        return Phase("Suspended", UNKNOWN)
    active = content.get("status")
    return Phase("Active", WORKING) if _maps(active, "active") else Phase("Scheduled", GOOD)


def _deployment(content: Document) -> Phase | None:
    status = _map(content, "status")
    if _condition_reason(status, "Progressing") == "ProgressDeadlineExceeded":
        return Phase("ProgressDeadlineExceeded", BAD)
    if _condition(status, "ReplicaFailure") == "True":
        return Phase("ReplicaFailure", BAD)
    return _replicated(content, updated=_number(status, "updatedReplicas"), ready="availableReplicas")


def _stateful_set(content: Document) -> Phase | None:
    return _replicated(content, updated=None, ready="readyReplicas")


def _replica_set(content: Document) -> Phase | None:
    if _condition(_map(content, "status"), "ReplicaFailure") == "True":
        return Phase("ReplicaFailure", BAD)
    return _replicated(content, updated=None, ready="readyReplicas")


def _replicated(content: Document, updated: int | None, ready: str) -> Phase:
    """Return the phase by how many replicas are wanted, exist and are ready."""
    status = _map(content, "status")
    wanted = _map(content, "spec").get("replicas")
    wanted = wanted if _is_number(wanted) else 1
    exist, serving = _number(status, "replicas"), _number(status, ready)
    if wanted == 0:
        return Phase("Scaled to 0", DONE) if exist == 0 else Phase("Progressing", WORKING)
    complete = exist == wanted == serving and updated in (None, wanted)
    return Phase("Available", GOOD) if complete and _is_observed(content) else Phase("Progressing", WORKING)


def _daemon_set(content: Document) -> Phase | None:
    status = _map(content, "status")
    wanted, ready = _number(status, "desiredNumberScheduled"), _number(status, "numberReady")
    if ready < wanted or not _is_observed(content):
        return Phase("Progressing", WORKING)
    return Phase("Available", GOOD) if wanted else Phase("No nodes", DONE)


def _is_observed(content: Document) -> bool:
    """Whether the controller has seen the newest spec."""
    observed = _map(content, "status").get("observedGeneration")
    generation = _map(content, "metadata").get("generation")
    return not (_is_number(observed) and _is_number(generation)) or observed >= generation


def _node(content: Document) -> Phase | None:
    ready = _condition(_map(content, "status"), "Ready")
    if ready == "True":
        if _map(content, "spec").get("unschedulable") is True:
            return Phase("Ready,SchedulingDisabled", WORKING)
        return Phase("Ready", GOOD)
    return Phase("NotReady" if ready == "False" else "Unknown", BAD)


_VOLUME_TONES: Final = {
    "Bound": GOOD,
    "Available": GOOD,
    "Pending": WORKING,
    "Released": DONE,
    "Lost": BAD,
    "Failed": BAD,
}


def _volume(content: Document) -> Phase | None:
    phase = _text(_map(content, "status"), "phase") or "Pending"
    return Phase(phase, _VOLUME_TONES.get(phase, UNKNOWN))


def _namespace(content: Document) -> Phase | None:
    terminating = _text(_map(content, "status"), "phase") == "Terminating"
    return Phase("Terminating", WORKING) if terminating else Phase("Active", GOOD)


_POSITIVE: Final = ("Ready", "Available", "Established", "Healthy", "Accepted", "Programmed", "Approved")
_FINAL: Final = ("Succeeded", "Complete", "Completed", "Finished")
_NEGATIVE: Final = ("Failed", "Failure", "Stalled", "Degraded", "Denied", "Error")
_PROGRESS: Final = ("Progressing", "Reconciling", "Running", "Synced", "Initialized", "Suspended")


def _by_condition(content: Document) -> Phase | None:
    """Return the phase of the main condition, or else status.phase."""
    status = _map(content, "status")
    conditions = _conditions(status)
    for name in _NEGATIVE:
        if conditions.get(name) == "True":
            return Phase(name, BAD)
    for name in _FINAL:
        if conditions.get(name) == "True":
            return Phase(name, DONE)
        if conditions.get(name) == "False" and not any(one in conditions for one in _POSITIVE):
            return Phase(f"Not {name.lower()}", WORKING)
    for name in _POSITIVE:
        if name in conditions:
            return _positive(name, conditions)
    for name in _PROGRESS:
        if name in conditions:
            return Phase(name if conditions[name] == "True" else f"Not {name.lower()}", WORKING)
    return _phase_field(status)


def _positive(name: str, conditions: dict[str, str]) -> Phase:
    value = conditions[name]
    if value == "True":
        return Phase(name, GOOD)
    if value != "False":
        return Phase("Unknown", UNKNOWN)
    working = any(conditions.get(one) == "True" for one in ("Progressing", "Reconciling"))
    return Phase(f"Not{name}" if name == "Ready" else f"Not {name.lower()}", WORKING if working else BAD)


_PHASE_TONES: Final = {
    **dict.fromkeys(
        ("running", "active", "ready", "available", "bound", "healthy", "established", "ok"), GOOD
    ),
    **dict.fromkeys(("pending", "creating", "updating", "progressing", "provisioning", "deleting"), WORKING),
    **dict.fromkeys(("failed", "error", "lost", "unhealthy", "degraded", "crashed"), BAD),
    **dict.fromkeys(("succeeded", "complete", "completed", "done", "finished", "released"), DONE),
}


def _phase_field(status: Document) -> Phase | None:
    phase = _text(status, "phase") or _text(status, "state")
    return Phase(phase, _PHASE_TONES.get(phase.lower(), UNKNOWN)) if phase else None


_RULES: Final[dict[str, Callable[[Document], Phase | None]]] = {
    "pods": _pod,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replica_set,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "nodes": _node,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _volume,
    "namespaces": _namespace,
}


def _conditions(status: Document) -> dict[str, str]:
    return {_text(one, "type"): _text(one, "status") for one in reversed(_maps(status, "conditions"))}


def _condition(status: Document, name: str) -> str:
    return _conditions(status).get(name, "")


def _condition_reason(status: Document, name: str) -> str:
    found = (one for one in _maps(status, "conditions") if one.get("type") == name)
    return _text(next(found, {}), "reason")


def _map(document: Any, *path: str) -> Document:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _maps(document: Any, name: str) -> list[Document]:
    value = document.get(name) if isinstance(document, dict) else None
    return [item for item in value[:MAX_ITEMS] if isinstance(item, dict)] if isinstance(value, list) else []


def _text(document: Document, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _number(document: Document, name: str) -> int:
    value = document.get(name)
    return value if _is_number(value) else 0


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
