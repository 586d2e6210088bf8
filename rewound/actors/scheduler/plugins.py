"""The interface of scheduler plugins, and the plugins that check a single node and nothing else.

A plugin is prepared once for each pod: it says at once that no node is feasible (`Refusal`), or returns a `Filter`, a
`Score`, both or neither. Pods with equal specs and labels share the result (`evaluation`). So a filter or score that
depends only on the state of a node runs again when the node changes, not for every pod.

Filters and scores return the results of v1.25, with its reasons, and scores of 0 to 100 after normalization. A score
has a key for each node, and nodes with equal keys get equal scores: the few distinct keys of the feasible nodes are
normalized, not the many nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rewound.actors.kinds.core.declared_features import needed_to_start
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, exhausted
from rewound.actors.scheduler.device_objects import DeviceObjects
from rewound.actors.scheduler.matching import Selector
from rewound.actors.scheduler.nodes import Cluster, NodeState
from rewound.actors.scheduler.pods import PodFacts, Preferences, preferences
from rewound.actors.scheduler.volume_objects import VolumeObjects
from rewound.actors.selectors.nodes import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    NodeRequirement,
    NodeSelector,
    tolerates,
    untolerated,
)
from rewound.actors.versions.features import TAINTS_UNNAMED

MAX_SCORE: Final = 100


class Failure(NamedTuple):
    """Why a node is not feasible. `resolvable`: it might be, if pods of it were gone."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = True


class Refusal(Exception):
    """No node is feasible, whatever its state."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(", ".join(failure.reasons))
        self.failure = failure


class SchedulingError(Exception):
    """The pod cannot be evaluated; the text is that of v1.25."""


@dataclass(slots=True)
class Prepared:
    """The filters and scores that plugins prepared for one pod."""

    filter: Filter | None = None
    score: Score | None = None
    names: frozenset[str] | None = None  # the only nodes to try; None: all


class Filter(ABC):
    of_node_only = True  # whether the result changes only with the node
    takes_steps = False  # whether `ahead` has to run before a check

    @abstractmethod
    def check(self, node: NodeState) -> Failure | None: ...

    def ahead(self, node: NodeState) -> Steps[None]:
        """Do the work of a check that users determine, in steps; the check only looks up its result."""
        yield from ()

    def steps(self) -> Iterator[None]:
        """Steps to run before the first check, if that takes long."""
        return iter(())

    def assuming(self, node: NodeState) -> Filter:
        """The same filter, assuming the node of this name were as given."""
        return self

    def refresh(self, names: Collection[str]) -> None:  # noqa: B027
        """These nodes have changed or are new."""


class Score(ABC):
    of_node_only = True  # whether the key changes only with the node

    @abstractmethod
    def key(self, node: NodeState) -> Hashable: ...

    @abstractmethod
    def scores(self, keys: Mapping[Any, int]) -> Mapping[Any, int]:
        """The normalized score of each key; `keys` has the number of feasible nodes with each."""

    def refresh(self, names: Collection[str]) -> None:  # noqa: B027
        """These nodes have changed or are new."""


@dataclass(slots=True)
class SchedulingContext:
    """The data that plugins read besides the pod."""

    cluster: Cluster
    volumes: VolumeObjects
    namespace_labels: Mapping[str, Mapping[str, str]]
    # The selector of the pod's services and of its controller, for default spreading.
    default_selector: Selector
    devices: DeviceObjects | None = None  # None: no scheduler of this version allocates devices


class Plugin(ABC):
    """A plugin with its arguments. `wakes` are the changes after which a pod that it rejected is tried again."""

    name: str
    wakes: frozenset[str]
    filters = False
    scores = False
    of_every_pod = True  # otherwise explanations leave it out where it scores nothing

    @abstractmethod
    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared: ...


def normalized(keys: Collection[int], *, reverse: bool = False) -> dict[int, int]:
    """Scores in proportion to the largest one."""
    most = max(keys, default=0)
    if not most:
        return dict.fromkeys(keys, MAX_SCORE if reverse else 0)
    scaled = {key: MAX_SCORE * key // most for key in keys}
    return {key: MAX_SCORE - value for key, value in scaled.items()} if reverse else scaled


# Changes of the cluster, as plugins name them.
POD_ADD, POD_UPDATE, POD_DELETE = "pod added", "pod updated", "pod deleted"
POD_LABELS, POD_SCALE_DOWN, POD_TOLERATIONS = "pod labels", "pod scaled down", "pod tolerations"
NODE_DELETE: Final = "node deleted"
POD_ASKS: Final = "pod asks for an explanation"
NODE_ADD, NODE_ALLOCATABLE, NODE_LABELS = "node added", "node allocatable", "node labels"
NODE_TAINTS, NODE_CONDITIONS = "node taints", "node conditions"
NODE_DECLARES: Final = "node declares features"
NODE_UPDATE: Final = frozenset([NODE_ALLOCATABLE, NODE_LABELS, NODE_TAINTS, NODE_CONDITIONS])


class _UnschedulableFilter(Filter):
    def check(self, node: NodeState) -> Failure | None:
        return _UNSCHEDULABLE if node.unschedulable else None


_UNSCHEDULABLE: Final = Failure("NodeUnschedulable", ("node(s) were unschedulable",), False)


class NodeUnschedulable(Plugin):
    name, filters = "NodeUnschedulable", True
    wakes = frozenset([NODE_ADD, NODE_TAINTS])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        taint = {"key": around.cluster.names.key("unschedulable", "node"), "effect": NO_SCHEDULE}
        if any(tolerates(one, taint) for one in pod.spec.get("tolerations", ())):
            return Prepared()
        return Prepared(_UnschedulableFilter())


class NodeName(Plugin):
    name, filters = "NodeName", True
    wakes = frozenset([NODE_ADD, *NODE_UPDATE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        """Pods with a node name are not scheduled: this matters only for explanations."""
        return Prepared()


class _TaintFilter(Filter):
    def __init__(self, tolerations: Sequence[Object], *, names_taint: bool) -> None:
        self._tolerations, self._names_taint = tolerations, names_taint

    def check(self, node: NodeState) -> Failure | None:
        if not node.taints:
            return None
        taint = untolerated(node.taints, self._tolerations, (NO_SCHEDULE, NO_EXECUTE))
        if taint is None:
            return None
        reason = "node(s) had untolerated taint(s)"
        if self._names_taint:
            reason = f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        return Failure("TaintToleration", (reason,), False)


class _TaintScore(Score):
    """The number of PreferNoSchedule taints that the pod does not tolerate."""

    def __init__(self, tolerations: Sequence[Object]) -> None:
        self._tolerations = [one for one in tolerations if one.get("effect", "") in ("", PREFER_NO_SCHEDULE)]

    def key(self, node: NodeState) -> int:
        return sum(
            taint["effect"] == PREFER_NO_SCHEDULE
            and not any(tolerates(one, taint) for one in self._tolerations)
            for taint in node.taints
        )

    def scores(self, keys: Mapping[int, int]) -> Mapping[int, int]:
        return normalized(keys, reverse=True)


class TaintToleration(Plugin):
    name, filters, scores = "TaintToleration", True, True
    wakes = frozenset([NODE_ADD, *NODE_UPDATE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        tolerations = pod.spec.get("tolerations", ())
        names_taint = TAINTS_UNNAMED not in around.cluster.features
        return Prepared(_TaintFilter(tolerations, names_taint=names_taint), _TaintScore(tolerations))


class _AffinityFilter(Filter):
    def __init__(self, required: NodeRequirement, enforced: NodeSelector | None) -> None:
        self._required, self._enforced = required, enforced

    def check(self, node: NodeState) -> Failure | None:
        if self._enforced is not None and not self._enforced.matches(node.name, node.labels):
            return _NOT_ENFORCED
        return None if self._required.matches(node.name, node.labels) else _NO_AFFINITY


_NO_AFFINITY: Final = Failure("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), False)
_NOT_ENFORCED: Final = Failure(
    "NodeAffinity", ("node(s) didn't match scheduler-enforced node affinity",), False
)
_CONFLICT: Final = Failure("NodeAffinity", ("pod affinity terms conflict",), False)


class _AffinityScore(Score):
    def __init__(self, preferred: Preferences) -> None:
        self._preferred = preferred

    def key(self, node: NodeState) -> int:
        return sum(weight for weight, term in self._preferred if term.matches(node.name, node.labels))

    def scores(self, keys: Mapping[int, int]) -> Mapping[int, int]:
        return normalized(keys)


class NodeAffinity(Plugin):
    name, filters, scores = "NodeAffinity", True, True
    wakes = frozenset([NODE_ADD, *NODE_UPDATE])

    def __init__(self, added: Object | None = None) -> None:
        added = added or {}
        required = added.get("requiredDuringSchedulingIgnoredDuringExecution")
        self._enforced = None if required is None else NodeSelector.compile(required)
        wanted = added.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        self._preferred = exhausted(preferences(wanted))

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        required = pod.node_requirement
        preferred = (*self._preferred, *pod.node_preferences)
        checks = required.labels or required.affinity is not None or self._enforced is not None
        return Prepared(
            _AffinityFilter(required, self._enforced) if checks else None,
            _AffinityScore(preferred) if preferred else None,
            _names(required.affinity),
        )


def _names(required: NodeSelector | None) -> frozenset[str] | None:
    """The only nodes that can match, if every term names one; None: any."""
    if required is None or not required.terms:
        return None
    found: set[str] = set()
    for term in required.terms:
        if not term.is_name:
            return None
        if len(set(term.is_name)) > 1:
            raise Refusal(_CONFLICT)
        found.update(term.is_name)
    return frozenset(found)


_PORTS: Final = Failure("NodePorts", ("node(s) didn't have free ports for the requested pod ports",))


class _PortFilter(Filter):
    def __init__(self, pod: PodFacts) -> None:
        self._ports = pod.shape.ports

    def check(self, node: NodeState) -> Failure | None:
        return _PORTS if any(node.has_conflict(port) for port in self._ports) else None


class NodePorts(Plugin):
    name, filters = "NodePorts", True
    wakes = frozenset([POD_DELETE, NODE_ADD, *NODE_UPDATE])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        return Prepared(_PortFilter(pod)) if pod.shape.ports else Prepared()


class _DeclaredFilter(Filter):
    def __init__(self, needed: frozenset[str]) -> None:
        self._needed = needed

    def check(self, node: NodeState) -> Failure | None:
        declared = node.node.get("status", {}).get("declaredFeatures") or ()
        return None if self._needed.issubset(declared) else _NOT_DECLARED


_NOT_DECLARED: Final = Failure(
    "NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",), False
)


class NodeDeclaredFeatures(Plugin):
    name, filters = "NodeDeclaredFeatures", True
    wakes = frozenset([NODE_ADD, NODE_DECLARES])

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        needed = needed_to_start(pod.spec, around.cluster.features)
        return Prepared(_DeclaredFilter(frozenset(needed)) if needed else None)
