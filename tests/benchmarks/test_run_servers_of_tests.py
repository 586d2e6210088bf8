"""The workload of servers for tests starts and restores such servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.run import main


@pytest.mark.slow
def test_run_measures_starts_and_restores(tmp_path: Path) -> None:
    places = ["--out", str(tmp_path), "--scratch", str(tmp_path / "scratch")]
    assert main(["--quick", *places, "--only", "fixture-start"]) == 0
    document = json.loads((tmp_path / "latest.json").read_text())
    (subject,) = document["subjects"]
    assert list(subject["measurements"]) == ["fixture-start", "fixture-restore"]
    assert [target["work"] for target in document["bars"]] == ["fixture-start", "fixture-restore"]
