"""Table columns of pods: one word for how a pod is, found in the states of its containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, since
from actors.messages import Object

LOST_NODE: Final = "NodeLost"  # the reason of pods whose node has stopped reporting


@dataclass(frozen=True, slots=True)
class Found:
    """What the states of a pod's containers come to."""

    word: str
    ready: int
    restarts: int
    last_end: str  # when a restarted container last terminated


def found(pod: Object) -> Found:
    """Containers that prepare tell of the pod until all of them have ended well."""
    status = pod["status"]
    word = status.get("reason") or status.get("phase", "")
    summary = _preparing(pod) or _running(pod, word)
    if "deletionTimestamp" in pod["metadata"]:
        word = "Unknown" if status.get("reason") == LOST_NODE else "Terminating"
        return Found(word, summary.ready, summary.restarts, summary.last_end)
    return summary


def _preparing(pod: Object) -> Found | None:
    """The first container that has not ended well speaks; None when there is no such."""
    statuses = pod["status"].get("initContainerStatuses", ())
    restarts, last_end = 0, ""
    for index, status in enumerate(statuses):
        restarts += status["restartCount"]
        last_end = max(last_end, _end_before(status))
        ended = status["state"].get("terminated")
        if ended is not None and not ended["exitCode"]:
            continue
        waits_for = status["state"].get("waiting", {}).get("reason", "")
        if ended is not None:
            word = _ending(ended)
        elif waits_for and waits_for != "PodInitializing":
            word = waits_for
        else:
            word = f"{index}/{len(pod['spec'].get('initContainers', ()))}"
        return Found(f"Init:{word}", 0, restarts, last_end)
    return None


def _running(pod: Object, word: str) -> Found:
    """The first container that waits or has ended gives the word."""
    ready, restarts = 0, 0
    last_end = max((_end_before(one) for one in pod["status"].get("initContainerStatuses", ())), default="")
    for status in reversed(pod["status"].get("containerStatuses", ())):
        state = status["state"]
        restarts += status["restartCount"]
        last_end = max(last_end, _end_before(status))
        if state.get("waiting", {}).get("reason"):
            word = state["waiting"]["reason"]
        elif "terminated" in state:
            word = _ending(state["terminated"])
        elif status["ready"] and "running" in state:
            ready += 1
    if word == "Completed" and ready:
        word = "Running" if _has_condition(pod, "Ready") else "NotReady"
    return Found(word, ready, restarts, last_end)


def _ending(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended['exitCode']}"


def _end_before(status: Object) -> str:
    return status["lastState"].get("terminated", {}).get("finishedAt") or ""


def _has_condition(pod: Object, kind: str) -> bool:
    first: Object = next((one for one in pod["status"].get("conditions", ()) if one["type"] == kind), {})
    return first.get("status") == "True"


def _ready(pod: Object, _: int) -> str:
    return f"{found(pod).ready}/{len(pod['spec']['containers'] or ())}"


def _restarts(pod: Object, now: int) -> str:
    summary = found(pod)
    if not summary.last_end:
        return str(summary.restarts)
    return f"{summary.restarts} ({since(summary.last_end, now)} ago)"


def _gates(pod: Object, _: int) -> str:
    gates = pod["spec"].get("readinessGates", ())
    met = sum(_has_condition(pod, gate["conditionType"]) for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def _or_none(half: str, part: str) -> Any:
    return lambda pod, _: pod[half].get(part) or NONE


COLUMNS: Final = (
    NAME,
    Column("Ready", "string", "Containers that are ready, of all there are.", _ready),
    Column("Status", "string", "How the pod is, in a word.", lambda pod, _: found(pod).word),
    Column("Restarts", "string", "How often containers were started again, and when last.", _restarts),
    AGE,
    Column("IP", "string", "Address of the pod.", _or_none("status", "podIP"), priority=1),
    Column("Node", "string", "Node that the pod runs on.", _or_none("spec", "nodeName"), priority=1),
    Column(
        "Nominated Node",
        "string",
        "Node on which others make room for the pod.",
        _or_none("status", "nominatedNodeName"),
        priority=1,
    ),
    Column("Readiness Gates", "string", "Gates that are open, of all there are.", _gates, priority=1),
)

_ENDED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(pod: Object) -> list[Object]:
    """Pods that have ended are marked, so that tools can leave them out."""
    phase = pod["status"].get("phase", "")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]
