"""The workloads of custom resources run on servers of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.run import main
from benchmarks.workloads.custom.definitions import TITLES
from benchmarks.workloads.custom.objects import CREATES, GETS


@pytest.mark.slow
def test_custom_resources_and_definitions_are_measured(tmp_path: Path) -> None:
    sizes = ["--quick", "--seconds", "0.05", "--warmup", "0.02"]
    places = ["--out", str(tmp_path), "--scratch", str(tmp_path / "scratch")]
    assert main([*sizes, *places, "--only", "create-custom,get-custom,define-many"]) == 0
    (subject,) = json.loads((tmp_path / "latest.json").read_text())["subjects"]
    assert subject["skipped"] == {}
    found = subject["measurements"]
    assert set(found) == {*CREATES, *GETS, *TITLES}
    assert not any(one["notes"].get("errors") for one in found.values())
    assert all("config_map_ratio" in found[work]["figures"] for work in ("create-custom", "get-custom"))
    assert {"seconds", "mb"} <= set(found["start-custom"]["figures"])
