"""PodTopologySpread: spreads similar pods evenly over zones, hosts or any other topology.

Pods without their own constraints get those of the profile, over the pods that their services and their controller
select: hosts and zones, as a preference, unless the configuration says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rewound.actors.messages import Object
from rewound.actors.scheduler.matching import NOTHING, Selector, equality_selector, selector_of
from rewound.actors.scheduler.nodes import NodeState
from rewound.actors.scheduler.plugins import (
    MAX_SCORE,
    NODE_ADD,
    NODE_LABELS,
    POD_ADD,
    POD_DELETE,
    POD_UPDATE,
    Failure,
    Filter,
    Plugin,
    Prepared,
    SchedulingContext,
    Score,
)
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.scheduler.tally import Part, Tally
from rewound.actors.scheduler.volume_objects import Objects
from rewound.actors.selectors.nodes import NO_EXECUTE, NO_SCHEDULE, untolerated
from rewound.actors.versions.features import EMPTY_SPREAD, MIN_DOMAINS, SPREAD_INCLUSION, SPREAD_LABEL_KEYS

NAME: Final = "PodTopologySpread"
_UNEVEN_REASON: Final = "node(s) didn't match pod topology spread constraints"
_UNEVEN: Final = Failure(NAME, (_UNEVEN_REASON,))
_NO_LABEL: Final = Failure(NAME, (f"{_UNEVEN_REASON} (missing required label)",), False)
_NO_DOMAIN: Final = 2**31 - 1  # the minimum number of pods if no node has the topology
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SpreadKey = tuple[int | str | None, ...]
# The controllers whose pods are spread by default: only the first has a selector of labels alone.
CONTROLLER_TYPES: Final = (
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
)
Owners = Mapping[tuple[str, str], Objects]  # by apiVersion and kind


class Constraint(NamedTuple):
    max_skew: int
    topology_key: str
    selector: Selector  # the pods that count
    counts_itself: bool  # whether the pod would count too
    min_domains: int = 1
    honors_affinity: bool = True  # only nodes count that the pod's node affinity selects
    honors_taints: bool = False  # only nodes count whose taints the pod tolerates


def constraints_of(
    sent: Sequence[Object], action: str, selector: Selector, pod: PodFacts
) -> list[Constraint]:
    """The constraints of a profile with this whenUnsatisfiable action, over the pods that this selector selects."""
    return [
        Constraint(one["maxSkew"], one["topologyKey"], selector, selector.matches(pod.labels))
        for one in sent
        if one["whenUnsatisfiable"] == action
    ]


def own_constraints(pod: PodFacts, action: str, features: frozenset[str]) -> list[Constraint]:
    found = []
    for one in pod.spec["topologySpreadConstraints"]:
        if one["whenUnsatisfiable"] != action:
            continue
        selector = selector_of(one.get("labelSelector"))
        if SPREAD_LABEL_KEYS in features:
            same = {key: pod.labels[key] for key in one.get("matchLabelKeys", ()) if key in pod.labels}
            selector = equality_selector(same).merged_with(selector)
        itself = selector.matches(pod.labels)
        if selector.is_empty and EMPTY_SPREAD in features:
            selector = NOTHING
        constraint = Constraint(one["maxSkew"], one["topologyKey"], selector, itself)
        if MIN_DOMAINS in features:
            constraint = constraint._replace(min_domains=one.get("minDomains", 1))
        if SPREAD_INCLUSION in features:
            constraint = constraint._replace(
                honors_affinity=one.get("nodeAffinityPolicy", "Honor") == "Honor",
                honors_taints=one.get("nodeTaintsPolicy", "Ignore") == "Honor",
            )
        found.append(constraint)
    return found


def count(node: NodeState, namespace: str, selector: Selector) -> int:
    """Selected pods of the namespace on the node that are not terminating."""
    return sum(
        pod.namespace == namespace and not pod.terminating and selector.matches(pod.labels)
        for pod in node.pods.values()
    )


def default_selector(pod: PodFacts, services: Iterable[Object], owners: Owners) -> Selector:
    """The pods that the services of a pod's namespace and its controller select.

    `owners` finds objects of these types by namespace and name.
    """
    labels: dict[str, str] = {}
    for service in services:
        wanted = service["spec"].get("selector")
        if wanted and equality_selector(wanted).matches(pod.labels):
            labels |= wanted
    references = pod.pod["metadata"].get("ownerReferences") or ()
    owner: Object = next((one for one in references if one.get("controller")), {})
    kind = owner.get("apiVersion", ""), owner.get("kind", "")
    found = owners[kind].get(pod.namespace, owner["name"]) if kind in owners else None
    if found is None:
        return equality_selector(labels)
    selector = found["spec"].get("selector") or {}
    if kind == CONTROLLER_TYPES[0]:
        return equality_selector(labels | selector)
    return equality_selector(labels).merged_with(selector_of(selector))


class _Counted:
    """What a node adds to the sums of its topologies."""

    def __init__(self, pod: PodFacts, constraints: Sequence[Constraint], *, needs_all: bool) -> None:
        self._namespace, self._constraints, self._needs_all = pod.namespace, constraints, needs_all
        self._required = pod.node_requirement
        self._tolerations = pod.spec.get("tolerations", ())
        self._keys = [one.topology_key for one in constraints]

    def __call__(self, node: NodeState) -> Part:
        labels = node.labels
        if self._needs_all and not all(key in labels for key in self._keys):
            return {}
        is_wanted = self._required.matches(node.name, labels)
        part: Part = {}
        counts: dict[Selector, int] = {}
        for one in self._constraints:
            if one.topology_key not in labels or not (is_wanted or not one.honors_affinity):
                continue
            if one.honors_taints and untolerated(node.taints, self._tolerations, (NO_SCHEDULE, NO_EXECUTE)):
                continue
            if one.selector not in counts:
                counts[one.selector] = count(node, self._namespace, one.selector)
            part[one.topology_key, labels[one.topology_key]] = counts[one.selector]
        return part


class _SpreadFilter(Filter):
    of_node_only = False

    def __init__(self, pod: PodFacts, constraints: Sequence[Constraint], tally: Tally) -> None:
        self._pod, self._constraints, self._tally = pod, constraints, tally
        self._least: dict[str, int] | None = None

    def check(self, node: NodeState) -> Failure | None:
        least = self._least
        if least is None:
            least = self._least = self._smallest()
        for one in self._constraints:
            value = node.labels.get(one.topology_key)
            if value is None:
                return _NO_LABEL
            there = self._tally.sums.get((one.topology_key, value), 0)
            if there + one.counts_itself - least[one.topology_key] > one.max_skew:
                return _UNEVEN
        return None

    def assuming(self, node: NodeState) -> Filter:
        return _SpreadFilter(self._pod, self._constraints, self._tally.assuming(node))

    def refresh(self, names: Collection[str]) -> None:
        self._tally.refresh(names)
        self._least = None

    def _smallest(self) -> dict[str, int]:
        least = {one.topology_key: _NO_DOMAIN for one in self._constraints}
        domains = dict.fromkeys(least, 0)
        for (key, _), number in self._tally.sums.items():
            domains[key] += 1
            if number < least[key]:
                least[key] = number
        for one in self._constraints:
            if domains[one.topology_key] < one.min_domains:
                least[one.topology_key] = 0
        return least


class _SpreadScore(Score):
    """The fewer pods the topologies of a node have, the better; large topologies weigh more.

    The key of a node has for each constraint the number of its own pods, if the topology is the host, otherwise the
    value of its topology. None stands for a topology that the node lacks; an ignored node has the key None.
    """

    def __init__(
        self,
        pod: PodFacts,
        constraints: Sequence[Constraint],
        tally: Tally | None,
        hostname: str,
        *,
        needs_all: bool,
    ) -> None:
        self._namespace, self._constraints, self._tally = pod.namespace, constraints, tally
        self._hostname, self._needs_all = hostname, needs_all

    def key(self, node: NodeState) -> SpreadKey | None:
        labels = node.labels
        if self._needs_all and not all(one.topology_key in labels for one in self._constraints):
            return None
        return tuple(
            count(node, self._namespace, one.selector)
            if one.topology_key == self._hostname and one.topology_key in labels
            else labels.get(one.topology_key)
            for one in self._constraints
        )

    def scores(self, keys: Mapping[SpreadKey | None, int]) -> Mapping[SpreadKey | None, int]:
        distinct = [key for key in keys if key is not None]
        counted = sum(keys.values()) - keys.get(None, 0)
        weights = []
        for at, one in enumerate(self._constraints):
            size = counted if one.topology_key == self._hostname else len({key[at] for key in distinct})
            weights.append(math.log(size + 2))
        raw = {key: self._raw(key, weights) for key in distinct}
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        found: dict[SpreadKey | None, int] = {None: 0}
        for key, value in raw.items():
            found[key] = MAX_SCORE * (most + least - value) // most if most else MAX_SCORE
        return found

    def _raw(self, key: SpreadKey, weights: Sequence[float]) -> int:
        score = 0.0
        for one, value, weight in zip(self._constraints, key, weights, strict=True):
            if value is None:
                continue
            number = value if isinstance(value, int) else self._there(one.topology_key, value)
            score += number * weight + (one.max_skew - 1)
        return math.floor(score + 0.5)

    def _there(self, key: str, value: str) -> int:
        return 0 if self._tally is None else self._tally.sums.get((key, value), 0)

    def refresh(self, names: Collection[str]) -> None:
        if self._tally is not None:
            self._tally.refresh(names)


class _Even(Score):
    """Without constraints all nodes are equally good."""

    def key(self, node: NodeState) -> None:
        return None

    def scores(self, keys: Mapping[None, int]) -> Mapping[None, int]:
        return {None: MAX_SCORE}


class PodTopologySpread(Plugin):
    name, filters, scores = NAME, True, True
    wakes = frozenset([POD_ADD, POD_UPDATE, POD_DELETE, NODE_ADD, NODE_LABELS])

    def __init__(self, defaults: Sequence[Object] | None = None) -> None:
        """`defaults`: for pods without constraints; None: those of the system."""
        self._defaults = defaults

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        hard, soft, needs_all = self._constraints(pod, around)
        cluster = around.cluster
        prepared = Prepared(score=_Even())
        if hard:
            counted = _Counted(pod, hard, needs_all=True)
            prepared.filter = _SpreadFilter(pod, hard, Tally(cluster, counted))
        if soft:
            wide = [one for one in soft if one.topology_key != cluster.hostname_key]
            # All keys decide whether a node counts, those of hosts too.
            part = _Counted(pod, soft if needs_all else wide, needs_all=needs_all)
            tally = Tally(cluster, part) if wide else None
            prepared.score = _SpreadScore(pod, soft, tally, cluster.hostname_key, needs_all=needs_all)
        return prepared

    def _constraints(
        self, pod: PodFacts, around: SchedulingContext
    ) -> tuple[list[Constraint], list[Constraint], bool]:
        own = pod.spec.get("topologySpreadConstraints")
        if own:
            features = around.cluster.features
            return own_constraints(pod, HARD, features), own_constraints(pod, SOFT, features), True
        selector = around.default_selector
        if selector.is_empty:
            return [], [], True
        if self._defaults is not None:
            hard = constraints_of(self._defaults, HARD, selector, pod)
            return hard, constraints_of(self._defaults, SOFT, selector, pod), True
        cluster = around.cluster
        keys = (3, cluster.hostname_key), (5, cluster.zone_key)
        soft = [Constraint(*one, selector, selector.matches(pod.labels)) for one in keys]
        return [], soft, False
