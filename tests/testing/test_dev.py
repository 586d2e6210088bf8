"""`rewound dev`: a command with a server of its own, its exit code, and the story when it fails."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from gateway.cli.dev import run_command
from gateway.cli.main import main

# Writes an object to the server that it finds in its environment, as any client does.
PROGRAM = """
import os, pathlib, sys
from gateway.cli.fixture.control_client import ControlClient, RequestFailed

pki = pathlib.Path(os.environ["KUBECONFIG"]).parent / "pki"
client = ControlClient(int(os.environ["REWOUND_URL"].rpartition(":")[2]), pki)
path = "/api/v1/namespaces/default/configmaps"
client.request("POST", path, {"metadata": {"name": "web"}, "data": {"color": "blue"}})
try:
    client.request("PUT", f"{path}/web", {"metadata": {"name": "web"}, "data": {"color": "red"}})
except RequestFailed as refused:
    sys.exit(refused.status - 400)
"""


def test_failing_command_gets_its_story_and_passes_its_exit_code_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(root))
    Path("faults.yaml").write_text("rules: [{fault: {conflict: {}}, match: {verbs: [update]}}]")
    assert main(["dev", "--faults=faults.yaml", "--seed=7", "--", sys.executable, "-c", PROGRAM]) == 9
    printed = capfd.readouterr().err
    assert re.search(r"ended with 9; what happened:\n\nconfigmaps default/web\n +\d+  \S+  admin", printed)
    assert "rewound replay " in printed
    kept = Path("rewound-dev-1.journal").stat()
    assert kept.st_size > 10_000 and kept.st_mode & 0o777 == 0o600


def test_wrong_calls_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["dev"], ["dev", "true"], ["dev", "--"], ["dev", "--nothing", "--", "true"]):
        assert main(words) == 2
        assert "rewound dev -- make test" in (said := capsys.readouterr().err)
        assert ("--nothing: is not a flag" in said) == ("--nothing" in words)
    assert main(["dev", "--seed=7", "--", "true"]) == 2
    assert "rewound dev: --seed: has no effect without --faults" in capsys.readouterr().err
    faults = tmp_path / "faults.yaml"
    faults.write_text("rules: [{fault: {nothing: {}}}]")
    assert main(["dev", f"--faults={faults}", "--", "true"]) == 2
    assert "rewound dev: --faults: rules[0].fault" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["dev", "--help"])
    assert "rewound dev -- kubectl get namespaces" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3", 3),
        ("kill -KILL $$", 137),
        ("trap 'exit 5' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done", 5),  # it comes back
    ],
)
def test_signals_go_to_the_command_and_its_end_is_passed_on(script: str, code: int) -> None:
    assert run_command(["sh", "-c", script], dict(os.environ)) == code
