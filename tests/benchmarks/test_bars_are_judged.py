"""Bars, floors and growth are computed from the figures of one run."""

from __future__ import annotations

from benchmarks.baselines.ratios import Floors
from benchmarks.options import parse
from benchmarks.reports.growth import with_growth
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.reference import recorded
from benchmarks.reports.targets import BARS, judge
from benchmarks.workloads.catalog import titles


def _cpu(work: str, cpu: float) -> Measurement:
    return Measurement(work, {"cpu_us": cpu})


def test_a_bar_is_met_or_not() -> None:
    verdicts = judge({"get": _cpu("get", 140.0), "create": _cpu("create", 330.5)})
    assert [(each.bar.work, each.met) for each in verdicts] == [("get", True), ("create", False)]


def test_some_figures_must_be_large() -> None:
    for rate, met in ((249_000.0, False), (250_000.0, True)):
        (verdict,) = judge({"burst": Measurement("burst", {"rate": rate})})
        assert verdict.met is met


def test_every_bar_is_of_a_workload() -> None:
    assert {bar.work for bar in BARS} <= set(titles(parse([])))


def test_ratios_stand_on_the_floor_of_the_same_transport() -> None:
    floors = Floors(parse([]))
    get, create = _cpu("get", 100.0), _cpu("create", 120.0)
    assert floors.hold(get, tls=True) == get, "no floor was measured"
    for name, cpu in (("echo-plain", 25.0), ("echo-tls", 50.0), ("commit-16", 10.0)):
        floors.latest[name] = _cpu(name, cpu)
    assert floors.hold(get, tls=True).figures["floor_ratio"] == 2.0
    assert floors.hold(get, tls=False).figures["floor_ratio"] == 4.0
    assert floors.hold(create, tls=True).figures["floor_ratio"] == 2.0
    assert floors.hold(create, tls=True).notes["floors"] == {"echo-tls": 50.0, "commit-16": 10.0}


def test_a_deep_page_is_held_against_the_first() -> None:
    measured = {"page-small-first": _cpu("page-small-first", 100.0), "page-deep": _cpu("page-deep", 110.0)}
    assert with_growth(measured)["page-deep"].figures["growth"] == 1.1


def test_a_delivery_among_many_is_held_against_one_among_few() -> None:
    measured = {
        "fanout-few": Measurement("fanout-few", {"cpu_us": 20.0, "delivery_us": 10.0}),
        "fanout-crowd": Measurement("fanout-crowd", {"cpu_us": 11.5, "delivery_us": 11.0}),
    }
    assert with_growth(measured)["fanout-crowd"].figures["growth"] == 1.1


def test_the_reference_is_given_its_better_run() -> None:
    reference = recorded()
    assert reference.figure("get", "cpu_us") == 660
    assert reference.figure("get", "rate") == 2582
    assert reference.figure("start", "seconds") == 3.5
    assert (reference.figure("fanout", "cpu_us"), reference.figure("idle", "kb")) == (53.4, 126)


def test_growth_of_deliveries_is_told_apart_from_that_of_the_bare_loop() -> None:
    few = Measurement("few", {"cpu_us": 16.0, "delivery_us": 8.0}, {"floors": {"bare-loop": 5.0}})
    crowd = Measurement("crowd", {"cpu_us": 12.0, "delivery_us": 12.0}, {"floors": {"bare-loop": 7.5}})
    figures = with_growth({"fanout-few": few, "fanout-crowd": crowd})["fanout-crowd"].figures
    assert (figures["growth"], figures["cost_growth"], figures["own_growth"]) == (1.5, 0.75, 1.0)
