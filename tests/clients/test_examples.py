"""The helpers for Go and Node.js in docs/examples start servers for the tests of a project that has copied them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.program import TIMEOUT
from tests.gateway.processes import ROOT

EXAMPLES = ROOT / "docs" / "examples"
# As a failing test prints it, with the mark or the indentation of the program that ran it.
STORY = re.compile(
    r"what happened:\s+configmaps default/web\s+\d+  \S+  admin \(\S+\)  create  \d+ B\s+"
    r'\+ data\.color: "blue"\s+the journal is saved: rewound replay \S+\.journal'
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment with `rewound` on PATH, and one test that must fail."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "FAIL": "1", "HOME": str(tmp_path)}


def test_example_for_go_starts_servers(go: str, tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copytree(EXAMPLES / "go", tmp_path / "project")
    # As `make clients` compiles the standard library, so that it is in the cache.
    offline = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    cache = {"GOCACHE": str(ROOT / ".clients" / "cache"), "GOPATH": str(tmp_path / "go")}
    printed = output_of(
        [go, "test", "-v", "-vet=off", "-gcflags=all=-N -l", "./..."],
        tmp_path / "project",
        {**environment, **offline, **cache},
    )
    assert "--- PASS: TestServerIsRestoredAndItsClockMoves" in printed, printed
    assert "--- FAIL: TestStory" in printed
    assert STORY.search(printed), printed


def test_example_for_node_starts_servers(node: str, tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copytree(EXAMPLES / "npm", tmp_path / "project")
    printed = output_of([node, "--test", "--test-reporter=spec"], tmp_path / "project", environment)
    for line in (
        "✔ the server is restored, and its clock moves",
        "✖ a failing test gets its story",
        "✔ wrong flags are explained",
    ):
        assert line in printed, printed
    assert STORY.search(printed), printed


def output_of(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=2 * TIMEOUT
    )
    assert run.returncode == 1, run.stdout + run.stderr
    return run.stdout + run.stderr
