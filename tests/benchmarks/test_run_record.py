"""The workload that records a server runs on one of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.run import main


@pytest.mark.slow
def test_recording_is_measured(tmp_path: Path) -> None:
    places = ["--out", str(tmp_path), "--scratch", str(tmp_path / "scratch")]
    assert main(["--quick", *places, "--only", "record"]) == 0
    (subject,) = json.loads((tmp_path / "latest.json").read_text())["subjects"]
    assert subject["skipped"] == {}
    assert {"seconds", "cpu_seconds", "cpu_us"} <= set(subject["measurements"]["record"]["figures"])
