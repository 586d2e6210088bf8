"""The server as a separate process: started on a folder, killed, started again.

A `Cluster` is one data folder with at most one server at a time. Each start uses a new port. It is a context manager
that kills the process it started, by its pid, on exit.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rewound.journal import failpoints
from tests.ports import reserve_port

LOOPBACK = "127.0.0.1"
TOKEN = "robustness"
# Seconds to become ready, and to end after SIGTERM: many times what a start takes, for a busy machine.
TIMEOUT = 60.0
# Polling takes CPU time from the starting server; a file must be seen before the next step of a start.
_READY_POLL_SECONDS, _FILE_POLL_SECONDS = 0.02, 0.0005


# Runs the command `rewound` after some statements, for behaviour that depends on the machine or would take long.
_TUNED = """
import sys
from rewound.cli.main import main
{statements}
sys.exit(main(sys.argv[1:]))
"""
# When every commit counts as slow, the committer runs all of them in a thread beside the event loop.
_SLOW_DISK = "from rewound.actors.store import committer; committer.SLOW_COMMIT = 0.0"


class DidNotStart(Exception):
    """The server ended with a code, or was not ready in time."""

    def __init__(self, why: str, output: str, code: int | None = None) -> None:
        self.code = code
        super().__init__(f"{why}; end of its log:\n{output}")


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slow_disk = False
        self.tuned: tuple[str, ...] = ()  # statements to run before it starts
        self.secure = False  # serve TLS too
        self.port = 0
        self.secure_port = 0
        self.start_seconds = 0.8  # of the last start; the first is a guess
        self._log = folder / "server.log"
        self._tokens = folder / "tokens.csv"
        self._tokens.write_text(f'{TOKEN},robustness,1,"system:masters"\n')
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def journal(self) -> Path:
        return self.data / "journal"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # Starting.

    def spawn(self, failpoint: str = "", flags: Sequence[str] = ()) -> None:
        """Start a server without waiting for anything. At `failpoint` it kills itself."""
        assert self._process is None, "a server of this folder is still running"
        self.port, self.secure_port = reserve_port(), reserve_port() if self.secure else 0
        environment = {**os.environ, failpoints.VARIABLE: failpoint}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command(), "serve", *self._flags(), *flags],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def _command(self) -> list[str]:
        statements = [*self.tuned, *([_SLOW_DISK] if self.slow_disk else [])]
        if statements:
            return [sys.executable, "-c", _TUNED.format(statements="\n".join(statements))]
        installed = Path(sys.executable).parent / "rewound"
        return [str(installed)] if installed.exists() else [sys.executable, "-m", "rewound.cli.main"]

    def _flags(self) -> tuple[str, ...]:
        return (
            *("--data-dir", str(self.data)),
            *("--secure-port", str(self.secure_port), "--insecure-port", str(self.port)),
            *("--token-auth-file", str(self._tokens), "--authorization-mode", "RBAC"),
        )

    def start(self, failpoint: str = "", flags: Sequence[str] = ()) -> None:
        """Start a server and wait until it is ready."""
        self.spawn(failpoint, flags)
        code = self._until_ready()
        if code is not None:
            self._process = None
            raise DidNotStart(f"the server ended with {code} before it was ready", self._log_tail(), code)

    def _until_ready(self) -> int | None:
        """None when ready; the exit code of a server that ended first."""
        process, began = self._running(), time.monotonic()
        while time.monotonic() < began + TIMEOUT:
            if (code := process.poll()) is not None:
                return code
            if self.ready():
                self.start_seconds = time.monotonic() - began
                return None
            time.sleep(_READY_POLL_SECONDS)
        self.kill()
        raise DidNotStart(f"the server was not ready after {TIMEOUT:.0f} s", self._log_tail())

    def ready(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=TIMEOUT)
        try:
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # Ending.

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal, if there is a process, and do not wait. Any thread may call it."""
        process = self._process
        if process is not None:
            process.send_signal(number)

    def kill(self) -> int | None:
        """Send SIGKILL; returns the exit code, or None when no server was running."""
        self.signal(signal.SIGKILL)
        return self.ended()

    def kill_after(self, seconds: float) -> int | None:
        """Wait this long for its end, then send SIGKILL."""
        try:
            self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        return self.kill()

    def kill_when_exists(self, path: Path) -> int | None:
        """Send SIGKILL as soon as a file exists, or when the server is ready."""
        deadline = time.monotonic() + TIMEOUT
        while self.alive and not path.exists() and not self.ready():
            assert time.monotonic() < deadline, f"neither {path} exists nor is the server ready"
            time.sleep(_FILE_POLL_SECONDS)
        return self.kill()

    def ended(self) -> int | None:
        """Wait for a server that got a signal or will kill itself; returns its exit code."""
        if self._process is None:
            return None
        try:
            code = self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(TIMEOUT)
            raise AssertionError(f"the server did not end in {TIMEOUT:.0f} s:\n{self._log_tail()}") from None
        self._process = None
        return code

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "no server was started"
        return self._process

    # Its log.

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def tracebacks(self) -> str:
        """The log from its first traceback on: the server must never log one."""
        output = self._log.read_text(errors="replace") if self._log.exists() else ""
        found = output.find("Traceback (most recent call last)")
        return "" if found < 0 else output[found : found + 4000]
