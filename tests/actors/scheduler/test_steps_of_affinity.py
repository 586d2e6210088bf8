"""A pod with many terms is compared with one node, or the pods there, at a time, and so is any pod with such pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewound.actors.scheduler.evaluation import Evaluation
from tests.actors.scheduler.scheduling import node, pod
from tests.actors.scheduler.test_filters_and_scores import PROFILE, World

NODES = 12


def terms(number: int) -> dict[str, Any]:
    one = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    wanted = [{"weight": 1, "podAffinityTerm": one}] * number
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wanted}}}


def node_terms(number: int) -> dict[str, Any]:
    one = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    wanted = [{"weight": 1, "preference": one}] * number
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wanted}}}


def required_node_terms(number: int) -> dict[str, Any]:
    one = {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    required = {"nodeSelectorTerms": [one] * number}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def tolerations(number: int) -> dict[str, Any]:
    return {"tolerations": [{"key": f"k{at}", "operator": "Exists"} for at in range(number)]}


@pytest.mark.parametrize(
    ("waiting", "running", "is_slow"),
    [
        ({}, {}, False),
        (terms(2), {}, False),
        (terms(20), {}, True),
        ({}, terms(20), True),
        (node_terms(2), {}, False),
        (node_terms(20), {}, True),
        ({}, node_terms(20), False),
        (required_node_terms(2), {}, False),
        (required_node_terms(20), {}, True),
        (tolerations(10), {}, False),
        (tolerations(100), {}, True),
    ],
)
def test_number_of_steps(waiting: dict[str, Any], running: dict[str, Any], *, is_slow: bool) -> None:
    world = World(*(node(f"n{at}") for at in range(NODES)))
    world.cluster.assume(world.facts(pod("other", **running)), "n0")
    evaluation = Evaluation(PROFILE, world.facts(pod("p", **waiting)), world.around)
    steps = sum(1 for _ in evaluation.steps)
    assert (steps >= NODES) is is_slow


@pytest.mark.parametrize("make", [terms, node_terms, required_node_terms])
def test_terms_are_compiled_in_steps(make: Callable[[int], dict[str, Any]]) -> None:
    facts = World(node("n0")).facts(pod("p", **make(6400)))
    assert sum(1 for _ in facts.compile_terms()) >= 100
    assert sum(1 for _ in facts.compile_terms()) == 0
    preferred = len(facts.shape.preferred_affinity) + len(facts.node_preferences)
    required = facts.node_requirement.affinity
    assert preferred + (0 if required is None else len(required.terms)) == 6400
