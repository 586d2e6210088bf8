"""InterPodAffinity: pods near other pods, or away from them, by the topology of their nodes.

Terms count in both directions: those of the pod about running pods, and those of running pods about the pod, of which
only anti-affinity is required.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
from rewound.actors.scheduler.pods import PodFacts, Term
from rewound.actors.scheduler.tally import Part, Tally

NAME: Final = "InterPodAffinity"
_NOT_NEAR: Final = Failure(NAME, ("node(s) didn't match pod affinity rules",), False)
_NOT_AWAY: Final = Failure(NAME, ("node(s) didn't match pod anti-affinity rules",))
_REPELLED: Final = Failure(NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",))

NamespaceLabels = Mapping[str, Mapping[str, str]]


class _Terms:
    """The terms of one pod, and which pods they match."""

    def __init__(self, pod: PodFacts, namespace_labels: NamespaceLabels) -> None:
        self.pod, self.shape, self._namespaces = pod, pod.shape, namespace_labels

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
            _count(part, node, filter(self.is_selected, other.shape.required_anti_affinity), 1)
        return part

    def near(self, node: NodeState) -> Part:
        part: Part = {}
        terms = self.shape.required_affinity
        if not terms:
            return part
        for other in node.pods.values():
            if self.selects_all(terms, other):
                _count(part, node, terms, 1)
        return part

    def away(self, node: NodeState) -> Part:
        part: Part = {}
        if not self.shape.required_anti_affinity:
            return part
        for other in node.pods.values():
            selected = (one for one in self.shape.required_anti_affinity if self.selects(one, other))
            _count(part, node, selected, 1)
        return part


def _count(part: Part, node: NodeState, terms: Iterable[Term], sign: int) -> None:
    for term in terms:
        value = node.labels.get(term.topology_key)
        if value is not None:
            pair = term.topology_key, value
            part[pair] = part.get(pair, 0) + sign * (term.weight or 1)


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
            _count(part, node, [one for one in shape.preferred_affinity if terms.selects(one, other)], 1)
            _count(
                part, node, [one for one in shape.preferred_anti_affinity if terms.selects(one, other)], -1
            )
            if other.shape.has_affinity:
                self._count_others(part, node, other)
        return part

    def _count_others(self, part: Part, node: NodeState, other: PodFacts) -> None:
        is_selected, shape = self._terms.is_selected, other.shape
        if self._hard_weight:
            hard = filter(is_selected, shape.required_affinity)
            _count(part, node, (one._replace(weight=self._hard_weight) for one in hard), 1)
        _count(part, node, filter(is_selected, shape.preferred_affinity), 1)
        _count(part, node, filter(is_selected, shape.preferred_anti_affinity), -1)


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
