"""A pod with many affinity terms is compared with the pods of one node at a time, and so is any pod with such pods."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("waiting", "running", "is_slow"),
    [({}, {}, False), (terms(2), {}, False), (terms(20), {}, True), ({}, terms(20), True)],
    ids=["plain", "few terms", "many terms", "many terms of others"],
)
def test_number_of_steps(waiting: dict[str, Any], running: dict[str, Any], *, is_slow: bool) -> None:
    world = World(*(node(f"n{at}") for at in range(NODES)))
    world.cluster.assume(world.facts(pod("other", **running)), "n0")
    evaluation = Evaluation(PROFILE, world.facts(pod("p", **waiting)), world.around)
    steps = sum(1 for _ in evaluation.steps)
    assert (steps >= NODES) is is_slow
