"""A server, or another command of ours, whose holds, processor time and memory the fuzzer reads."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.loads.client import Client
from benchmarks.options import ROOT
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.server_process import DidNotStart, ServerProcess, free_port, is_ready

USER: Final = "growth-user"  # the ClusterRole admin in the namespace default
VERSION: Final = "1.36"
_GRANT: Final = {
    "metadata": {"name": "growth"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
}
_REPORTING: Final = f"{sys.executable} -m benchmarks.attacks.growth.reporting"
_STARTS: Final = 120.0  # seconds, on a busy machine
_LOOKS: Final = 0.1  # seconds between two looks
_IDLE: Final = 0.1  # share of a processor that an idle process uses at most


class Used(msgspec.Struct, frozen=True):
    cpu: float
    hold: float
    stack: list[str]
    memory: int


class Reports:
    """The connection to the thread that reports."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rw")

    def reset(self) -> None:
        self._ask("reset")

    def read(self) -> Used:
        return msgspec.convert(self._ask("read"), Used)

    def settle(self, most: float) -> Used:
        """Wait until the process is idle, or has used this much processor time."""
        used = self.read()
        while True:
            time.sleep(_LOOKS)
            before, used = used, self.read()
            if used.cpu - before.cpu < _IDLE * _LOOKS or used.cpu > most:
                return used

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _ask(self, line: str) -> Any:
        self._lines.write(line + "\n")
        self._lines.flush()
        return json.loads(self._lines.readline())


class Measured(msgspec.Struct, frozen=True):
    """A running server, and the process that is measured: the server, or one that reads from it."""

    endpoint: Endpoint
    admin: Endpoint
    reports: Reports

    def client(self, *, admin: bool, timeout: float) -> Client:
        return Client(self.admin if admin else self.endpoint, timeout)


@contextmanager
def measured_server(*flags: str, recorded: bool = False) -> Iterator[Measured]:
    """A server; if it is `recorded`, a recorder of it is measured."""
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    path = folder / "reports"
    server = ServerProcess(
        folder / "server",
        dialect="kubernetes",
        command="" if recorded else f"{_REPORTING} {path}",
        flags=("--kubernetes-version", VERSION, *flags),
        users=(f"{USER},{USER},{USER}-uid",),
    )
    try:
        admin = server.plain_endpoint
        with Client(admin) as client:
            client.expect(
                "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", _GRANT
            )
        with _recorder(folder, path, admin) if recorded else _nothing():
            reports = _connect(path)
            try:
                reports.settle(60)
                yield Measured(replace(admin, token=USER), admin, reports)
            finally:
                reports.close()
    finally:
        kill(server.endpoint.pids[0])
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _recorder(folder: Path, path: Path, admin: Endpoint) -> Iterator[None]:
    rules = folder / "rules.yaml"
    rules.write_text(RULES)
    command = [*_REPORTING.split(), str(path), "flight", "-s", admin.url, "--token", admin.token]
    port = free_port()
    options = ["--rules", str(rules), "--insecure-port", str(port), "--secure-port", "0"]
    log = (folder / "flight.log").open("wb")
    process = subprocess.Popen([*command, *options, str(folder / "flight")], cwd=ROOT, stdout=log, stderr=log)
    try:
        _wait_until_ready(Endpoint("127.0.0.1", port, False, "", (process.pid,)))
        yield
    finally:
        process.kill()
        process.wait()
        log.close()


RULES: Final = """apiVersion: rewound.cluster.io/v1alpha1
kind: Rules
rules:
- name: loops
  expression: event.kind == "ConfigMap" && object.?data.orValue({}).exists(k, k.endsWith(object.data[k]))
- name: nested-loops
  expression: event.kind == "ConfigMap" && object.?data.orValue({}).exists(a, object.data.exists(b, a + b == "x"))
- name: patterns
  expression: event.kind == "ConfigMap" && object.?data.orValue({}).exists(k, object.data[k].matches("(a|aa)+$"))
"""


def _wait_until_ready(recorder: Endpoint) -> None:
    """It has listed every kind, and what it compiles once is not measured."""
    ends = time.monotonic() + _STARTS
    while not is_ready(recorder):
        if time.monotonic() > ends:
            raise DidNotStart("the recorder was not ready in time")
        time.sleep(_LOOKS)


def _connect(path: Path) -> Reports:
    ends = time.monotonic() + _STARTS
    while not path.exists() and time.monotonic() < ends:
        time.sleep(_LOOKS)
    return Reports(path)


def kill(pid: int) -> None:
    """A server whose loop is held does not end by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
