"""Filters and scores of the default profile, with the figures of v1.25, without a server."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.scheduler.configuration import default_configuration
from rewound.actors.scheduler.evaluation import (
    Evaluation,
    Evaluations,
    Outdated,
    Unschedulable,
    finished,
    wanted_nodes,
)
from rewound.actors.scheduler.explanation import explain
from rewound.actors.scheduler.matching import EVERYTHING, Selector, equality_selector
from rewound.actors.scheduler.nodes import Cluster
from rewound.actors.scheduler.plugins import SchedulingContext
from rewound.actors.scheduler.resources import (
    balanced,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from rewound.actors.scheduler.volume_objects import VolumeObjects
from tests.actors.scheduler.scheduling import node, pod
from tests.cases import cases

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
PROFILE = default_configuration().profiles["default-scheduler"]


class World:
    """A cluster with pods on its nodes, and decisions about other pods."""

    def __init__(self, *nodes: Object, selector: Selector = EVERYTHING) -> None:
        self.cluster = Cluster(KUBERNETES)
        self.around = SchedulingContext(self.cluster, VolumeObjects(KUBERNETES), {}, selector)
        self.evaluations = Evaluations(self.cluster, random.Random(1))
        self._number = 0
        for one in nodes:
            self.cluster.set_node(one)

    def facts(self, made: Object) -> Any:
        self._number += 1
        made = {**made, "metadata": {"namespace": "default", "uid": str(self._number), **made["metadata"]}}
        return self.cluster.shapes.facts(made)

    def run(self, made: Object, where: str) -> None:
        self.cluster.assume(self.facts(made), where)

    def choose(self, made: Object) -> str:
        facts = self.facts(made)
        return finished(self.evaluations.choose(self.evaluation(facts), facts)).name

    def evaluation(self, facts: Any) -> Evaluation:
        return finished(self.evaluations.of(PROFILE, facts, self.around))

    def refusal(self, made: Object) -> str:
        with pytest.raises(Unschedulable) as caught:
            self.choose(made)
        return caught.value.diagnosis.reasons().removeprefix(
            f"0/{len(self.cluster.nodes)} nodes are available: "
        )

    def scores(self, made: Object, plugin: str) -> Mapping[str, int]:
        found = finished(explain(PROFILE, self.facts(made), self.around))
        return {one["node"]: one["plugins"][plugin] for one in found["scores"]}


def affine(kind: str, match: dict[str, str], key: str, weight: int = 0) -> Object:
    term = {"labelSelector": {"matchLabels": match}, "topologyKey": key}
    if weight:
        terms = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]
        }
        return {kind: terms}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def constraint(key: str, when: str, skew: int = 1) -> Object:
    selector = {"matchLabels": {"app": "a"}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}


def test_resources_that_do_not_fit() -> None:
    world = World(node("a", cpu="1", pods="1"), node("b", cpu="2"))
    world.run(pod("x", cpu="1"), "a")
    world.run(pod("y", cpu="1500m"), "b")
    assert world.refusal(pod("p", cpu="1")) == "1 Too many pods, 2 Insufficient cpu."
    assert world.choose(pod("p")) == "b"  # without requests only the number of pods counts
    world.run(pod("z", cpu="1"), "b")
    assert world.refusal(pod("p", memory="1")) == "1 Insufficient cpu, 1 Too many pods."


def test_least_allocated_counts_pods_without_requests() -> None:
    world = World(node("a", cpu="4"), node("b", cpu="4"))
    world.run(pod("x"), "a")
    assert world.scores(pod("p"), "NodeResourcesFit") == {"b": 97, "a": 95}
    assert world.choose(pod("p")) == "b"


@cases(
    "resources, least, most, even",
    [
        ([(1, 4, 1), (1, 2, 1)], 62, 37, 87),
        ([(5, 4, 1), (0, 2, 3)], 75, 25, 50),
        ([], 0, 0, 100),
        ([(1, 2, 1), (1, 2, 1), (1, 1, 1)], 33, 66, 76),
    ],
)
def test_strategies(resources: list[tuple[int, int, int]], least: int, most: int, even: int) -> None:
    assert (least_allocated(resources), most_allocated(resources), balanced(resources)) == (least, most, even)


def test_ratio_of_requested_to_capacity() -> None:
    rising = requested_to_capacity_ratio([(0, 0), (100, 10)])
    assert rising([(1, 2, 1), (1, 4, 3)]) == 31
    assert rising([(3, 2, 1)]) == 100
    assert requested_to_capacity_ratio([(0, 10), (50, 0)])([(1, 4, 1)]) == 50


def test_taints_and_their_scores() -> None:
    hard = {"key": "k", "value": "v", "effect": "NoExecute"}
    soft = {"key": "s", "effect": "PreferNoSchedule"}
    world = World(node("a", taints=[hard]), node("b", taints=[soft]), node("c"))
    assert world.scores(pod("p"), "TaintToleration") == {"c": 300, "b": 0}
    tolerant = pod("p", tolerations=[{"key": "k", "operator": "Exists"}], nodeSelector={HOST: "a"})
    assert world.choose(tolerant) == "a"
    assert world.refusal(pod("p", nodeSelector={HOST: "a"})) == (
        "1 node(s) had untolerated taint {k: v}, 2 node(s) didn't match Pod's node affinity/selector."
    )


def test_host_ports_conflict_by_address() -> None:
    def with_port(name: str, address: str = "") -> Object:
        made = pod(name)
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80, "hostIP": address}]
        return made

    world = World(node("a"))
    world.run(with_port("x", "10.0.0.1"), "a")
    assert world.choose(with_port("p", "10.0.0.2")) == "a"
    expected = "1 node(s) didn't have free ports for the requested pod ports."
    assert world.refusal(with_port("p")) == expected
    assert world.refusal(with_port("p", "10.0.0.1")) == expected


def test_images_that_nodes_have() -> None:
    having = node("a")
    having["status"]["images"] = [{"names": ["web:1"], "sizeBytes": 2_000_000_000}]
    world = World(having, node("b"))
    assert world.scores(pod("p"), "ImageLocality") == {"a": 95, "b": 0}


def test_a_newer_version_of_a_pod_that_counts_alike_changes_no_node() -> None:
    world = World(node("a", cpu="3"))
    labels = {"app": "a"}
    before = world.facts(pod("x", cpu="1", labels=labels, affinity=affine("podAntiAffinity", labels, HOST)))
    world.cluster.assume(before, "a")
    state, seen = world.cluster.nodes["a"], (world.cluster.layout, list(world.cluster.changes))
    after = world.cluster.shapes.facts({**before.pod, "status": {"phase": "Running"}})
    assert world.cluster.assume(after, "a") is before
    assert (world.cluster.layout, world.cluster.changes) == seen
    assert [state.pods[after.uid], state.affine[after.uid], state.repelling[after.uid]] == [after] * 3
    metadata = {**before.pod["metadata"], "labels": {"app": "b"}}
    world.cluster.assume(world.cluster.shapes.facts({**before.pod, "metadata": metadata}), "a")
    assert (world.cluster.layout, world.cluster.changes) != seen
    assert state.requested == {"cpu": 1000}


def test_pods_spread_by_default_over_hosts_and_zones() -> None:
    nodes = [node(name, labels={ZONE: zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    world = World(*nodes, selector=equality_selector({"app": "a"}))
    labels = {"app": "a"}
    world.run(pod("x", labels=labels), "a")
    assert world.scores(pod("p", labels=labels), "PodTopologySpread") == {"c": 200, "b": 176, "a": 132}
    assert world.choose(pod("p", labels=labels)) == "c"


def test_hard_spread_constraints() -> None:
    nodes = [node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"}), node("c")]
    world = World(*nodes)
    spread = {"labels": {"app": "a"}, "topologySpreadConstraints": [constraint(ZONE, "DoNotSchedule")]}
    world.run(pod("x", labels={"app": "a"}), "a")
    assert world.choose(pod("p", **spread)) == "b"
    world.run(pod("y", labels={"app": "a"}), "a")
    uneven = "node(s) didn't match pod topology spread constraints"
    # Only nodes that the selector allows count: then zone 1 has the fewest pods of all zones.
    assert world.choose(pod("p", nodeSelector={HOST: "a"}, **spread)) == "a"
    world.cluster.remove_node("b")
    world.run(pod("z", labels={"app": "a"}), "a")
    assert world.choose(pod("p", **spread)) == "a"
    world.cluster.set_node(node("b", cpu="0", labels={ZONE: "2"}))
    assert world.refusal(pod("p", cpu="1", **spread)) == (
        f"1 Insufficient cpu, 1 {uneven}, 1 {uneven} (missing required label)."
    )


def test_pod_affinity_begins_with_a_pod_that_selects_itself() -> None:
    world = World(node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"}), node("c"))
    near = {"affinity": affine("podAffinity", {"app": "a"}, ZONE)}
    assert world.refusal(pod("p", **near)) == "3 node(s) didn't match pod affinity rules."
    assert world.choose(pod("p", labels={"app": "a"}, **near)) in ("a", "b")
    world.run(pod("x", labels={"app": "a"}), "b")
    assert world.choose(pod("p", **near)) == "b"
    assert world.scores(pod("p", **near), "InterPodAffinity") == {"b": 0}


def test_anti_affinity_of_both_sides() -> None:
    world = World(node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "1"}), node("c", labels={ZONE: "2"}))
    world.run(pod("x", labels={"app": "a"}, affinity=affine("podAntiAffinity", {"app": "b"}, ZONE)), "a")
    assert world.choose(pod("p", labels={"app": "b"})) == "c"
    away = affine("podAntiAffinity", {"app": "a"}, HOST)
    assert world.choose(pod("p", affinity=away, nodeSelector={ZONE: "1"})) == "b"
    assert world.refusal(pod("p", labels={"app": "b"}, affinity=away, nodeSelector={ZONE: "1"})) == (
        "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't match pod anti-affinity rules, "
        "1 node(s) didn't satisfy existing pods anti-affinity rules."
    )


def test_preferred_pod_affinity_counts_in_both_directions() -> None:
    world = World(node("a"), node("b"), node("c"))
    world.run(pod("x", labels={"app": "a"}), "a")
    world.run(pod("y", affinity=affine("podAntiAffinity", {"app": "b"}, HOST, 50)), "b")
    world.run(pod("z", affinity=affine("podAffinity", {"app": "b"}, HOST)), "c")
    wanting = pod("p", labels={"app": "b"}, affinity=affine("podAffinity", {"app": "a"}, HOST, 30))
    # 30 for a, -50 for b, and 1 for c, whose pod requires this one nearby.
    assert world.scores(wanting, "InterPodAffinity") == {"a": 200, "c": 126, "b": 0}


def test_names_of_nodes_limit_what_is_tried() -> None:
    def named(*names: str) -> Object:
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return pod("p", cpu="1", affinity={"nodeAffinity": required})

    world = World(node("a", cpu="0"), node("b"), node("c"))
    assert world.choose(named("b")) == "b"
    assert world.refusal(named("a")) == "1 Insufficient cpu."
    assert world.choose(named("a", "c")) == "c"


@cases(
    "nodes, percentage, wanted",
    [
        (50, 0, 50),
        (100, 0, 100),
        (300, 0, 144),
        (5000, 0, 500),
        (20000, 0, 1000),
        (5000, 30, 1500),
        (120, 100, 120),
    ],
)
def test_nodes_that_are_scored(nodes: int, percentage: int, wanted: int) -> None:
    assert wanted_nodes(nodes, percentage) == wanted


def test_nodes_of_zones_are_tried_in_turn() -> None:
    zones = [("a", "1"), ("b", "1"), ("c", "2"), ("d", "1"), ("e", "3")]
    world = World(*(node(name, labels={ZONE: zone}) for name, zone in zones))
    assert [one.name for one in world.cluster.order] == ["a", "c", "e", "b", "d"]
    world.cluster.set_node(node("b", labels={ZONE: "2"}))
    assert [one.name for one in world.cluster.order] == ["a", "c", "e", "d", "b"]


def test_pods_wait_for_their_node_to_appear() -> None:
    world = World(node("a", cpu="2"))
    world.run(pod("x", cpu="3"), "b")
    world.cluster.set_node(node("b", cpu="4"))
    assert world.choose(pod("p", cpu="2")) == "a"
    world.run(pod("y", cpu="2"), "a")
    assert world.refusal(pod("p", cpu="2")) == "2 Insufficient cpu."


def test_nodes_may_change_between_the_steps_before_a_decision() -> None:
    world = World(*(node(f"n{at}", cpu="3", labels={ZONE: str(at % 3)}) for at in range(200)))
    near = {"labels": {"app": "a"}, "affinity": affine("podAntiAffinity", {"app": "a"}, HOST)}
    facts = world.facts(pod("p", topologySpreadConstraints=[constraint(ZONE, "DoNotSchedule")], **near))
    steps = world.evaluations.of(PROFILE, facts, world.around)
    for number, _ in enumerate(steps):
        world.run(pod("x", labels={"app": "a"}), f"n{number}")
        world.run(pod("y", cpu="3"), f"n{199 - number}")
    assert number > 3
    kept = world.evaluation(facts)
    fresh = Evaluation(PROFILE, facts, world.around).complete()
    found = [kept.check(one) for one in world.cluster.order]
    assert found == [fresh.check(one) for one in world.cluster.order]
    assert len(set(found)) > 1
    other = world.facts(pod("q"))
    given_up = world.evaluations.of(PROFILE, other, world.around)
    next(given_up)
    given_up.close()
    kept, fresh = world.evaluation(other), Evaluation(PROFILE, other, world.around).complete()
    feasible = [one for one in world.cluster.order if fresh.check(one) is None]
    assert finished(kept.explained(feasible)) == finished(fresh.explained(feasible))
    stopped = world.evaluations.of(PROFILE, world.facts(pod("r", labels={"app": "r"})), world.around)
    next(stopped)
    world.cluster.set_node(node("more"))
    with pytest.raises(Outdated):
        finished(stopped)
    world.cluster.set_node(node("more", cpu="1"))
    assert world.choose(pod("q", nodeSelector={HOST: "more"})) == "more"


def test_a_remembered_evaluation_equals_a_new_one() -> None:
    """After many random changes, decisions with state cached between pods equal decisions that look at every node
    again.
    """
    chosen = random.Random(7)
    world = World(*(node(f"n{at}", cpu="3", labels={ZONE: str(at % 3)}) for at in range(12)))
    world.around.default_selector = equality_selector({"app": "a"})
    templates = [
        pod("p", cpu="500m", labels={"app": "a"}),
        pod("p", labels={"app": "a"}, topologySpreadConstraints=[constraint(ZONE, "DoNotSchedule")]),
        pod("p", labels={"app": "b"}, affinity=affine("podAntiAffinity", {"app": "b"}, HOST)),
        pod("p", labels={"app": "a"}, affinity=affine("podAffinity", {"app": "b"}, ZONE, 10)),
    ]
    running: list[str] = []
    for step in range(300):
        facts = world.facts(chosen.choice(templates))
        kept = world.evaluation(facts)
        fresh = Evaluation(PROFILE, facts, world.around).complete()
        for one in world.cluster.order:
            assert kept.check(one) == fresh.check(one), (step, one.name)
        feasible = [one for one in world.cluster.order if fresh.check(one) is None]
        if feasible:
            assert finished(kept.explained(feasible)) == finished(fresh.explained(feasible)), step
        match chosen.randrange(10):
            case 9:
                changed = dict(chosen.choice(world.cluster.order).node)
                images = [{"names": ["web:1"], "sizeBytes": 900_000_000}] * chosen.randrange(2)
                world.cluster.set_node({**changed, "status": {**changed["status"], "images": images}})
            case 0 if running:
                world.cluster.remove_pod(running.pop(chosen.randrange(len(running))))
            case 1:
                name = f"n{chosen.randrange(12)}"
                world.cluster.set_node(
                    node(name, cpu=str(chosen.randint(1, 4)), labels={ZONE: str(step % 3)})
                )
            case _ if feasible:
                world.cluster.assume(facts, chosen.choice(feasible).name)
                running.append(facts.uid)
