"""Preemption: which pods of lower priority to evict, so that a pod fits.

On nodes where it may help, all pods of lower priority are removed; if the pod then fits, as many as possible are put
back, the most important first, those that a disruption budget protects before the others. The best node violates no
budget, then has the least important victims, then the fewest, then the youngest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.scheduler.evaluation import STEP, Diagnosis, Evaluation, Nominated, Profile, Steps
from rewound.actors.scheduler.matching import selector_of
from rewound.actors.scheduler.nodes import Cluster, NodeState
from rewound.actors.scheduler.plugins import Failure
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.versions.features import DISRUPTION_CONDITIONS, PREEMPTED_ONLY, SORTED_VICTIMS

_NOT_HELPFUL: Final = Failure("", ("Preemption is not helpful for scheduling",), False)
_NO_VICTIMS: Final = Failure("", ("No preemption victims found for incoming pod",), False)


@dataclass(slots=True)
class Candidate:
    node: str
    victims: list[PodFacts]
    violations: int  # victims that a disruption budget protects


@dataclass(slots=True)
class Outcome:
    """The result. `nominate`: the new nominated node, "" for none, None to leave it unchanged."""

    message: str = ""
    nominate: str | None = None
    victims: list[PodFacts] = field(default_factory=list)


class Preemption:
    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        now: Callable[[], int],
        budgets: Callable[[], Iterable[Object]],
        features: frozenset[str],
    ) -> None:
        self._sorts_victims = SORTED_VICTIMS in features
        self._cluster, self._random, self._now, self._budgets = cluster, random, now, budgets

    def attempt(
        self,
        profile: Profile,
        pod: PodFacts,
        evaluation: Evaluation | None,
        diagnosis: Diagnosis,
        nominated: Nominated,
    ) -> Steps[Outcome]:
        refusal = self._ineligible(pod, diagnosis)
        if refusal:
            return Outcome(f"preemption: {refusal}")
        failures: dict[str, Failure] = {}
        candidates = yield from self._candidates(profile, pod, evaluation, diagnosis, nominated, failures)
        if not candidates:
            return Outcome(f"preemption: {Diagnosis(len(failures), failures).reasons()}", "")
        best = self._best(candidates)
        return Outcome("", best.node, best.victims)

    def _ineligible(self, pod: PodFacts, diagnosis: Diagnosis) -> str:
        if pod.spec.get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        name = pod.pod.get("status", {}).get("nominatedNodeName", "")
        node, failure = self._cluster.nodes.get(name), diagnosis.failures.get(name)
        if node is None or (failure is not None and not failure.resolvable):
            return ""
        if any(other.priority < pod.priority and self._makes_room(other) for other in node.pods.values()):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _makes_room(self, pod: PodFacts) -> bool:
        """Whether a pod terminates because another one needs its place."""
        if not pod.terminating or not {PREEMPTED_ONLY, DISRUPTION_CONDITIONS} <= self._cluster.features:
            return pod.terminating
        conditions = pod.pod.get("status", {}).get("conditions") or ()
        found: Object = next((one for one in conditions if one["type"] == "DisruptionTarget"), {})
        return (found.get("status"), found.get("reason")) == ("True", "PreemptionByScheduler")

    def _candidates(
        self,
        profile: Profile,
        pod: PodFacts,
        evaluation: Evaluation | None,
        diagnosis: Diagnosis,
        nominated: Nominated,
        failures: dict[str, Failure],
    ) -> Steps[list[Candidate]]:
        promising = []
        for node in self._cluster.order:
            failure = diagnosis.failures.get(node.name)
            is_unnamed = failure is None and diagnosis.unnamed is not None
            if evaluation is None or is_unnamed or (failure is not None and not failure.resolvable):
                failures[node.name] = _NOT_HELPFUL
            else:
                promising.append(node)
        if evaluation is None or not promising:
            return []
        if not self._cluster.has_lower(pod.priority):
            failures.update((node.name, _NO_VICTIMS) for node in promising)
            return []
        enough = max(len(promising) * profile.least_candidates_percent // 100, profile.least_candidates)
        offset = self._random.randrange(len(promising))
        budgets = yield from self._budgets_by_namespace()
        peaceful: list[Candidate] = []
        violating: list[Candidate] = []
        for node in (*promising[offset:], *promising[:offset]):
            if self._cluster.nodes.get(node.name) is not node:
                continue  # it was removed between two steps
            found = yield from self._select(pod, node, evaluation, nominated, budgets)
            if isinstance(found, Failure):
                failures[node.name] = found
                continue
            (violating if found.violations else peaceful).append(found)
            if peaceful and len(peaceful) + len(violating) >= enough:
                break
        return peaceful + violating

    def _budgets_by_namespace(self) -> Steps[dict[str, list[_Budget]]]:
        found: dict[str, list[_Budget]] = {}
        for number, one in enumerate(tuple(self._budgets()), 1):
            budget = _Budget(one)
            found.setdefault(budget.namespace, []).append(budget)
            if number % STEP == 0:
                yield
        return found

    def _select(
        self,
        pod: PodFacts,
        node: NodeState,
        evaluation: Evaluation,
        nominated: Nominated,
        budgets: Mapping[str, Sequence[_Budget]],
    ) -> Steps[Candidate | Failure]:
        """The victims on one node; each step tries a copy of it."""
        lower = [other for other in node.pods.values() if other.priority < pod.priority]
        if not lower:
            return _NO_VICTIMS
        tried, to_come = node.copy(), nominated(node.name)
        yield from evaluation.look_up(tried)
        for other in lower:
            tried.remove(other.uid)
        failure = evaluation.check_with(tried, to_come)
        yield
        if failure is not None:
            return failure
        lower.sort(key=self._importance)
        protected, others = _by_budgets(lower, budgets)
        victims: list[PodFacts] = []
        violations = 0
        for other in (*protected, *others):
            tried.add(other)
            if evaluation.check_with(tried, to_come) is not None:
                tried.remove(other.uid)
                victims.append(other)
                violations += other in protected
            yield
        if not victims:
            return Failure("", (f'expected at least one victim pod on node "{node.name}"',))
        if self._sorts_victims and protected and others:
            victims.sort(key=self._importance)
        return Candidate(node.name, victims, violations)

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        """By one criterion after the other; the last is the latest start of the most important victim."""
        return min(
            candidates,
            key=lambda one: (
                one.violations,
                one.victims[0].priority,
                sum(victim.priority + 2**31 for victim in one.victims),
                len(one.victims),
                -self._earliest(one.victims),
            ),
        )

    def _earliest(self, victims: Sequence[PodFacts]) -> int:
        highest = max(one.priority for one in victims)
        return min(self._started(one) for one in victims if one.priority == highest)

    def _importance(self, pod: PodFacts) -> tuple[int, int]:
        """The most important pods first."""
        return -pod.priority, self._started(pod)

    def _started(self, pod: PodFacts) -> int:
        started = pod.pod.get("status", {}).get("startTime")
        return self._now() if started is None else micros_of(started)


class _Budget:
    def __init__(self, budget: Object) -> None:
        status = budget.get("status", {})
        self.namespace: str = budget["metadata"]["namespace"]
        self.selector = selector_of(budget["spec"].get("selector"))
        self.allowed: int = status.get("disruptionsAllowed", 0)
        self.disrupted: Collection[str] = status.get("disruptedPods", {})

    def protects(self, pod: PodFacts) -> bool:
        if pod.name in self.disrupted:
            return False
        return not self.selector.is_empty and self.selector.matches(pod.labels)


def _by_budgets(
    pods: Sequence[PodFacts], budgets: Mapping[str, Sequence[_Budget]]
) -> tuple[list[PodFacts], list[PodFacts]]:
    """Pods whose eviction would violate a budget, and the others; budgets are by namespace."""
    left: dict[_Budget, int] = {}
    protected: list[PodFacts] = []
    others: list[PodFacts] = []
    for pod in pods:
        breaks = False
        for budget in budgets.get(pod.namespace, ()):
            if pod.labels and budget.protects(pod):
                left[budget] = left.get(budget, budget.allowed) - 1
                breaks = breaks or left[budget] < 0
        (protected if breaks else others).append(pod)
    return protected, others
