"""Whether a simulated node runs a pod that is bound to it, as a kubelet decides once, before the pod starts.

Somebody may bind a pod without asking a scheduler, or the node may have changed since: a pod that does not fit fails
with the reason. A critical pod that lacks only resources preempts others instead. The checks are the scheduler's own
(`NodeState`); reasons and texts are those of the kubelet's version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rewound.actors.kinds.core.pod import qos_class
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps
from rewound.actors.scheduler.nodes import NodeState, insufficient
from rewound.actors.scheduler.pods import CPU, MEMORY, PODS, Amounts, PodFacts, Shapes
from rewound.actors.selectors.nodes import NO_EXECUTE, untolerated
from rewound.actors.versions.features import REASONS_OF_PREDICATES

CRITICAL_PRIORITY: Final = 2_000_000_000  # of the classes system-cluster-critical and system-node-critical
_OPERATING_SYSTEM: Final = "linux"
_QUALITIES: Final = ("BestEffort", "Burstable", "Guaranteed")  # in the order in which they are preempted


class Rejection(NamedTuple):
    reason: str
    message: str


class Admission(NamedTuple):
    """The verdict about a pod: it runs if there is no rejection, and once these pods are preempted."""

    rejection: Rejection | None = None
    preempted: Sequence[Object] = ()


class _Shortage(NamedTuple):
    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def rejection(self) -> Rejection:
        amounts = f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        message = f"Node didn't have enough resource: {self.resource}, {amounts}"
        return Rejection(f"OutOf{self.resource}", message)

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)


class PodAdmission:
    """Admits pods to nodes. It keeps the sums of what runs on each node where it has admitted a pod."""

    def __init__(
        self, names: Names, features: frozenset[str], running: Callable[[str], Iterable[Object]]
    ) -> None:
        """`running` returns the pods that run on a node."""
        self._shapes = Shapes(names, features)
        self._features = features
        self._running = running
        self._states: dict[str, NodeState] = {}
        self._os_label = names.key("os")
        self._mirror = names.key("config.mirror")

    def facts(self, pod: Object) -> Steps[PodFacts]:
        """What decides about a pod, which may have thousands of terms."""
        facts = self._shapes.facts(pod)
        yield from facts.compile_terms()
        return facts

    def admit(self, pod: PodFacts, node: Object) -> Admission:
        """The verdict about a pod; if it runs, it counts from now on."""
        state = self._state(node)
        if pod.uid in state.pods:
            return Admission()  # its status could not be written
        verdict = self._verdict(pod, state)
        if verdict.rejection is None:
            state.add(pod)
        return verdict

    def resize_problem(self, pod: Object, node: Object) -> Rejection | None:
        """Why a pod on a node cannot have the resources that its spec asks for by now: Infeasible, or Deferred."""
        counted = self._state(node)
        state, facts = counted.copy(), self._shapes.facts(pod)
        for name in (MEMORY, CPU):
            requested, capacity = facts.shape.requests.get(name, 0), state.allocatable.get(name, 0)
            if requested > capacity:
                amounts = f"{name}, requested: {requested}, capacity: {capacity}"
                return Rejection("Infeasible", f"Node didn't have enough capacity: {amounts}")
        if facts.uid in state.pods:
            state.remove(facts.uid)
        shortages = [one for one in self._shortages(facts, state) if one.resource != PODS]
        if shortages:
            return Rejection("Deferred", shortages[0].rejection.message)
        self.pod_ended(pod)
        counted.add(facts)
        return None

    def pod_changed(self, pod: Object) -> None:
        """Keep the newest version of a pod that counts. Its requests change only with `resize_problem`."""
        state = self._states.get(pod["spec"].get("nodeName", ""))
        if state is not None and (known := state.pods.get(pod["metadata"]["uid"])) is not None:
            known.pod = pod

    def pod_ended(self, pod: Object) -> None:
        """A pod has finished, or was removed."""
        state = self._states.get(pod["spec"].get("nodeName", ""))
        if state is not None and pod["metadata"]["uid"] in state.pods:
            state.remove(pod["metadata"]["uid"])

    def forget(self, node: str | None = None) -> None:
        """Forget a node, or all."""
        if node is None:
            self._states.clear()
        else:
            self._states.pop(node, None)

    def _state(self, node: Object) -> NodeState:
        name: str = node["metadata"]["name"]
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = NodeState(node, self._shapes)
            for pod in self._running(name):
                state.add(self._shapes.facts(pod))
        elif state.node is not node:
            state.set_node(node, self._shapes)
        return state

    def _verdict(self, facts: PodFacts, state: NodeState) -> Admission:
        pod = facts.pod
        if self._mirror in (pod["metadata"].get("annotations") or {}):
            return Admission()  # of a static pod: it runs already
        if (rejection := self._wrong_system(pod)) is not None:
            return Admission(rejection)
        shortages = self._shortages(facts, state)
        misfits = [self._misfit(name, reason) for name, reason in _misfits(facts, state)]
        if not is_critical(pod):
            rejections = [*(one.rejection for one in shortages), *misfits]
            return Admission(rejections[0]) if rejections else Admission()
        if misfits or not shortages:
            return Admission(misfits[0]) if misfits else Admission()
        return _preemption(facts, state, {one.resource: one.missing for one in shortages})

    def _wrong_system(self, pod: Object) -> Rejection | None:
        wanted = (pod["metadata"].get("labels") or {}).get(self._os_label, _OPERATING_SYSTEM)
        if wanted != _OPERATING_SYSTEM:
            message = f"Failed to admit pod as the `{self._os_label}` label doesn't match node label"
            return Rejection("PodOSSelectorNodeLabelDoesNotMatch", message)
        if (pod["spec"].get("os") or {}).get("name", _OPERATING_SYSTEM) != _OPERATING_SYSTEM:
            return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
        return None

    def _shortages(self, pod: PodFacts, state: NodeState) -> list[_Shortage]:
        requests, offered = pod.shape.requests, state.allocatable
        # Resources of the cluster are unknown to nodes, and a claim may provide some.
        claim = pod.pod.get("status", {}).get("extendedResourceClaimStatus", {})
        elsewhere = {one["resourceName"] for one in claim.get("requestMappings", ())}
        elsewhere |= {name for name in requests if self._shapes.is_extended(name) and name not in offered}
        found = []
        for name in insufficient(requests, state, self._features, elsewhere):
            if name == PODS:
                found.append(_Shortage(name, 1, len(state.pods), state.pod_limit))
            else:
                used, capacity = state.requested.get(name, 0), offered.get(name, 0)
                found.append(_Shortage(name, requests.get(name, 0), used, capacity))
        return found

    def _misfit(self, name: str, reason: str) -> Rejection:
        says_why = REASONS_OF_PREDICATES in self._features
        return Rejection(
            name, f"Predicate {name} failed: {reason}" if says_why else f"Predicate {name} failed"
        )


def is_critical(pod: Object) -> bool:
    return bool(pod["spec"].get("priority", 0) >= CRITICAL_PRIORITY)


def _misfits(pod: PodFacts, state: NodeState) -> Iterator[tuple[str, str]]:
    """The predicates that fail, apart from resources."""
    if not pod.node_requirement.matches(state.name, state.labels):
        yield "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
    if any(state.has_conflict(port) for port in pod.shape.ports):
        yield "NodePorts", "node(s) didn't have free ports for the requested pod ports"
    if untolerated(state.taints, pod.spec.get("tolerations") or (), (NO_EXECUTE,)) is not None:
        yield "TaintToleration", "node(s) had taints that the pod didn't tolerate"


def _preemption(pod: PodFacts, state: NodeState, missing: Amounts) -> Admission:
    """Choose the pods to preempt: as few as possible, BestEffort ones before Burstable before Guaranteed ones."""
    preemptable = [one for one in state.pods.values() if _may_preempt(pod, one)]
    groups = {name: [one for one in preemptable if qos_class(one.spec) == name] for name in _QUALITIES}
    if left := _without(missing, preemptable):
        listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in left.items())
        problem = f"no set of running pods found to reclaim resources: [{listed}]"
        reason = f"preemption: error finding a set of pods to preempt: {problem}"
        text = f"Unexpected error while attempting to recover from admission failure: {reason}"
        return Admission(Rejection("UnexpectedAdmissionError", text))
    best_effort, burstable, guaranteed = groups.values()
    last = _closest(guaranteed, _without(missing, [*best_effort, *burstable]))
    middle = _closest(burstable, _without(missing, [*best_effort, *last]))
    first = _closest(best_effort, _without(missing, [*middle, *last]))
    return Admission(preempted=[one.pod for one in (*first, *middle, *last)])


def _may_preempt(pod: PodFacts, other: PodFacts) -> bool:
    return not is_critical(other.pod) or pod.priority > other.priority


def _request(pod: PodFacts, resource: str) -> int:
    return 1 if resource == PODS else pod.shape.requests.get(resource, 0)


def _without(missing: Amounts, pods: Sequence[PodFacts]) -> Amounts:
    """What is still missing when these pods are gone."""
    left = {name: amount - sum(_request(one, name) for one in pods) for name, amount in missing.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _closest(pods: Sequence[PodFacts], missing: Amounts) -> list[PodFacts]:
    """Take pods that free most of what is missing, and of equal ones the smallest, until nothing is missing."""
    chosen: list[PodFacts] = []
    while missing:
        left = [one for one in pods if one not in chosen]
        chosen.append(min(left, key=lambda one: (_distance(one, missing), _size(one))))
        missing = _without(missing, chosen[-1:])
    return chosen


def _distance(pod: PodFacts, missing: Amounts) -> float:
    return sum(
        (max(amount - _request(pod, name), 0) / amount) ** 2 for name, amount in missing.items() if amount
    )


def _size(pod: PodFacts) -> tuple[int, int]:
    return _request(pod, MEMORY), _request(pod, CPU)
