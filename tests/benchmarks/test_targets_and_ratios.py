"""Targets, ratios to baselines and growth are computed from the figures of one run."""

from __future__ import annotations

from benchmarks.baselines.ratios import Baselines
from benchmarks.options import parse
from benchmarks.reports.growth import with_growth
from benchmarks.reports.measurement import Measurement, with_h1_ratio
from benchmarks.reports.reference import recorded
from benchmarks.reports.targets import TARGETS, check_targets
from benchmarks.reports.transports import markdown, rows
from benchmarks.workloads.catalog import titles


def _cpu(work: str, cpu: float) -> Measurement:
    return Measurement(work, {"cpu_us": cpu})


def test_target_with_maximum_is_met_up_to_it() -> None:
    target_results = check_targets({"get": _cpu("get", 140.0), "create": _cpu("create", 240.5)})
    assert [(each.target.work, each.met) for each in target_results] == [("get", True), ("create", False)]


def test_target_with_minimum_is_met_from_it_on() -> None:
    for rate, met in ((249_000.0, False), (250_000.0, True)):
        (result,) = check_targets({"burst": Measurement("burst", {"rate": rate})})
        assert result.met is met


def test_every_target_names_a_workload() -> None:
    assert {target.work for target in TARGETS} <= set(titles(parse([])))


def test_ratio_uses_baseline_of_the_same_transport() -> None:
    baselines = Baselines(parse([]))
    get, create = _cpu("get", 100.0), _cpu("create", 120.0)
    assert baselines.with_ratio(get, tls=True) == get, "no baseline was measured"
    for name, cpu in (("echo-plain", 25.0), ("echo-tls", 50.0), ("commit-16", 10.0)):
        baselines.latest[name] = _cpu(name, cpu)
    assert baselines.with_ratio(get, tls=True).figures["floor_ratio"] == 2.0
    assert baselines.with_ratio(get, tls=False).figures["floor_ratio"] == 4.0
    assert baselines.with_ratio(create, tls=True).figures["floor_ratio"] == 2.0
    assert baselines.with_ratio(create, tls=True).notes["floors"] == {"echo-tls": 50.0, "commit-16": 10.0}


def test_growth_compares_deep_page_with_first_page() -> None:
    measured = {"page-small-first": _cpu("page-small-first", 100.0), "page-deep": _cpu("page-deep", 110.0)}
    assert with_growth(measured)["page-deep"].figures["growth"] == 1.1


def test_growth_compares_delivery_to_many_with_delivery_to_few() -> None:
    measured = {
        "fanout-few": Measurement("fanout-few", {"cpu_us": 20.0, "delivery_us": 10.0}),
        "fanout-crowd": Measurement("fanout-crowd", {"cpu_us": 11.5, "delivery_us": 11.0}),
    }
    assert with_growth(measured)["fanout-crowd"].figures["growth"] == 1.1


def test_reference_uses_the_better_of_its_runs() -> None:
    reference = recorded()
    assert reference.figure("get", "cpu_us") == 660
    assert reference.figure("get", "rate") == 2582
    assert reference.figure("start", "seconds") == 3.5
    assert (reference.figure("fanout", "cpu_us"), reference.figure("idle", "kb")) == (53.4, 126)
    assert (reference.figure("get-h2", "cpu_us"), reference.figure("fanout-h2-10", "cpu_us")) == (554, 34.0)


def test_ratio_to_http1_is_the_median_of_rounds_that_took_turns() -> None:
    measured = with_h1_ratio(_cpu("get-h2", 120.0), own=[100.0, 360.0, 130.0], http1=[100.0, 300.0, 100.0])
    assert measured.figures == {"cpu_us": 120.0, "h1_ratio": 1.2}
    assert measured.notes == {"h1_ratio_of_rounds": [1.0, 1.2, 1.3]}


def test_transports_stand_side_by_side() -> None:
    measured = {
        "get-h1": {"cpu_us": 100.0},
        "get-h2": {"cpu_us": 120.0, "h1_ratio": 1.2},
        "get-h2-10": {"cpu_us": 50.0, "h1_ratio": 0.5},
        "list-h1": {"cpu_us": 2000.0},
    }
    (row,) = rows(measured, titles(parse([])), recorded())
    assert row.cells() == (
        *("get one 1 kB object", "100 us", "120 us", "1.20x", "50 us", "0.50x"),
        *("554 us", "445 us"),
    )
    assert markdown([row]).splitlines()[2].startswith("| get one 1 kB object | 100 us | 120 us | 1.20x |")


def test_own_growth_excludes_growth_of_the_bare_loop() -> None:
    few = Measurement("few", {"cpu_us": 16.0, "delivery_us": 8.0}, {"floors": {"bare-loop": 5.0}})
    crowd = Measurement("crowd", {"cpu_us": 12.0, "delivery_us": 12.0}, {"floors": {"bare-loop": 7.5}})
    figures = with_growth({"fanout-few": few, "fanout-crowd": crowd})["fanout-crowd"].figures
    assert (figures["growth"], figures["cost_growth"], figures["own_growth"]) == (1.5, 0.75, 1.0)
