"""A run that starts our server: the flags that it uses exist, the workloads succeed, no file is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.run import main

WORKS = ("memory-idle", "start", "create", "patch", "apply", "patch-contended", "get", "page-small-deep")
TRANSPORTS = {"get-h1", "get-h2", "get-h2-10", "create-h1", "create-h2", "create-h2-10"}


@pytest.mark.slow
def test_run_starts_and_measures_our_server(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    sizes = ["--quick", "--seconds", "0.05", "--warmup", "0.02", "--deletes", "40"]
    places = ["--out", str(tmp_path), "--scratch", str(scratch)]
    assert main([*sizes, *places, "--only", ",".join([*WORKS, "get-h2", "create-h2-10"])]) == 0
    document = json.loads((tmp_path / "latest.json").read_text())
    (subject,) = document["subjects"]
    assert (subject["name"], subject["skipped"]) == ("rewound", {})
    assert set(subject["measurements"]) == {*WORKS, *TRANSPORTS}
    errors = {work: each["notes"].get("errors", 0) for work, each in subject["measurements"].items()}
    assert not any(errors.values()), errors
    figures = {work: set(subject["measurements"][work]["figures"]) for work in TRANSPORTS}
    assert {"cpu_us", "floor_ratio", "h1_ratio"} <= figures["get-h2"] & figures["get-h2-10"]
    assert "h1_ratio" in figures["create-h2-10"] and "h1_ratio" not in figures["create-h1"]
    assert {"get", "create", "start", "memory-idle"} <= {target["work"] for target in document["bars"]}
    assert (tmp_path / "latest.svg").exists()
    assert list(scratch.iterdir()) == [], "left behind"
