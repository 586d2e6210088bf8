"""InterPodAffinity: pods near other pods, or away from them, by the topology of their nodes.

Terms count in both directions: those of the pod about running pods, and those of running pods about the pod, of which
only anti-affinity is required.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final

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
from rewound.actors.scheduler.pods import FEW_TERMS, PodFacts, Term
from rewound.actors.scheduler.tally import Part, Tally

NAME: Final = "InterPodAffinity"
_NOT_NEAR: Final = Failure(NAME, ("node(s) didn't match pod affinity rules",), False)
_NOT_AWAY: Final = Failure(NAME, ("node(s) didn't match pod anti-affinity rules",))
_REPELLED: Final = Failure(NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",))

NamespaceLabels = Mapping[str, Mapping[str, str]]
Sums = dict[str, int]  # weights of terms by topology key
_MOST_SUMS: Final = 1024  # of one evaluation


class _Terms:
    """The terms of one pod, and which pods they match.

    Of many terms, the weights of those that match are added up once for all pods with the same namespace and labels, or
    the same terms: a node may have a hundred of them.
    """

    def __init__(self, pod: PodFacts, namespace_labels: NamespaceLabels) -> None:
        self.pod, self.shape, self._namespaces = pod, pod.shape, namespace_labels
        self._sums: dict[Hashable, Sums] = {}

    def selecting(self, terms: Sequence[Term], other: PodFacts, name: str) -> Sums:
        """The pod's terms that match another one; `name` is that of the terms."""
        if len(terms) <= FEW_TERMS:
            return _sums(one for one in terms if self.selects(one, other))
        key = name, other.namespace, frozenset(other.labels.items())
        if key not in self._sums:
            self._remember(key, _sums(one for one in terms if self.selects(one, other)))
        return self._sums[key]

    def _selecting_all(self, terms: Sequence[Term], other: PodFacts) -> Sums:
        """All terms, if all match another pod."""
        if len(terms) <= FEW_TERMS:
            return _sums(terms) if self.selects_all(terms, other) else {}
        key = "near", other.namespace, frozenset(other.labels.items())
        if key not in self._sums:
            self._remember(key, _sums(terms) if self.selects_all(terms, other) else {})
        return self._sums[key]

    def selected_by(self, terms: Sequence[Term], other: PodFacts, name: str) -> Sums:
        """The terms of another pod that match this one."""
        if len(terms) <= FEW_TERMS:
            return _sums(filter(self.is_selected, terms))
        key = name, other.shape.key
        if key not in self._sums:
            self._remember(key, _sums(filter(self.is_selected, terms)))
        return self._sums[key]

    def _remember(self, key: Hashable, sums: Sums) -> None:
        if len(self._sums) >= _MOST_SUMS:
            self._sums.clear()
        self._sums[key] = sums

    def selects(self, term: Term, other: PodFacts) -> bool:
        return term.matches(other.namespace, other.labels, self._namespaces.get(other.namespace, {}))

    def is_selected(self, term: Term) -> bool:
        return self.selects(term, self.pod)

    def selects_all(self, terms: Sequence[Term], other: PodFacts) -> bool:
        return bool(terms) and all(self.selects(one, other) for one in terms)

    def repelling(self, node: NodeState) -> Part:
        """Required anti-affinity of the node's pods that matches the pod."""
        part: Part = {}
        for other in node.repelling.values():
            _count(part, node, self.selected_by(other.shape.required_anti_affinity, other, "repelling"), 1)
        return part

    def near(self, node: NodeState) -> Part:
        part: Part = {}
        terms = self.shape.required_affinity
        if not terms:
            return part
        for other in node.pods.values():
            _count(part, node, self._selecting_all(terms, other), 1)
        return part

    def away(self, node: NodeState) -> Part:
        part: Part = {}
        terms = self.shape.required_anti_affinity
        if not terms:
            return part
        for other in node.pods.values():
            _count(part, node, self.selecting(terms, other, "away"), 1)
        return part


def _sums(terms: Iterable[Term]) -> Sums:
    sums: Sums = {}
    for term in terms:
        sums[term.topology_key] = sums.get(term.topology_key, 0) + (term.weight or 1)
    return sums


def _count(part: Part, node: NodeState, sums: Sums, factor: int) -> None:
    for key, total in sums.items():
        value = node.labels.get(key)
        if value is not None:
            part[key, value] = part.get((key, value), 0) + factor * total


class _PodFilter(Filter):
    """Without terms in either direction it depends on pods that are only nominated, so `assuming` alone matters."""

    def __init__(
        self, terms: _Terms, tallies: tuple[Tally, Tally, Tally], *, of_node_only: bool = False
    ) -> None:
        self._terms, self._tallies, self.of_node_only = terms, tallies, of_node_only
        self._near, self._away, self._repelling = (one.sums for one in tallies)
        self._is_first_of_its_sort = terms.selects_all(terms.shape.required_affinity, terms.pod)

    def check(self, node: NodeState) -> Failure | None:
        labels = node.labels
        if self._terms.shape.required_affinity and not self._is_near(labels):
            return _NOT_NEAR
        if self._away:
            for term in self._terms.shape.required_anti_affinity:
                value = labels.get(term.topology_key)
                if value is not None and (term.topology_key, value) in self._away:
                    return _NOT_AWAY
        if self._repelling and not self._repelling.keys().isdisjoint(labels.items()):
            return _REPELLED
        return None

    def _is_near(self, labels: Mapping[str, str]) -> bool:
        """Whether all terms are met. If no pod matches anywhere, one that matches its own terms may be the first."""
        all_there = True
        for term in self._terms.shape.required_affinity:
            value = labels.get(term.topology_key)
            if value is None:
                return False
            all_there = all_there and (term.topology_key, value) in self._near
        return all_there or (not self._near and self._is_first_of_its_sort)

    def assuming(self, node: NodeState) -> Filter:
        near, away, repelling = self._tallies
        return _PodFilter(self._terms, (near.assuming(node), away.assuming(node), repelling.assuming(node)))

    def refresh(self, names: Collection[str]) -> None:
        for tally in self._tallies:
            tally.refresh(names)


class _PodScore(Score):
    of_node_only = False

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def key(self, node: NodeState) -> int:
        sums = self._tally.sums
        return sum(sums.get(pair, 0) for pair in node.labels.items())

    def scores(self, keys: Mapping[int, int]) -> Mapping[int, int]:
        least, most = min(keys), max(keys)
        if most == least:
            return {most: 0}
        return {key: int(MAX_SCORE * ((key - least) / (most - least))) for key in keys}

    def refresh(self, names: Collection[str]) -> None:
        self._tally.refresh(names)


class _Preferred:
    """What the pods of a node add to the score of their topologies."""

    def __init__(self, terms: _Terms, hard_weight: int) -> None:
        self._terms, self._hard_weight = terms, hard_weight
        shape = terms.shape
        self._wants = bool(shape.preferred_affinity or shape.preferred_anti_affinity)

    def __call__(self, node: NodeState) -> Part:
        part: Part = {}
        terms, shape = self._terms, self._terms.shape
        for other in (node.pods if self._wants else node.affine).values():
            _count(part, node, terms.selecting(shape.preferred_affinity, other, "wanted"), 1)
            _count(part, node, terms.selecting(shape.preferred_anti_affinity, other, "unwanted"), -1)
            if other.shape.has_affinity:
                self._count_others(part, node, other)
        return part

    def _count_others(self, part: Part, node: NodeState, other: PodFacts) -> None:
        terms, shape = self._terms, other.shape
        if self._hard_weight:
            hard = terms.selected_by(shape.required_affinity, other, "required by others")
            _count(part, node, hard, self._hard_weight)
        _count(part, node, terms.selected_by(shape.preferred_affinity, other, "wanted by others"), 1)
        _count(part, node, terms.selected_by(shape.preferred_anti_affinity, other, "unwanted by others"), -1)


class InterPodAffinity(Plugin):
    name, filters, scores = NAME, True, True
    wakes = frozenset([POD_ADD, POD_UPDATE, POD_DELETE, NODE_ADD, NODE_LABELS])

    def __init__(self, hard_weight: int = 1) -> None:
        self._hard_weight = hard_weight

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        terms, shape, cluster = _Terms(pod, around.namespace_labels), pod.shape, around.cluster
        prepared = Prepared()
        near, away, repelling = (Tally(cluster, one) for one in (terms.near, terms.away, terms.repelling))
        has_terms = shape.required_affinity or shape.required_anti_affinity or cluster.repelling_pods
        prepared.filter = _PodFilter(terms, (near, away, repelling), of_node_only=not has_terms)
        if shape.preferred_affinity or shape.preferred_anti_affinity or cluster.affine_pods:
            prepared.score = _PodScore(Tally(cluster, _Preferred(terms, self._hard_weight)))
        return prepared
