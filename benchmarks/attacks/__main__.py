"""`python -m benchmarks.attacks`: runs each attack against a new server, and measures what another client notices.

The other client sends a get every 50 ms over TLS, on a new connection each time where connections are attacked. The
attacker is a separate process, so that with the server two cores are busy. Reported are the latencies of the gets,
the largest anonymous memory of the server beside its `--memory-limit`, the longest hold of the event loop as the
server's own watchdog measured it, and who can do it. `met` says whether the row is within the limits: a p99 of 150
ms, or three times that without an attack and 100 ms more, whichever is more, and the memory limit with a tenth more.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.attacks.attacker import ATTACKS
from benchmarks.attacks.history import NAMESPACE, TEMPLATE, fill
from benchmarks.attacks.lists import COLLECTION, OBJECTS
from benchmarks.attacks.outside import FLAGS, GRANTS, USERS
from benchmarks.attacks.target import NOBODY, Attack, Target
from benchmarks.loads.client import Client
from benchmarks.loads.latency import summary
from benchmarks.options import ROOT
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.files import raise_file_limit
from benchmarks.servers.server_process import ServerProcess, free_port, fresh_folder

INTERVAL = 0.05
LIMIT_MB = 512
P99_MS = 150
VICTIM = "/api/v1/namespaces/default/configmaps/victim"
HOLD = "rewound_event_loop_longest_hold_seconds"


class MemorySampler(threading.Thread):
    """Reads the anonymous memory of a process until it is stopped; `most` is the largest, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self.most = 0.0

    def run(self) -> None:
        while not self._over.wait(0.02):
            try:
                lines = self._status.read_text().splitlines()
            except OSError:
                return
            for line in lines:
                if line.startswith("RssAnon:"):
                    self.most = max(self.most, int(line.split()[1]) / 1024)

    def stop(self) -> float:
        self._over.set()
        self.join()
        return self.most


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="attacks whose name contains this")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack (default 10)")
    parser.add_argument("--command", default="", help="the command rewound, to measure another release")
    parser.add_argument("--no-limit", action="store_true", help="without --memory-limit, for older releases")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--save", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    raise_file_limit()  # of the server and of the attacker
    names = [name for name in ATTACKS if not options.only or any(part in name for part in options.only)]
    figures: dict[str, dict[str, float]] = {}
    print("| attack | who | p50 ms | p99 ms | max ms | memory MB | longest hold ms | failed gets | met |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in [QUIET, *names]:
        attack = ATTACKS.get(name, NO_ATTACK)
        hostile_port = free_port()
        with _server(options, attack, hostile_port) as server:
            figures[name] = _attacked(name, attack, server, options.seconds, hostile_port)
        print(_row(name, attack, figures[name], figures[QUIET]), flush=True)
    if options.save:
        options.save.write_text(json.dumps({"limit_mb": LIMIT_MB, "attacks": figures}, indent=2) + "\n")


async def _nothing(target: Target) -> None:
    await target.over()


QUIET = "no attack"
NO_ATTACK = Attack(_nothing, "")


@contextmanager
def _server(options: argparse.Namespace, attack: Attack, hostile_port: int) -> Iterator[ServerProcess]:
    folder = fresh_folder(options.scratch, "attacks")
    flags = FLAGS if options.no_limit else (*FLAGS, "--memory-limit", f"{LIMIT_MB}Mi")
    if attack.flags is not None:
        flags = (*flags, *attack.flags(folder, hostile_port))
    users = (f"{NOBODY},nobody,nobody-uid", *USERS)
    try:
        if attack.journal:
            _fill_journal(folder)
        server = ServerProcess(
            folder, dialect=attack.dialect, command=options.command, flags=flags, users=users
        )
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attacked(
    name: str, attack: Attack, server: ServerProcess, seconds: float, hostile_port: int
) -> dict[str, float]:
    with Client(server.endpoint) as client:
        _create(client, "default", "victim")
        if attack.collection:
            _fill(client)
        for path, document in _in_dialect(attack.dialect).items():
            client.expect("POST", path, document)
    sampler = MemorySampler(server.endpoint.pids[0])
    sampler.start()
    attacker: subprocess.Popen[bytes] | None = None
    if name in ATTACKS:
        command = [sys.executable, "-m", "benchmarks.attacks.attacker", name]
        ports = str(hostile_port), str(server.endpoint.port)
        arguments = [str(server.plain_endpoint.port), str(seconds), *ports]
        attacker = subprocess.Popen([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE)
        assert attacker.stdout is not None
        attacker.stdout.readline()
    # An exempt user waits for no one: where flow control is attacked, the other client is a user of the same level.
    endpoint = replace(server.endpoint, token=attack.other)
    latencies, failed = _gets(endpoint, seconds, connects=attack.connects)
    figures = {**summary(latencies), "failed": failed, "memory_mb": round(sampler.stop(), 1)}
    if attacker is not None:
        attacker.wait(60)
    with Client(server.endpoint) as client:
        figures["hold_ms"] = round(_metric(str(client.call("GET", "/metrics")[1])) * 1000, 1)
    return figures


def _in_dialect(dialect: str) -> dict[str, Any]:
    if dialect == "cluster":
        return GRANTS
    grants: dict[str, Any] = json.loads(json.dumps(GRANTS).replace(".cluster.io", ".k8s.io"))
    return grants


def _gets(endpoint: Endpoint, seconds: float, *, connects: bool) -> tuple[list[float], int]:
    """The seconds of every get, on a new connection each or not, and how many failed."""
    latencies: list[float] = []
    failed = 0
    ends = time.perf_counter() + seconds + 1
    client = Client(endpoint)
    while (began := time.perf_counter()) < ends:
        if connects:
            client.close()  # the next call connects again
        try:
            failed += client.call("GET", VICTIM)[0] != 200
        except OSError:
            failed += 1
            client.close()
            client = Client(endpoint)
        latencies.append(time.perf_counter() - began)
        time.sleep(max(0.0, INTERVAL - latencies[-1]))
    client.close()
    return latencies, failed


def _create(client: Client, namespace: str, name: str, data: dict[str, str] | None = None) -> None:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    if data:
        body["data"] = data
    client.expect("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)


def _fill_journal(folder: Path) -> None:
    server = ServerProcess(folder)
    try:
        with Client(server.endpoint) as client:
            _create_namespace(client)
            _create(client, NAMESPACE, TEMPLATE, {"key": "x" * 100})
    finally:
        server.stop()
    fill(folder / "data" / "journal")


def _create_namespace(client: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    client.expect("POST", "/api/v1/namespaces", body)


def _fill(client: Client) -> None:
    _create_namespace(client)
    for index in range(OBJECTS):
        _create(client, COLLECTION.split("/")[4], f"o-{index:06d}", {"key": "x" * 400})


def _metric(text: str) -> float:
    for line in text.splitlines():
        if line.startswith(HOLD + " "):
            return float(line.split()[1])
    return 0.0


def _row(name: str, attack: Attack, figures: dict[str, float], quiet: dict[str, float]) -> str:
    cells = [figures.get(each, 0) for each in ("p50", "p99", "max", "memory_mb", "hold_ms", "failed")]
    in_time = figures["p99"] <= max(P99_MS, 3 * quiet["p99"] + 100)
    met = in_time and figures["memory_mb"] <= 1.1 * LIMIT_MB and not figures["failed"]
    texts = [name, attack.who, *(f"{cell:g}" for cell in cells), "yes" if met else "NO"]
    return "| " + " | ".join(texts) + " |"


if __name__ == "__main__":
    main()
