"""Table columns of pods. The Status column is one word that summarizes the states of the containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, since
from actors.messages import Object

LOST_NODE: Final = "NodeLost"  # the reason of pods whose node has stopped reporting


@dataclass(frozen=True, slots=True)
class Summary:
    """The states of a pod's containers in a word and three figures."""

    reason: str  # the text of the Status column
    ready: int
    restarts: int
    last_termination: str  # when a restarted container last terminated


def summarize(pod: Object) -> Summary:
    """Summarize the init containers until all of them have succeeded, then the main containers."""
    status = pod["status"]
    reason = status.get("reason") or status.get("phase", "")
    summary = _init_summary(pod) or _main_summary(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        reason = "Unknown" if status.get("reason") == LOST_NODE else "Terminating"
        return Summary(reason, summary.ready, summary.restarts, summary.last_termination)
    return summary


def _init_summary(pod: Object) -> Summary | None:
    """The summary by the first init container that has not succeeded; None when all have."""
    statuses = pod["status"].get("initContainerStatuses", ())
    restarts, last_termination = 0, ""
    for index, status in enumerate(statuses):
        restarts += status["restartCount"]
        last_termination = max(last_termination, _last_termination(status))
        terminated = status["state"].get("terminated")
        if terminated is not None and not terminated["exitCode"]:
            continue
        waiting_reason = status["state"].get("waiting", {}).get("reason", "")
        if terminated is not None:
            reason = _termination_reason(terminated)
        elif waiting_reason and waiting_reason != "PodInitializing":
            reason = waiting_reason
        else:
            reason = f"{index}/{len(pod['spec'].get('initContainers', ()))}"
        return Summary(f"Init:{reason}", 0, restarts, last_termination)
    return None


def _main_summary(pod: Object, reason: str) -> Summary:
    """The reason is that of the first container that is waiting or has terminated."""
    ready, restarts = 0, 0
    last_termination = max(
        (_last_termination(one) for one in pod["status"].get("initContainerStatuses", ())), default=""
    )
    for status in reversed(pod["status"].get("containerStatuses", ())):
        state = status["state"]
        restarts += status["restartCount"]
        last_termination = max(last_termination, _last_termination(status))
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _termination_reason(state["terminated"])
        elif status["ready"] and "running" in state:
            ready += 1
    if reason == "Completed" and ready:
        reason = "Running" if _has_condition(pod, "Ready") else "NotReady"
    return Summary(reason, ready, restarts, last_termination)


def _termination_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return (
        f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated['exitCode']}"
    )


def _last_termination(status: Object) -> str:
    return status["lastState"].get("terminated", {}).get("finishedAt") or ""


def _has_condition(pod: Object, kind: str) -> bool:
    first: Object = next((one for one in pod["status"].get("conditions", ()) if one["type"] == kind), {})
    return first.get("status") == "True"


def _ready(pod: Object, _: int) -> str:
    return f"{summarize(pod).ready}/{len(pod['spec']['containers'] or ())}"


def _restarts(pod: Object, now: int) -> str:
    summary = summarize(pod)
    if not summary.last_termination:
        return str(summary.restarts)
    return f"{summary.restarts} ({since(summary.last_termination, now)} ago)"


def _gates(pod: Object, _: int) -> str:
    gates = pod["spec"].get("readinessGates", ())
    first: dict[str, str] = {}
    for condition in pod["status"].get("conditions", ()) if gates else ():
        first.setdefault(condition["type"], condition.get("status", ""))
    met = sum(first.get(gate["conditionType"]) == "True" for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def _text_or_none(section: str, part: str) -> Any:
    return lambda pod, _: pod[section].get(part) or NONE


COLUMNS: Final = (
    NAME,
    Column("Ready", "string", "Ready containers and the number of all containers.", _ready),
    Column(
        "Status",
        "string",
        "Phase of the pod, or the reason it is not running.",
        lambda pod, _: summarize(pod).reason,
    ),
    Column("Restarts", "string", "Container restarts and the time since the last one.", _restarts),
    AGE,
    Column("IP", "string", "Address of the pod.", _text_or_none("status", "podIP"), priority=1),
    Column("Node", "string", "Node that the pod runs on.", _text_or_none("spec", "nodeName"), priority=1),
    Column(
        "Nominated Node",
        "string",
        "Node on which others make room for the pod.",
        _text_or_none("status", "nominatedNodeName"),
        priority=1,
    ),
    Column(
        "Readiness Gates",
        "string",
        "Readiness gates whose condition is True and the number of all gates.",
        _gates,
        priority=1,
    ),
)

_TERMINATED_MESSAGES: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def row_conditions(pod: Object) -> list[Object]:
    """Mark rows of terminated pods with a condition, so that clients can hide them."""
    phase = pod["status"].get("phase", "")
    if phase not in _TERMINATED_MESSAGES:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _TERMINATED_MESSAGES[phase]}]
