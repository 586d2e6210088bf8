"""Explains why a pod runs on its node, or on none: which filter removed which nodes, and how the rest scored.

An explanation is a document. `rewound why` prints it, and pods get it that ask for one by an annotation:

    {"pod": "default/web-1", "schedulerName": "default-scheduler", "nodes": 3, "node": "",
     "message": "0/3 nodes are available: ...",          only if no node is feasible
     "filtered": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "count": 2, "nodes": ["a", "b"]}],
     "scores": [{"node": "c", "total": 612, "plugins": {"TaintToleration": 300, ...}}],
     "claims": [{"claim": "gpu", "isAllocated": false, "reservedFor": [],       only if the pod claims devices
                 "devices": [{"request": "r", "driver": "gpu.example.com", "pool": "c", "device": "gpu-0"}]}]}

It covers all nodes, also where the scheduler would sample them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.names import REWIND_GROUP
from rewound.actors.scheduler.evaluation import STEP, Diagnosis, Evaluation, Profile, Steps
from rewound.actors.scheduler.nodes import NodeState
from rewound.actors.scheduler.plugins import Failure, Refusal, SchedulingContext, SchedulingError
from rewound.actors.scheduler.pods import PodFacts

# A pod with the first annotation gets the second when it is scheduled, or fails to be. The same in both dialects.
ASKED: Final = f"scheduler.{REWIND_GROUP}/explain"
ANSWERED: Final = f"scheduler.{REWIND_GROUP}/explanation"
IN_ANNOTATION: Final = 10  # nodes in each list


def is_asked(pod: Object) -> bool:
    return bool(pod["metadata"].get("annotations", {}).get(ASKED) == "true")


def explain(
    profile: Profile, pod: PodFacts, around: SchedulingContext, node: str = "", most: int | None = None
) -> Steps[Object]:
    """`node`: the chosen one; `most`: at most this many nodes in each list. Raises Outdated."""
    nodes = around.cluster.order
    found: Object = {
        "pod": f"{pod.namespace}/{pod.name}",
        "schedulerName": profile.name,
        "nodes": len(nodes),
        "node": node,
    }
    if not nodes:
        return found | {"message": "no nodes available to schedule pods", "filtered": [], "scores": []}
    failures: dict[str, Failure] = {}
    scores: list[Object] = []
    claims: list[Object] = []
    try:
        evaluation = Evaluation(profile, pod, around)
        for _ in evaluation.steps:
            yield
            evaluation.check_current()
        feasible = yield from evaluation.feasible(0, len(nodes), nodes, lambda _: (), failures)
        scores = yield from _scores(evaluation, feasible, most)
        if (devices := evaluation.devices()) is not None:
            claims = devices.described(node or next((one["node"] for one in scores), ""))[:most]
    except Refusal as refusal:
        failures = {one.name: refusal.failure for one in nodes}
    except SchedulingError as wrong:
        return found | {"message": str(wrong), "filtered": [], "scores": []}
    if len(failures) == len(nodes):
        found["message"] = Diagnosis(len(nodes), failures).reasons()
    filtered = yield from _filtered(failures, most)
    found |= {"filtered": filtered, "scores": scores}
    return found | {"claims": claims} if claims else found


def _scores(evaluation: Evaluation, feasible: list[NodeState], most: int | None) -> Steps[list[Object]]:
    """The feasible nodes, the best first."""
    if not feasible:
        return []
    by_node = yield from evaluation.explained(feasible)
    totals: list[tuple[int, str]] = []
    for number, (name, plugins) in enumerate(by_node.items(), 1):
        totals.append((-sum(plugins.values()), name))
        if number % STEP == 0:
            yield
    totals.sort()
    return [{"node": name, "total": -total, "plugins": by_node[name]} for total, name in totals[:most]]


def _filtered(failures: dict[str, Failure], most: int | None) -> Steps[list[Object]]:
    """The nodes that each reason of each plugin removed; most nodes first."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for number, (name, failure) in enumerate(failures.items(), 1):
        for reason in failure.reasons:
            nodes.setdefault((failure.plugin, reason), []).append(name)
        if number % STEP == 0:
            yield
    ordered = sorted(nodes.items(), key=lambda one: (-len(one[1]), one[0]))
    return [
        {"plugin": plugin, "reason": reason, "count": len(names), "nodes": sorted(names)[:most]}
        for (plugin, reason), names in ordered
    ]


def lines(explanation: Object) -> Iterable[str]:
    """The explanation as text."""
    node, scores = explanation["node"], explanation["scores"]
    does = f"{len(scores)} of {explanation['nodes']} nodes fit"
    yield f"pod {explanation['pod']}: {f'assigned to {node}; {does}' if node else does}"
    if "message" in explanation:
        yield f"  {explanation['message']}"
    if scores:
        yield f"  {_verdict(scores, node)}"
    if explanation.get("claims"):
        yield "claims:"
        yield from map(_claim, explanation["claims"])
    if explanation["filtered"]:
        yield "removed:"
        for one in explanation["filtered"]:
            yield f"  {one['count']:>5}  {one['plugin']}: {one['reason']} ({', '.join(one['nodes'])})"
    if scores:
        yield "scores:"
        yield from _table(scores, node)


# What it says about a node that a plugin gave it more points than another.
_BETTER: Final = {
    "ImageLocality": "it has more of the pod's images",
    "InterPodAffinity": "the pod's affinities to other pods prefer it",
    "NodeAffinity": "the pod's node affinity prefers it",
    "NodeResourcesBalancedAllocation": "it would use its cpu and memory more evenly",
    "NodeResourcesFit": "its free resources suit the pod better",
    "PodTopologySpread": "the pods would be spread more evenly",
    "TaintToleration": "it has fewer taints that the pod does not tolerate",
}


def _verdict(scores: list[Object], chosen: str) -> str:
    """Which node won and by what, in a sentence; without a chosen node, which one would."""
    best = next((one for one in scores if one["node"] == chosen), scores[0])
    others = [one for one in scores if one is not best]
    wins = f"{best['node']} {'won' if chosen == best['node'] else 'would win'}"
    if not others:
        return f"{wins}: no other node fits"
    second = others[0]
    lead = best["total"] - second["total"]
    if lead == 0:
        equal = [one["node"] for one in others if one["total"] == best["total"]]
        return f"{wins} by chance: {', '.join(equal)} scored as many points, {best['total']}"
    if lead < 0:
        return f"{best['node']} was chosen although {second['node']} has {-lead} more points now: {_by(second, best)}"
    return f"{wins} with {best['total']} points, {lead} more than {second['node']}: {_by(best, second)}"


def _by(better: Object, worse: Object) -> str:
    """The plugins that preferred a node to another, those with the most points first."""
    leads = {name: points - worse["plugins"][name] for name, points in better["plugins"].items()}
    telling = sorted((name for name, lead in leads.items() if lead > 0), key=lambda name: -leads[name])
    return ", ".join(f"{_BETTER.get(name, 'it is better')} ({name} +{leads[name]})" for name in telling)


def _claim(claim: Object) -> str:
    """A line about a resource claim."""
    devices = ", ".join(
        f"{one['driver']}/{one['pool']}/{one['device']} ({one['request']})" for one in claim["devices"]
    )
    if claim["isAllocated"]:
        users = ", ".join(claim["reservedFor"])
        return (
            f"  {claim['claim']}: has {devices or 'no devices'}{f', reserved for {users}' if users else ''}"
        )
    return f"  {claim['claim']}: {f'gets {devices}' if devices else 'is not allocated'}"


def _table(scores: list[Object], chosen: str) -> Iterable[str]:
    """A row for each node; plugins with the same score for all nodes are in one line below."""
    names = list(scores[0]["plugins"])
    telling = [name for name in names if len({one["plugins"][name] for one in scores}) > 1]
    rows = [["", "node", "total", *telling]]
    for one in scores:
        mark = "*" if one["node"] == chosen else ""
        rows.append([mark, one["node"], str(one["total"]), *(str(one["plugins"][name]) for name in telling)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield f"  {'  '.join(cells)}".rstrip()
    alike = [f"{name} {scores[0]['plugins'][name]}" for name in names if name not in telling]
    if alike:
        yield f"  all nodes alike: {', '.join(alike)}"
