"""Starts and stops a server of ours for a run: TLS and plain HTTP, a token file, RBAC, its data in the scratch folder.

These settings are those for which the targets hold: everything that costs CPU is on. The start is measured from
process creation to the first 200 of /readyz, polled every few milliseconds.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.loads.client import Client
from benchmarks.options import ROOT
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.endpoint import Endpoint

TOKEN = "benchmark-admin"
TIMEOUT = 60.0  # seconds to become ready, and again to stop
_POLL_INTERVAL = 0.003  # seconds; finer than any difference worth reporting, too rare to slow the start down


class DidNotStart(Exception):
    pass


class ServerProcess:
    """A server of ours. `ready_seconds` and `ready_cpu` are the wall time and the CPU seconds that its start took."""

    def __init__(
        self,
        folder: Path,
        *,
        dialect: str = "cluster",
        command: str = "",
        flags: Sequence[str] = (),
        users: Sequence[str] = (),  # more lines of the token file
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        tokens = folder / "tokens.csv"
        tokens.write_text("\n".join([f'{TOKEN},bench,bench-uid,"system:masters"', *users, ""]))
        port, plain_port = free_port(), free_port()
        self._log = folder / "server.log"
        arguments = [
            *server_command(command),
            "serve",
            *("--data-dir", str(folder / "data")),
            *("--secure-port", str(port)),
            *("--insecure-port", str(plain_port)),
            # A slow machine needs more than the default five minutes to write the events that a watcher misses.
            *("--watch-history", "1h"),
            *("--token-auth-file", str(tokens)),
            *("--dialect", dialect),
            *flags,
        ]
        begin = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log)
        self.endpoint = Endpoint("127.0.0.1", port, True, TOKEN, (self._process.pid,))
        self.plain_endpoint = Endpoint("127.0.0.1", plain_port, False, TOKEN, (self._process.pid,))
        self.ready_seconds = self._wait_ready(begin)
        self.ready_cpu = cpu_seconds(self.endpoint.pids)

    def _wait_ready(self, begin: float) -> float:
        while time.perf_counter() < begin + TIMEOUT:
            if self._process.poll() is not None:
                raise DidNotStart(f"the server ended with {self._process.returncode}:\n{self._log_tail()}")
            if is_ready(self.endpoint):
                return time.perf_counter() - begin
            time.sleep(_POLL_INTERVAL)
        self.stop()
        raise DidNotStart(f"the server was not ready after {TIMEOUT:.0f} seconds:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def is_ready(endpoint: Endpoint) -> bool:
    client = Client(endpoint, timeout=5)
    try:
        return client.call("GET", "/readyz")[0] == 200
    except OSError:
        return False
    finally:
        client.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def server_command(given: str) -> list[str]:
    """The command `rewound` of this checkout, unless another is given."""
    if given:
        return shlex.split(given)
    installed = Path(sys.executable).parent / "rewound"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "rewound.cli.main"]


def worker_flags(workers: int) -> tuple[str, ...]:
    """The flags of a server with this many worker processes; one process is the default, without workers."""
    return ("--workers", str(workers)) if workers > 1 else ()


def fresh_folder(scratch: Path, purpose: str) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=scratch))
