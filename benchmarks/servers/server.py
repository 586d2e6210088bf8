"""Starts and stops a server of ours for a run: TLS and plain, a token file, RBAC, its data in the scratch folder.

The settings are those of the bars: everything that costs is on. Starting measures the time from the first
instruction to the first 200 of /readyz, asked every few milliseconds.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.loads.client import Client
from benchmarks.options import ROOT
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.target import Target

TOKEN = "benchmark-admin"
PATIENCE = 60.0  # seconds to become ready, and again to stop
_ASK_EVERY = 0.003  # finer than any difference worth reporting, too rare to slow the start down


class DidNotStart(Exception):
    pass


class Server:
    """One server of ours. `ready_seconds` and `ready_cpu` are what the start took, by the wall and of a core."""

    def __init__(self, folder: Path, *, dialect: str = "cluster", command: str = "") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{TOKEN},bench,bench-uid,"system:masters"\n')
        port, plain_port = free_port(), free_port()
        self._log = folder / "server.log"
        arguments = [
            *_command(command),
            "serve",
            *("--data-dir", str(folder / "data")),
            *("--secure-port", str(port)),
            *("--insecure-port", str(plain_port)),
            # A slow machine needs longer than the usual five minutes to write what a watcher has missed.
            *("--watch-history", "1h"),
            *("--token-auth-file", str(tokens)),
            *("--authorization-mode", "RBAC"),
            *("--dialect", dialect),
        ]
        begin = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log)
        self.target = Target("127.0.0.1", port, True, TOKEN, (self._process.pid,))
        self.plain = Target("127.0.0.1", plain_port, False, TOKEN, (self._process.pid,))
        self.ready_seconds = self._wait_ready(begin)
        self.ready_cpu = cpu_seconds(self.target.pids)

    def _wait_ready(self, begin: float) -> float:
        while time.perf_counter() < begin + PATIENCE:
            if self._process.poll() is not None:
                raise DidNotStart(f"the server ended with {self._process.returncode}:\n{self._said()}")
            if is_ready(self.target):
                return time.perf_counter() - begin
            time.sleep(_ASK_EVERY)
        self.stop()
        raise DidNotStart(f"the server was not ready after {PATIENCE:.0f} seconds:\n{self._said()}")

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def is_ready(target: Target) -> bool:
    client = Client(target, timeout=5)
    try:
        return client.call("GET", "/readyz")[0] == 200
    except OSError:
        return False
    finally:
        client.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _command(given: str) -> list[str]:
    if given:
        return shlex.split(given)
    installed = Path(sys.executable).parent / "rewound"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "gateway.cli.main"]


def fresh_folder(scratch: Path, purpose: str) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=scratch))
