"""Charts are well-formed, show what was measured and omit what was not."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.options import parse
from benchmarks.reports.charts import charts
from benchmarks.reports.measurement import Measurement, with_h1_ratio
from benchmarks.reports.report import Report, SubjectResults
from benchmarks.workloads.catalog import titles

HERE = {"cores": 2, "architecture": "any"}
BASELINES = {name: Measurement(name, {"cpu_us": 50.0}) for name in ("echo-plain", "echo-tls", "commit-16")}
OURS = {"get": 120.0, "create": 300.0, "page-small-first": 500.0, "page-deep": 510.0, "fanout": 10.6}
HTTP2 = {"get-h1": 100.0, "get-h2": 120.0}


def _report(*subjects: SubjectResults) -> Report:
    options = parse([])
    return Report(options, HERE, titles(options), BASELINES, subjects)


def _subject(name: str, cpu: dict[str, float]) -> SubjectResults:
    measured = {work: Measurement(work, {"cpu_us": value}) for work, value in cpu.items()}
    if "get-h2" in measured:
        measured["get-h2"] = with_h1_ratio(measured["get-h2"], own=[120.0], http1=[100.0])
    if "get" in measured:
        figures = {**measured["get"].figures, "floor_ratio": 2.4}
        measured["get"] = Measurement("get", figures, {"floors": {"echo-tls": 50.0}})
    if "fanout" in measured:
        figures = {**measured["fanout"].figures, "delivery_us": 10.1, "floor_ratio": 1.01}
        measured["fanout"] = Measurement("fanout", figures, {"floors": {"bare-loop": 10.0}})
    return SubjectResults(name, "v1", True, measured, {})


def _text(chart: str) -> str:
    return " ".join(ElementTree.fromstring(chart).itertext())


def test_all_charts_show_their_figures() -> None:
    drawn = charts(_report(_subject("rewound", OURS | HTTP2)))
    assert set(drawn) == {"", "-pages", "-baselines", "-watchers", "-transports"}
    assert "120 µs  (1.20x)" in _text(drawn["-transports"])
    assert "120 µs / 554 µs  (22%)" in _text(drawn[""])
    assert "120 µs / 660 µs  (18%)" in _text(drawn[""])
    assert "510 µs" in _text(drawn["-pages"])
    assert "120 µs  (2.4x)" in _text(drawn["-baselines"])
    assert "10.1 µs  (1.01x)" in _text(drawn["-watchers"])


def test_reference_of_the_same_run_takes_precedence_over_the_recorded() -> None:
    drawn = charts(_report(_subject("rewound", OURS), _subject("other", {"get": 240.0})))
    assert "120 µs / 240 µs  (50%)" in _text(drawn[""])
    assert "measured in the same run" in _text(drawn[""])


def test_run_without_our_server_has_no_charts() -> None:
    assert charts(_report(_subject("other", OURS))) == {}
