"""Watch workloads run against our server with a few watchers each and return their figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.run import main

FIGURES = {
    "fanout-plain-websocket": {"cpu_us", "delivery_us", "floor_ratio"},
    "fanout-groups": {"cpu_us", "delivery_us"},
    "burst-plain": {"rate", "cpu_us", "others_p99_ms"},
    "stalled": {"p99_ms", "p99_ratio", "grown_mb"},
    "catch-up-plain": {"rate", "cpu_us", "seconds"},
    "idle-plain": {"rate", "cpu_us", "kb"},
    "reconnect": {"seconds", "cpu_us", "p99_ms"},
    "fanout-h1": {"cpu_us", "delivery_us", "floor_ratio", "last_ms", "all_ms"},
    "fanout-h2": {"cpu_us", "delivery_us", "floor_ratio", "h1_ratio"},
    "fanout-h2-10": {"cpu_us", "delivery_us", "floor_ratio", "h1_ratio"},
    "stalled-plain-h2-window": {"p99_ms", "p99_ratio", "grown_mb"},
}
SOME = ("fanout-plain-websocket", "catch-up-plain", "fanout-h1", "fanout-h2", "fanout-h2-10", "stalled")


@pytest.mark.slow
@pytest.mark.parametrize(
    "works", [pytest.param(SOME, id="some"), pytest.param(tuple(FIGURES), marks=pytest.mark.slow, id="all")]
)
def test_run_measures_watches_of_our_server(tmp_path: Path, works: tuple[str, ...]) -> None:
    scratch = tmp_path / "scratch"
    places = ["--out", str(tmp_path), "--scratch", str(scratch)]
    assert main(["--quick", *places, "--only", ",".join(works)]) == 0
    document = json.loads((tmp_path / "latest.json").read_text())
    (subject,) = document["subjects"]
    measured = subject["measurements"]
    assert subject["skipped"] == {}
    assert {work: FIGURES[work] - set(measured[work]["figures"]) for work in works} == {
        work: set() for work in works
    }
    for work in {"stalled", "stalled-plain-h2-window"} & set(works):
        assert measured[work]["notes"]["delivered_when_they_read_again"] > 0
    if "reconnect" in works:
        assert measured["reconnect"]["notes"]["deliveries"] == 30 * 100
    assert {"fanout-h2", "burst-plain", "stalled", "idle-plain"} & set(works) <= {
        target["work"] for target in document["bars"]
    }
    assert list(scratch.iterdir()) == [], "left behind"
