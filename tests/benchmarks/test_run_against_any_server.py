"""A whole run against a server that already runs: the workloads, the JSON, the tables."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from benchmarks.options import parse
from benchmarks.run import main
from benchmarks.workloads.catalog import GROUPS, SERVER_WORKLOADS, chosen
from tests.benchmarks.fake_server import TOKEN, FakeServer, fake_server


def _run(server: FakeServer, folder: Path, *arguments: str, token: str = TOKEN) -> int:
    where = ["--url", server.url, "--token", token, "--pids", str(os.getpid())]
    sizes = ["--quick", "--seconds", "0.03", "--warmup", "0.01", "--deletes", "20", "--large", "400"]
    return main([*where, *sizes, "--out", str(folder), "--scratch", str(folder / "scratch"), *arguments])


def _document(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "latest.json").read_text())
    return document


# One of each form; all of them take half a minute.
SOME_WORKLOADS = (
    *("start", "restart", "create", "update", "delete", "get", "list", "list-selector"),
    *("page-first", "page-deep", "page-behind", "fanout", "fanout-plain-few", "fanout-plain-websocket"),
    *("stalled-plain", "catch-up-plain", "get-h2", "stalled-plain-h2"),
)


@pytest.mark.slow
def test_run_measures_workloads_of_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = _measured(tmp_path, capsys, SOME_WORKLOADS)
    (subject,) = document["subjects"]
    assert set(SOME_WORKLOADS) == set(subject["measurements"]) | set(subject["skipped"])


@pytest.mark.slow
def test_run_measures_every_workload_of_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = {each.name for each in SERVER_WORKLOADS} - GROUPS["http2"] | {"get-h2", "stalled-plain-h2"}
    document = _measured(tmp_path, capsys, every)
    measured = document["subjects"][0]["measurements"]
    for work in ("fanout-plain-crowd", "burst-plain"):
        assert {"rate", "cpu_us", "delivery_us", "floor_ratio"} <= set(measured[work]["figures"])
    assert {"idle-plain", "reconnect-plain"} <= set(measured)


def _measured(folder: Path, capsys: pytest.CaptureFixture[str], works: Collection[str]) -> dict[str, Any]:
    """Run, and check what is true of some workloads and of all."""
    with fake_server() as server:
        assert _run(server, folder, "--only", ",".join(works)) == 0
        assert not [path for path in server.store.objects if "/configmaps/" in path], "left behind"
    document = _document(folder)
    (subject,) = document["subjects"]
    measured = subject["measurements"]
    assert subject["version"] == "v0.0-fake"
    assert {"start", "restart", "fanout", "fanout-plain-websocket"} <= set(subject["skipped"])
    assert "not known to listen with TLS" in subject["skipped"]["get-h2"]
    assert "does not speak HTTP/2" in subject["skipped"]["stalled-plain-h2"]
    assert {"get", "list", "page-deep", "page-behind", "create", "update", "delete"} <= set(measured)
    for work in ("get", "create", "update", "delete", "list-selector", "page-deep"):
        assert {"rate", "cpu_us", "p50_ms", "p95_ms", "p99_ms", "max_ms"} <= set(measured[work]["figures"])
        assert measured[work]["notes"]["errors"] == 0
    assert {"rate", "cpu_us", "delivery_us", "floor_ratio"} <= set(measured["fanout-plain-few"]["figures"])
    assert {"stalled-plain", "catch-up-plain"} <= set(measured)
    assert measured["get"]["figures"]["floor_ratio"] > 0
    assert {"echo-plain", "echo-tls", "commit-16"} <= set(document["floors"])
    assert {"cores", "architecture", "python", "libraries", "file_system"} <= set(document["machine"])
    assert document["bars"] == [], "targets hold for our server only"
    printed = capsys.readouterr().out
    assert "get one 1 kB object" in printed
    assert f"Python {document['machine']['python']}, {document['machine']['python_build']}; " in printed
    return document


def test_only_option_limits_workloads_and_baselines(tmp_path: Path) -> None:
    with fake_server() as server:
        assert _run(server, tmp_path, "--only", "list") == 0
        lists = [line for line in server.store.requests if line.endswith("/configmaps") and "GET" in line]
    assert lists
    document = _document(tmp_path)
    assert list(document["subjects"][0]["measurements"]) == ["list"]
    assert document["floors"] == {}


def test_only_option_takes_a_group() -> None:
    options = parse(["--only", "http2,get"])
    assert {"get-h2", "create-h2", "fanout-h2", "burst-plain-h2", "idle-h2-10", "get"} <= chosen(options)
    assert not {"list", "fanout", "journal-open"} & chosen(options)


def test_wrong_token_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_server() as server:
        _run(server, tmp_path, "--only", "get", token="wrong")
    assert "401" in capsys.readouterr().err


def test_unknown_workload_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nonsense"]) == 2
    assert "no such workload: nonsense" in capsys.readouterr().err


def test_list_option_prints_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "list 2,000 of 1 kB" in capsys.readouterr().out
