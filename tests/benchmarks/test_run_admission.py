"""The workloads of admission run, in this process and on servers with webhooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.run import main
from benchmarks.workloads.admission import TITLES
from benchmarks.workloads.in_process.admission import IN_PROCESS_ADMISSION


def measured(folder: Path, *works: str) -> dict[str, dict[str, dict[str, float]]]:
    places = ["--out", str(folder), "--scratch", str(folder / "scratch")]
    sizes = ["--quick", "--seconds", "0.05", "--warmup", "0.02", "--watchers", "20"]
    assert main([*sizes, *places, "--only", ",".join(works)]) == 0
    (subject,) = json.loads((folder / "latest.json").read_text())["subjects"]
    assert subject["skipped"] == {}
    found: dict[str, dict[str, dict[str, float]]] = subject["measurements"]
    assert not any(one["notes"].get("errors") for one in found.values())
    return found


def test_admission_of_objects_in_this_process(tmp_path: Path) -> None:
    works = [workload.name for workload in IN_PROCESS_ADMISSION]
    assert set(measured(tmp_path, *works)) == set(works)


@pytest.mark.slow
def test_webhooks_that_match_that_do_not_and_that_are_slow(tmp_path: Path) -> None:
    found = measured(tmp_path, "create-webhook", "webhook-slow")
    assert set(found) == {*TITLES, "webhook-slow"}
    assert "extra_us" in found["create-webhook"]["figures"]


@pytest.mark.slow
def test_list_that_a_webhook_converts_makes_one_call(tmp_path: Path) -> None:
    found = measured(tmp_path, "list-converted")
    assert found["list-converted"]["figures"]["calls"] == 1
