"""Plans of chaos: when faults begin, whom they hit, and what is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rewound.actors.chaos.plan import ChaosError, PlannedFault, Target, parse_plan
from tests.cases import cases

ZONE = "topology.kubernetes.io/zone"
NODES = [
    {"metadata": {"name": f"node-{number}", "labels": {ZONE: zone, "pool": pool}}}
    for number, (zone, pool) in enumerate(
        [("a", "spot"), ("a", "big"), ("b", "spot"), ("b", "big"), ("c", "spot")]
    )
]


def fault(**fields: Any) -> PlannedFault:
    return parse_plan({"faults": [fields]}).faults[0]


def test_times_of_a_fault_depend_on_its_seed_name_and_number() -> None:
    one = fault(stopNodes={}, after="1m", every="5m", jitter="30s", **{"for": "40s"}, times=3)
    times = [one.begins(7, number) for number in range(4)]
    assert times == [one.begins(7, number) for number in range(4)]
    assert times[3] is None
    for number, begins in enumerate(times[:3]):
        assert begins is not None and 60 + 300 * number <= begins <= 90 + 300 * number
    assert times != [one.begins(8, number) for number in range(4)]
    once = fault(stopNodes={}, after="1m")
    assert [once.begins(7, 0), once.begins(7, 1)] == [60.0, None]


@cases(
    "given, count, among",
    [
        ({}, 5, {0, 1, 2, 3, 4}),
        ({"choose": 2}, 2, {0, 1, 2, 3, 4}),
        ({"choose": "50%"}, 3, {0, 1, 2, 3, 4}),
        ({"choose": 9}, 5, {0, 1, 2, 3, 4}),
        ({"names": ["node-[01]", "node-4"]}, 3, {0, 1, 4}),
        ({"matchLabels": {"pool": "spot"}, "choose": 1}, 1, {0, 2, 4}),
        ({"zones": ["a", "c"]}, 3, {0, 1, 4}),
    ],
)
def test_fault_hits_as_many_matching_nodes_as_it_says(given: Any, count: int, among: set[int]) -> None:
    target = fault(stopNodes=given).target
    assert target is not None
    chosen = target.chosen(NODES, ZONE, Random("x"))
    assert chosen == target.chosen(NODES[::-1], ZONE, Random("x"))
    assert len(chosen) == count and set(chosen) <= {f"node-{number}" for number in among}


def test_zones_go_as_a_whole() -> None:
    target = fault(stopZones={"choose": 1}).target
    assert target is not None
    found = {tuple(target.chosen(NODES, ZONE, Random(number))) for number in range(30)}
    assert found == {("node-0", "node-1"), ("node-2", "node-3"), ("node-4",)}
    assert Target(whole_zones=True).chosen([{"metadata": {"name": "n"}}], ZONE, Random(1)) == []


@cases(
    "spec, named",
    [
        ({}, "spec.faults: has to be a list"),
        ({"faults": [{"after": "1s"}]}, r"spec.faults\[0\]: has to have one of stopNodes, "),
        ({"faults": [{"stopNodes": {}, "breakNodes": {}}]}, "has to have one of"),
        ({"faults": [{"stopNodes": {}, "after": "soon"}]}, "after: 'soon' is no duration"),
        ({"faults": [{"stopNodes": {}, "every": "1m"}]}, "as long as for and jitter together"),
        ({"faults": [{"stopNodes": {}, "times": 3}]}, "times: has no effect without every"),
        ({"faults": [{"stopNodes": {"choose": "most"}}]}, "stopNodes.choose: 'most' is no number"),
        ({"faults": [{"stopNodes": {"name": "n"}}]}, "stopNodes.name: is not a field; there are names"),
        ({"faults": [{"lagNodes": {}}]}, "lagNodes.seconds: has to be a number of seconds"),
        (
            {"faults": [{"lagNodes": {"seconds": -5}}]},
            "lagNodes.seconds: has to be a number of seconds from 0 to",
        ),
        (
            {"faults": [{"skewClocks": {"seconds": 1e30}}]},
            "skewClocks.seconds: has to be a number of seconds",
        ),
        ({"seed": "7", "faults": [{"stopNodes": {}}]}, "spec.seed: has to be an integer"),
        ({"faults": [{"stopNodes": {}}, {"stopNodes": {}}]}, "another fault is called stopNodes"),
    ],
)
def test_mistakes_are_named(spec: Any, named: str) -> None:
    with pytest.raises(ChaosError, match=named):
        parse_plan(spec)


def test_seconds_are_exact() -> None:
    for seconds, text in ((1234567, "1234567"), (-1234567.5, "-1234567.5"), (1e6, "1000000"), (0.5, "0.5")):
        assert fault(skewClocks={"seconds": seconds}).annotations == {"sim/clock-skew": text}
