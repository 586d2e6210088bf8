"""`make run` starts a server that becomes ready, as `.ci/run` checks before the tests."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.current_folder import ROOT
from tests.ports import reserve_port

SCRIPT = ROOT / ".ci" / "serve_once.py"


def serve_once(folder: Path, command: str, *flags: str) -> tuple[int, str]:
    """Run the script in a folder where `make run` runs this command; return exit code and output."""
    (folder / "Makefile").write_text(f"run:\n\t{command}\n")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *flags, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout


def test_server_is_ready_and_stops_although_its_port_is_in_use(tmp_path: Path) -> None:
    command = f"{sys.executable} -m rewound.cli.main serve $(FLAGS)"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = serve_once(tmp_path, command, f"--port={taken.getsockname()[1]}")
    assert code == 0, output
    assert "the port is in use" in output and "Rewound" in output
    assert output.endswith("make run: was ready, and stopped.\n")
    assert (tmp_path / "rewound-data" / "admin.kubeconfig").exists()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo no; exit 1", "before the server was ready"),
        ("echo is ready.; sleep 600", "the server was not ready in time"),
    ],
)
def test_server_that_does_not_start_is_a_failure(tmp_path: Path, command: str, expected: str) -> None:
    code, output = serve_once(tmp_path, command, "--within=1", f"--port={reserve_port()}")
    assert code == 1 and expected in output, output
