"""Thousands of terms are compared once with equal pods of a node, and count as often as few ones do."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.messages import Object
from rewound.actors.scheduler.evaluation import Evaluation
from rewound.actors.scheduler.pod_affinity import InterPodAffinity
from tests.actors.scheduler.scheduling import node, pod
from tests.actors.scheduler.test_filters_and_scores import PROFILE, World
from tests.counted_steps import counted_lines

PODS, TERMS = 40, 1000
LONGEST = 200_000  # lines of Python; comparing the terms with each pod takes a million
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
LISTS = [(kind, when) for kind in ("podAffinity", "podAntiAffinity") for when in ("required", "preferred")]


def affinity(kind: str, when: str, count: int, labels: dict[str, str]) -> Object:
    terms: list[Object] = [
        {"topologyKey": HOST if n % 2 else ZONE, "labelSelector": {"matchLabels": labels}}
        for n in range(count)
    ]
    if when == "preferred":
        terms = [{"weight": 2, "podAffinityTerm": term} for term in terms]
    return {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": terms}}


def world(running: dict[str, Any]) -> World:
    made = World(*(node(f"n{at}", labels={HOST: f"n{at}", ZONE: "z"}) for at in range(3)))
    for at in range(PODS):
        made.cluster.assume(made.facts(pod(f"other-{at}", labels={"app": "a"}, **running)), "n0")
    return made


@pytest.mark.parametrize(("kind", "when"), LISTS)
@pytest.mark.parametrize("of_others", [False, True])
def test_many_terms_are_compared_once_with_equal_pods(kind: str, when: str, *, of_others: bool) -> None:
    many = {"affinity": affinity(kind, when, TERMS, {"app": "a"})}
    made = world(many if of_others else {})
    waiting = made.facts(pod("p", labels={"app": "a"}, **({} if of_others else many)))
    with counted_lines() as lines:
        Evaluation(PROFILE, waiting, made.around).complete()
    assert lines.count < LONGEST


@pytest.mark.parametrize(("kind", "when"), LISTS)
@pytest.mark.parametrize("of_others", [False, True])
@pytest.mark.parametrize("selected", ["a", "b"])
def test_many_terms_count_as_few_do(kind: str, when: str, selected: str, *, of_others: bool) -> None:
    found = []
    for count in (8, 16):  # one by one, and added up
        with_terms = {"affinity": affinity(kind, when, count, {"app": selected})}
        made = world(with_terms if of_others else {})
        made.cluster.assume(made.facts(pod("different", labels={"app": "b"})), "n1")
        waiting = made.facts(pod("p", labels={"app": "a"}, **({} if of_others else with_terms)))
        prepared = InterPodAffinity().prepare(waiting, made.around)
        assert prepared.filter is not None
        names, nodes = list(made.cluster.nodes), made.cluster.nodes.values()
        prepared.filter.refresh(names)
        failures = [prepared.filter.check(each) for each in nodes]
        keys = None
        if prepared.score is not None:
            prepared.score.refresh(names)
            keys = [prepared.score.key(each) * 16 // count for each in nodes]
        found.append((failures, keys))
    assert found[0] == found[1]
