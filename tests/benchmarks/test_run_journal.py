"""The journal workloads run on a journal of a few hundred events."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.run import main
from benchmarks.workloads.journal import JOURNAL


def test_run_measures_every_workload_of_the_journal(tmp_path: Path) -> None:
    works = [workload.name for workload in JOURNAL]
    sizes = ["--quick", "--events", "600", "--seconds", "0.02", "--warmup", "0"]
    scratch = tmp_path / "scratch"
    places = ["--out", str(tmp_path), "--scratch", str(scratch)]
    assert main([*sizes, *places, "--only", ",".join(works)]) == 0
    document = json.loads((tmp_path / "latest.json").read_text())
    (subject,) = document["subjects"]
    measured = subject["measurements"]
    assert list(measured) == works
    assert measured["journal-append"]["figures"]["floor_ratio"] > 0
    assert measured["journal-replay"]["notes"] == {"events": 600, "objects": 60}
    assert measured["journal-past"]["notes"]["items"] == 60
    assert measured["journal-snapshot"]["notes"]["objects"] == 60
    assert [target["work"] for target in document["bars"]] == ["journal-open"]
    assert list(scratch.iterdir()) == [], "left behind"
