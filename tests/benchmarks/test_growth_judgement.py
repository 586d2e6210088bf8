"""The complexity fuzzer reports growth above n log n, long holds and what was given up, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from benchmarks.attacks.growth.cases import ELEMENTS, definitions, objects
from benchmarks.attacks.growth.documents import grown, places_of
from benchmarks.attacks.growth.judge import BOUNDS, judge
from benchmarks.attacks.growth.measured import Used
from benchmarks.attacks.growth.trial import Point
from rewound.actors.kinds.schema.fields import ListOf, MapOf

MB = 1 << 20


def points(
    cpu: Callable[[int], float],
    memory: Callable[[int], float] = lambda _: 80 * MB,
    *,
    hold: float = 0.01,
    given_up: bool = False,
) -> list[Point]:
    return [
        Point(count, 201, Used(cpu(count), hold, [], int(memory(count))), given_up=given_up)
        for count in ELEMENTS
    ]


def found(points: list[Point], *, fits: bool = True) -> list[str]:
    return [finding.what for finding in judge("case", points, fits=fits)]


@pytest.mark.parametrize(
    "cpu",
    [
        lambda _: 3.0,
        lambda n: 0.2 + n * 1e-4,
        lambda n: 0.1 + n * math.log(n) * 1e-5,
        lambda n: n * n * 1e-11,
    ],
    ids=["constant", "linear", "n log n", "quadratic, but small"],
)
def test_growth_up_to_n_log_n_is_no_finding(cpu: Callable[[int], float]) -> None:
    assert found(points(cpu)) == []


@pytest.mark.parametrize(
    "cpu",
    [lambda n: 0.2 + n * n * 1e-8, lambda n: n * 1e-5 + n * n * 1e-9, lambda n: n**1.6 * 1e-6],
    ids=["quadratic", "linear and quadratic", "n to the power of 1.6"],
)
def test_more_is_a_finding(cpu: Callable[[int], float]) -> None:
    assert [what.partition(" grows")[0] for what in found(points(cpu))] == ["processor time"]
    assert found(points(cpu), fits=False) == []


def test_memory_counts_too() -> None:
    assert found(points(lambda _: 0.1, lambda n: 80 * MB + n * 2000)) == []
    assert [
        what.partition(" grows")[0] for what in found(points(lambda _: 0.1, lambda n: 80 * MB + n * n / 4))
    ] == ["memory"]


def test_long_holds_and_sizes_that_are_given_up_are_findings() -> None:
    assert found(points(lambda _: 0.1, hold=BOUNDS.hold)) == []
    assert found(points(lambda _: 0.1, hold=2 * BOUNDS.hold), fits=False) == ["the loop was held for 100 ms"]
    assert found(points(lambda _: 0.1, given_up=True), fits=False) == ["given up"]


def test_every_list_and_map_of_every_kind_grows() -> None:
    missing, places = [], 0
    for definition in definitions():
        for path, type_ in places_of(definition.fields):
            if not isinstance(type_, (ListOf, MapOf)):
                continue
            places += 1
            value = grown(definition, path, count=5)
            for name in path:
                value = value[0] if isinstance(value, list) else value
                value = value[name] if name in value else next(iter(value.values()), {}).get(name, ())
            if len(value) < 5:
                missing.append((definition, path))
    assert places > 1000 and missing == []


def test_objects_are_written_and_read_in_every_way() -> None:
    pods = next(each for each in definitions() if each.plural == "pods")
    methods = [request.method for request in objects(pods, grown(pods, count=1)).measured]
    assert methods == ["POST", "GET", "GET", "GET", "PATCH", "PATCH", "PUT", "PATCH", "DELETE"]
