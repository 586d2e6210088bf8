"""Runs `make run` until the server is ready, stops it as Ctrl-C does, and fails if anything of that went wrong.

    python3 .ci/serve_once.py [--within SECONDS] [--port PORT] [FOLDER]

It leaves in the clone what a user's first command leaves there: the tests that run next must not notice. A server is
ready when it has printed so and `/readyz` responds with 200. If somebody else uses the port, it says so and takes a
free one: that is no fault of the clone. Only the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

READY = "is ready."
# Installation and start, on a slow machine with a slow network. An idle machine needs half a minute.
WITHIN = 900.0
STOPS_WITHIN = 120.0
# What make prints when a command of it failed; its exit code is the same if the command ended well after the signal.
FAILED = "make: ***"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent.parent)
    parser.add_argument("--within", type=float, default=WITHIN, help="seconds until it must be ready")
    parser.add_argument("--port", type=int, default=6443, help="the port that the server takes by default")
    given = parser.parse_args()
    try:
        serve_once(given.folder, given.port, given.within)
    except Failure as failure:
        print(f"make run: {failure}", file=sys.stderr, flush=True)
        return 1
    print("make run: was ready, and stopped.", flush=True)
    return 0


class Failure(Exception):
    """What `make run` did wrong."""


def serve_once(folder: Path, port: int, within: float) -> None:
    command = ["make", "run"]
    if not _is_free(port):
        port = _free_port()
        print(f"make run: the port is in use; the server takes {port} instead", flush=True)
        command.append(f"FLAGS=--secure-port={port}")
    with Running(command, folder) as running:
        running.wait_until_ready(port, time.monotonic() + within)
        running.stop()


class Running:
    """`make run` in a process group of its own, which gets the signals that a terminal would send."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._make = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        assert self._make.stdout is not None
        self._output = self._make.stdout
        os.set_blocking(self._output.fileno(), False)
        self._printed = ""
        self._authority = folder / "rewound-data" / "pki" / "ca.crt"

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever happened, leave no process behind."""
        self._signal(signal.SIGKILL)
        self._make.wait()
        self._output.close()

    def wait_until_ready(self, port: int, deadline: float) -> None:
        while not (READY in self._printed and _responds(port, self._authority)):
            if self._make.poll() is not None:
                self._read()
                raise Failure(f"ended with {self._make.returncode} before the server was ready")
            if time.monotonic() > deadline:
                raise Failure("the server was not ready in time")
            time.sleep(0.1)
            self._read()

    def stop(self) -> None:
        self._signal(signal.SIGINT)
        deadline = time.monotonic() + STOPS_WITHIN
        while self._make.poll() is None or self._signal(0):
            if time.monotonic() > deadline:
                raise Failure("it did not stop after SIGINT")
            time.sleep(0.1)
            self._read()
        self._read()
        if FAILED in self._printed:
            raise Failure("the server failed after SIGINT")

    def _signal(self, number: int) -> bool:
        """Returns whether any process of the group is left."""
        try:
            os.killpg(self._make.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _read(self) -> None:
        """Print what it printed."""
        while more := self._output.read():
            text = more.decode(errors="replace")
            self._printed += text
            print(text, end="", flush=True)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _responds(port: int, authority: Path) -> bool:
    """Whether `/readyz` does, with 200 and a certificate of this folder's CA."""
    try:
        context = ssl.create_default_context(cafile=authority)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


if __name__ == "__main__":
    sys.exit(main())
