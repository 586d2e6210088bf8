"""The workloads of history run the functions that they measure."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.run import main
from benchmarks.workloads.in_process.rewind import REWIND


def test_run_measures_every_history_workload(tmp_path: Path) -> None:
    works = [workload.name for workload in REWIND]
    places = ["--out", str(tmp_path), "--scratch", str(tmp_path / "scratch")]
    assert main(["--quick", "--seconds", "0.01", *places, "--only", ",".join(works)]) == 0
    document = json.loads((tmp_path / "latest.json").read_text())
    (subject,) = document["subjects"]
    assert list(subject["measurements"]) == works
    assert [target["work"] for target in document["bars"]] == works
