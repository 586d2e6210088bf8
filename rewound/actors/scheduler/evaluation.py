"""Finds the feasible nodes of a pod and the best of them, as v1.25 does.

Pods that no plugin can distinguish share an `Evaluation`: equal specs, labels, namespace, services and controller. It
remembers for every node whether it is feasible and what its score depends on, and checks only nodes again that have
changed: of ten thousand equal pods each one after the first costs one node, not five thousand.

Nodes are tried from where the last pod ended, until enough are feasible; with a hundred nodes or more that is not all.

Work over many nodes is done in `Steps`, between which other tasks may run and change the cluster. Nodes that change
meanwhile are checked again (`refresh`); if the set of nodes changes, the decision starts over (`Outdated`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from rewound.actors.kinds.core.declared_features import needed_to_start
from rewound.actors.messages import Object
from rewound.actors.scheduler.dynamic_resources import DeviceFilter, uses_devices
from rewound.actors.scheduler.nodes import Cluster, NodeState
from rewound.actors.scheduler.plugins import (
    Failure,
    Filter,
    Plugin,
    Refusal,
    SchedulingContext,
    SchedulingError,
    Score,
)
from rewound.actors.scheduler.pods import FEW_TERMS, PodFacts, text_of
from rewound.actors.scheduler.volumes import BindingFilter, claim_names
from rewound.actors.versions.features import (
    MISSING_NODES_IGNORED,
    REFUSAL_OF_ALL_NODES,
    UNNAMED_NODES_COUNTED,
)

_FEWEST_NODES: Final = 100  # up to this many, all are tried
_LOWEST_PERCENTAGE: Final = 5
_MOST_KEYS: Final = 20_000  # of one evaluation, including former states of nodes
MANY_TOLERATIONS: Final = 64  # a DaemonSet's pods have some ten
STEP: Final = 64  # nodes: a fraction of a turn on the event loop
_REMEMBERED: Final = 64  # evaluations: some megabytes with thousands of nodes

T = TypeVar("T")
Steps = Generator[
    None, None, T
]  # long work, each step a fraction of a turn on the event loop; then its result
Key = tuple[Hashable, ...]  # what the score of a node depends on, by plugin
# Pods of at least this pod's priority that are nominated to a node.
Nominated = Callable[[str], Sequence[PodFacts]]


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of one scheduler name."""

    name: str
    filters: tuple[Plugin, ...]
    scores: tuple[tuple[Plugin, int], ...]  # with their weights
    preempts: bool = True
    least_candidates_percent: int = 10
    least_candidates: int = 100
    bind_timeout: float = 600.0  # seconds for volumes to be bound

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        scored = (plugin for plugin, _ in self.scores if plugin not in self.filters)
        return (*self.filters, *scored)


class Unnamed(NamedTuple):
    """The nodes that were not tried, because plugins name others."""

    number: int
    plugins: Sequence[str]  # none before UNNAMED_NODES_COUNTED


@dataclass(slots=True)
class Diagnosis:
    """Why no node is feasible."""

    nodes: int
    failures: dict[str, Failure] = field(default_factory=dict)
    after: str = ""  # the message of preemption
    refusal: str = ""  # why no node is feasible, if that does not depend on the node
    unnamed: Unnamed | None = None

    @property
    def plugins(self) -> frozenset[str]:
        found = frozenset(one.plugin for one in self.failures.values())
        return found if self.unnamed is None else found.union(self.unnamed.plugins)

    def message(self) -> str:
        text = self.reasons()
        return f"{text} {self.after}" if self.after else text

    def reasons(self) -> str:
        if self.refusal:
            return f"0/{self.nodes} nodes are available: {self.refusal}."
        found: dict[str, int] = {}
        for failure in self.failures.values():
            for reason in failure.reasons:
                found[reason] = found.get(reason, 0) + 1
        if self.unnamed is not None and self.unnamed.plugins and self.unnamed.number:
            found[f"node(s) didn't satisfy plugin(s) [{' '.join(self.unnamed.plugins)}]"] = (
                self.unnamed.number
            )
        counted = sorted(f"{number} {reason}" for reason, number in found.items())
        reasons = f" {', '.join(counted)}." if counted else ""
        return f"0/{self.nodes} nodes are available:{reasons}"


class Unschedulable(Exception):
    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.message())
        self.diagnosis = diagnosis


class Outdated(Exception):
    """Between two steps something changed that concerns all nodes."""


def finished(steps: Steps[T], between: Callable[[], object] = lambda: None) -> T:
    """Run all steps at once, outside an event loop; returns their result. `between` is called after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        between()


class TooCostly(Exception):
    """The decision about a pod takes too much processor time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"finding a node for the pod takes the scheduler more than {seconds:g} seconds of processor time: create "
            "it with fewer containers, affinity terms, topology spread constraints, volumes and resource claims, and "
            "with simpler selectors in these claims"
        )


class NoNodes(Exception):
    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


class _Unknown:
    """Placeholder for a failure that has not been computed yet."""


_UNKNOWN: Final = _Unknown()
_ERROR: Final = Failure("", ())  # placeholder for a SchedulingError


def _no_pods(_: str) -> Sequence[PodFacts]:
    return ()


def _nominated_node(pod: PodFacts) -> str:
    name: str = pod.pod.get("status", {}).get("nominatedNodeName", "")
    return name


class Evaluation:
    def __init__(self, profile: Profile, pod: PodFacts, around: SchedulingContext) -> None:
        """Raises Refusal if no node is feasible."""
        self.pod = pod
        self._cluster = around.cluster
        self.names: frozenset[str] | None = None  # the only nodes to try
        self.named_by: list[str] = []  # the plugins that say so
        self.filters: list[tuple[int, Filter]] = []
        self.scores: list[tuple[Plugin, int, Score | None]] = []
        self._prepare(profile, around)
        self._fixed = [(at, one) for at, one in self.filters if one.of_node_only]
        self._moving = [(at, one) for at, one in self.filters if not one.of_node_only]
        self._slow = [(at, one) for at, one in self.filters if one.takes_steps]
        made = [one for _, _, one in self.scores if one is not None]
        self._weights = [weight for _, weight, one in self.scores if one is not None]
        self._scores = made
        self._moving_scores = [at for at, one in enumerate(made) if not one.of_node_only]
        self._layout, self._seen = self._cluster.layout, len(self._cluster.changes)
        self._changed: dict[str, None] = {}  # nodes that must be checked again
        # The claims of a pod may be compared with thousands of volumes or devices at each node, and its terms, or those
        # of other pods, with all pods there.
        has_claims = bool(claim_names(pod)) or self.devices() is not None
        has_terms = pod.shape.has_many_terms or _has_many_node_terms(pod.spec)
        is_slow = has_claims or has_terms or bool(self._cluster.pods_with_many_terms)
        self._stride = 1 if is_slow else STEP
        self._forget()
        self.steps = self._count()

    def _count(self) -> Iterator[None]:
        """Let filters and scores count all nodes, in parts; nodes that change meanwhile are counted again."""
        for _, one in self.filters:
            yield from one.steps()
        names = [node.name for node in self._cluster.order]
        for start in range(0, len(names), self._stride):
            self._refresh(names[start : start + self._stride])
            yield

    def complete(self) -> Evaluation:
        """Count the remaining nodes."""
        for _ in self.steps:
            pass
        return self

    def _prepare(self, profile: Profile, around: SchedulingContext) -> None:
        prepared = {}
        for at, plugin in enumerate(profile.filters):
            made = prepared[plugin.name] = plugin.prepare(self.pod, around)
            if made.filter is not None:
                self.filters.append((at, made.filter))
            if made.names is not None:
                self.named_by.append(plugin.name)
                self.names = made.names if self.names is None else self.names & made.names
        for plugin, weight in profile.scores:
            if plugin.name not in prepared:
                prepared[plugin.name] = plugin.prepare(self.pod, around)
            score = prepared[plugin.name].score
            if score is not None or plugin.of_every_pod:
                self.scores.append((plugin, weight, score))
        if self.names is not None and not self.names:
            raise Refusal(Failure("", (f"node(s) didn't satisfy plugin {self.named_by[0]}",)))

    def _forget(self) -> None:
        order = self._cluster.order
        self._at = {node.name: at for at, node in enumerate(order)}
        self._failures: list[tuple[int, Failure] | _Unknown | None] = [_UNKNOWN] * len(order)
        self._forget_keys()

    def _forget_keys(self) -> None:
        self._keys: list[int | None] = [None] * len(self._failures)
        self._numbers: dict[Key, int] = {}
        self._parts: list[Key] = []

    @property
    def nodes(self) -> Sequence[NodeState]:
        return self._cluster.order

    def is_current(self) -> bool:
        return self._layout == self._cluster.layout

    @property
    def has_seen_all(self) -> bool:
        """Whether no node has changed since it was checked."""
        return self._seen == len(self._cluster.changes) and not self._changed

    def refresh(self) -> Steps[None]:
        """Check the nodes again that have changed. Raises Outdated if the set of nodes has."""
        while True:
            self.check_current()
            changes = self._cluster.changes
            self._changed.update(dict.fromkeys(changes[self._seen :]))
            self._seen = len(changes)
            if not self._changed:
                return
            if len(self._parts) > _MOST_KEYS:
                self._forget_keys()
            names = [self._changed.popitem()[0] for _ in range(min(self._stride, len(self._changed)))]
            for name in names:
                at, node = self._at[name], self._cluster.nodes[name]
                if self._failures[at] is not _UNKNOWN:
                    yield from self.ahead(node)
                    self.check_current()
                    self._failures[at] = self._first_fixed(node)
                if self._keys[at] is not None:
                    self._key(node)
            self._refresh(names)
            yield

    def check_current(self) -> None:
        """Raise Outdated if the set of nodes has changed."""
        if not self.is_current():
            raise Outdated

    def _refresh(self, names: Collection[str]) -> None:
        for _, one in self._moving:
            one.refresh(names)
        for score in self._scores:
            score.refresh(names)

    def ahead(self, node: NodeState) -> Steps[None]:
        """Let filters work that have to before they check a node, unless one before them fails."""
        for at, one in self._slow:
            try:
                before = self._first([each for each in self._fixed if each[0] < at], node)
            except SchedulingError:
                return
            if before is not None:
                return
            yield from one.ahead(node)

    def look_up(self, node: NodeState) -> Steps[None]:
        """Let filters work that have to before they check a node with other pods than in the cluster."""
        for _, one in self._slow:
            yield from one.ahead(node)

    def fixed_failure(self, node: NodeState) -> tuple[int, Failure] | None:
        """The first failure that depends only on the node, and its position among the filters."""
        at = self._at[node.name]
        known = self._failures[at]
        if isinstance(known, _Unknown):
            known = self._failures[at] = self._first_fixed(node)
        return known

    def _first_fixed(self, node: NodeState) -> tuple[int, Failure] | None:
        """The same, computed. An error of a filter is none yet: an earlier filter may fail (`check`)."""
        for at, one in self._fixed:
            try:
                failure = one.check(node)
            except SchedulingError:
                return at, _ERROR
            if failure is not None:
                return at, failure
        return None

    def check(self, node: NodeState) -> Failure | None:
        """The first failure of a node in its current state. Raises SchedulingError if a filter before it does."""
        known = self.fixed_failure(node)
        for position, one in self._moving:
            if known is not None and position > known[0]:
                break
            failure = one.check(node)
            if failure is not None:
                return failure
        if known is not None and known[1] is _ERROR:
            self._first(self._fixed, node)  # raises it
        return None if known is None else known[1]

    def check_assumed(self, node: NodeState) -> Failure | None:
        """The first failure of a node with other pods than in the cluster."""
        found = self._first([(at, one.assuming(node)) for at, one in self.filters], node)
        return None if found is None else found[1]

    @staticmethod
    def _first(filters: Sequence[tuple[int, Filter]], node: NodeState) -> tuple[int, Failure] | None:
        for at, one in filters:
            failure = one.check(node)
            if failure is not None:
                return at, failure
        return None

    def check_with(self, node: NodeState, nominated: Sequence[PodFacts]) -> Failure | None:
        """Check with and without the nominated pods: some filters fail with them, others without."""
        if nominated:
            crowded = node.copy()
            for pod in nominated:
                crowded.add(pod)
            failure = self.check_assumed(crowded)
            if failure is not None:
                return failure
        is_known = self._cluster.nodes.get(node.name) is node
        return self.check(node) if is_known else self.check_assumed(node)

    def feasible(
        self,
        start: int,
        wanted: int,
        nodes: Sequence[NodeState],
        nominated: Nominated,
        failures: dict[str, Failure],
    ) -> Steps[list[NodeState]]:
        """Up to `wanted` feasible nodes, circularly from `start`; adds the failures of the others. Raises Outdated."""
        found: list[NodeState] = []
        for number, node in enumerate(_circular(nodes, start), 1):
            if self._slow:
                yield from self.ahead(node)
                self.check_current()
            failure = self.check_with(node, nominated(node.name))
            if failure is not None:
                failures[node.name] = failure
            else:
                found.append(node)
                if len(found) == wanted:
                    break
            if number % self._stride == 0:
                yield
                self.check_current()
        return found

    def known_feasible(self, start: int, wanted: int) -> Window | None:
        """The next nodes, if all are known to be feasible, as for nearly every pod of many equal ones."""
        window = Window(start, wanted, len(self._failures))
        known = window.of(self._failures)
        return None if self._moving or self._moving_scores or any(known) else window

    def keys(self, nodes: Sequence[NodeState]) -> Steps[list[int]]:
        """Numbers of what the scores of the nodes depend on: equal numbers for equal scores. Raises Outdated."""
        found = []
        for count, node in enumerate(nodes, 1):
            number = self._keys[self._at[node.name]]
            if number is None:
                number = self._key(node)
            if self._moving_scores:
                fresh = list(self._parts[number])
                for moving in self._moving_scores:
                    fresh[moving] = self._scores[moving].key(node)
                number = self._number(tuple(fresh))
            found.append(number)
            if count % self._stride == 0:
                yield
                self.check_current()
        return found

    def _key(self, node: NodeState) -> int:
        number = self._number(tuple(one.key(node) if one.of_node_only else None for one in self._scores))
        self._keys[self._at[node.name]] = number
        return number

    def _number(self, key: Key) -> int:
        """The number of a key: numbers are faster to compare and count than keys."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._parts)
            self._parts.append(key)
        return number

    def keys_in(self, window: Window) -> Steps[list[int]]:
        keys = window.of(self._keys)
        if None in keys:
            return (yield from self.keys(window.of(self._cluster.order)))
        return keys  # type: ignore[return-value]

    def best(self, keys: Sequence[int]) -> Collection[int]:
        """The keys with the highest weighted sum of scores."""
        counts = Counter(keys)
        if len(counts) == 1:
            return counts
        totals = dict.fromkeys(counts, 0)
        for at, (score, weight) in enumerate(zip(self._scores, self._weights, strict=True)):
            found = score.scores(self._column(counts, at))
            for key in totals:
                totals[key] += weight * found[self._parts[key][at]]
        most = max(totals.values())
        return {key for key, total in totals.items() if total == most}

    def _column(self, counts: Mapping[int, int], at: int) -> dict[Any, int]:
        """How many nodes have each part at this position of their keys."""
        found: dict[Any, int] = {}
        for key, count in counts.items():
            part = self._parts[key][at]
            found[part] = found.get(part, 0) + count
        return found

    def volumes(self) -> BindingFilter | None:
        return next((one for _, one in self.filters if isinstance(one, BindingFilter)), None)

    def devices(self) -> DeviceFilter | None:
        return next((one for _, one in self.filters if isinstance(one, DeviceFilter)), None)

    def explained(self, nodes: Sequence[NodeState]) -> Steps[dict[str, dict[str, int]]]:
        """The weighted score of each plugin for each of these feasible nodes. Raises Outdated."""
        keys = yield from self.keys(nodes)
        counts = Counter(keys)
        found: dict[str, dict[str, int]] = {node.name: {} for node in nodes}
        column = 0
        for plugin, weight, score in self.scores:
            if score is None:
                by_part: Mapping[Any, int] = {}
            else:
                by_part = score.scores(self._column(counts, column))
            for node, key in zip(nodes, keys, strict=True):
                value = 0 if score is None else weight * by_part[self._parts[key][column]]
                found[node.name][plugin.name] = value
            column += score is not None
            yield
            self.check_current()
        return found


class Window(NamedTuple):
    """A range of positions that continues at the first after the last."""

    start: int
    wanted: int
    size: int

    def of(self, items: list[T]) -> list[T]:
        end = self.start + self.wanted
        return items[self.start : end] + items[: max(end - self.size, 0)]


def _circular(nodes: Sequence[NodeState], start: int) -> Iterator[NodeState]:
    yield from nodes[start:]
    yield from nodes[:start]


def wanted_nodes(nodes: int, percentage: int) -> int:
    """How many feasible nodes are enough; a percentage of 0 depends on the number of nodes."""
    if nodes < _FEWEST_NODES or percentage >= 100:
        return nodes
    if percentage <= 0:
        percentage = max(50 - nodes // 125, _LOWEST_PERCENTAGE)
    return max(nodes * percentage // 100, _FEWEST_NODES)


class Evaluations:
    """Finds the node for one pod after another."""

    def __init__(self, cluster: Cluster, random: Random, percentage: int = 0) -> None:
        self._cluster, self._random, self._percentage = cluster, random, percentage
        self._start = 0
        self._remembered: OrderedDict[Hashable, Evaluation] = OrderedDict()

    def clear(self) -> None:
        """Forget everything, because something besides nodes and pods changed."""
        self._remembered.clear()

    def of(self, profile: Profile, pod: PodFacts, around: SchedulingContext) -> Steps[Evaluation]:
        """Raises Unschedulable if no node is feasible, NoNodes, or Outdated."""
        yield from pod.compile_terms()
        evaluation = self._find_or_create(profile, pod, around)
        for (
            _
        ) in evaluation.steps:  # not `yield from`: if this decision is abandoned, the next one continues here
            yield
            evaluation.check_current()
        yield from evaluation.refresh()
        return evaluation

    def _find_or_create(self, profile: Profile, pod: PodFacts, around: SchedulingContext) -> Evaluation:
        if not self._cluster.nodes:
            raise NoNodes
        key = _signature(profile, pod, around)
        found = self._remembered.get(key) if key is not None else None
        if found is not None and found.is_current():
            self._remembered.move_to_end(key)
            return found
        try:
            made = Evaluation(profile, pod, around)
        except Refusal as refusal:
            diagnosis = Diagnosis(
                len(self._cluster.nodes), dict.fromkeys(self._cluster.nodes, refusal.failure)
            )
            if REFUSAL_OF_ALL_NODES in self._cluster.features:
                diagnosis.refusal = str(refusal)
            raise Unschedulable(diagnosis) from None
        if key is not None:
            self._remembered[key] = made
            if len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return made

    def choose(
        self, evaluation: Evaluation, pod: PodFacts, nominated: Nominated | None = None
    ) -> Steps[NodeState]:
        """The best node. Raises Unschedulable, with the failure of each, or Outdated.

        `nominated`: the nominated pods to consider, if there are any.
        """
        if nominated is None and evaluation.names is None and not _nominated_node(pod):
            wanted = wanted_nodes(len(self._cluster.order), self._percentage)
            start = self._start % len(self._cluster.order)
            window = evaluation.known_feasible(start, wanted)
            if window is not None:
                self._start = start + wanted
                keys = yield from evaluation.keys_in(window)
                return self._best(evaluation, window.of(self._cluster.order), keys)
        diagnosis = Diagnosis(len(self._cluster.nodes))
        nodes = yield from self._feasible(evaluation, pod, nominated or _no_pods, diagnosis)
        if not nodes:
            raise Unschedulable(diagnosis)
        if len(nodes) == 1:
            return nodes[0]
        return self._best(evaluation, nodes, (yield from evaluation.keys(nodes)))

    def is_still_feasible(
        self, evaluation: Evaluation, node: NodeState, nominated: Nominated | None
    ) -> Steps[bool]:
        """Whether a chosen node is still feasible after changes of the cluster between the steps."""
        if not evaluation.is_current():
            return False
        if evaluation.has_seen_all:
            return True
        try:
            yield from evaluation.refresh()
        except Outdated:
            return False
        return evaluation.check_with(node, (nominated or _no_pods)(node.name)) is None

    def _best(self, evaluation: Evaluation, nodes: Sequence[NodeState], keys: Sequence[int]) -> NodeState:
        best = evaluation.best(keys)
        return self._random.choice([node for node, key in zip(nodes, keys, strict=True) if key in best])

    def _feasible(
        self, evaluation: Evaluation, pod: PodFacts, nominated: Nominated, diagnosis: Diagnosis
    ) -> Steps[list[NodeState]]:
        node = self._cluster.nodes.get(_nominated_node(pod))
        if node is not None:
            found = yield from evaluation.feasible(0, 1, [node], nominated, diagnosis.failures)
            if found:
                return found
        nodes = self._candidates(evaluation, diagnosis)
        if not nodes:
            return []
        wanted = wanted_nodes(len(nodes), self._percentage)
        start = self._start % len(nodes)
        found = yield from evaluation.feasible(start, wanted, nodes, nominated, diagnosis.failures)
        self._start = (start + len(found) + len(diagnosis.failures)) % len(nodes)
        return found

    def _candidates(self, evaluation: Evaluation, diagnosis: Diagnosis) -> list[NodeState]:
        names, nodes, features = evaluation.names, self._cluster.nodes, self._cluster.features
        if names is None:
            return self._cluster.order
        missing = [name for name in sorted(names) if name not in nodes]
        if missing and MISSING_NODES_IGNORED not in features:
            raise SchedulingError(f'nodeinfo not found for node name "{missing[0]}"')
        if MISSING_NODES_IGNORED in features:
            named_by = sorted(evaluation.named_by) if UNNAMED_NODES_COUNTED in features else []
            diagnosis.unnamed = Unnamed(sum(name not in names for name in nodes), named_by)
        return [nodes[name] for name in sorted(names) if name in nodes]


def _has_many_node_terms(spec: Object) -> bool:
    """Whether comparing a pod with one node may take as long as a step, besides its pod affinity."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    lists = (
        required.get("nodeSelectorTerms", ()),
        affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ()),
        spec.get("topologySpreadConstraints", ()),
    )
    return sum(map(len, lists)) > FEW_TERMS or len(spec.get("tolerations", ())) > MANY_TOLERATIONS


def _signature(profile: Profile, pod: PodFacts, around: SchedulingContext) -> Hashable | None:
    """Equal for pods that no plugin can distinguish; None: claims make this pod unlike any other."""
    if claim_names(pod) or (around.devices is not None and uses_devices(pod, around.devices)):
        return None
    spec = pod.spec
    parts = (
        pod.labels,
        spec.get("nodeSelector"),
        spec.get("affinity"),
        spec.get("tolerations"),
        spec.get("topologySpreadConstraints"),
        [one.get("image") for one in spec["containers"]],
        needed_to_start(spec, around.cluster.features),
    )
    return profile.name, pod.shape.key, around.default_selector, text_of(parts)
