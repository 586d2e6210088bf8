"""Three members of etcd and three nodes as processes on this machine: for `make cluster`, and for tests of faults.

python -m tests.local_cluster        starts them, prints what to do next, and stops all with Ctrl-C
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.etcd_members import ETCD, START_SECONDS, EtcdMembers
from tests.ports import reserve_port

TOKEN = "cluster-token"
INSTALL = (
    "make cluster needs etcd 3.4 or newer: install it (Debian: apt install etcd-server), then run it again"
)


# The command `rewound` with another clock.
_PROGRAM = """
import sys
from rewound.actors.runtime.clock import WallClock
from rewound.gateway.cli.main import main
now = WallClock.now
if {seconds}:
    WallClock.now = lambda clock: now(clock) + round({seconds} * 1_000_000)
sys.exit(main(sys.argv[1:]))
"""


class NodeProcess:
    """One server with its data folder; it may be started again after its end."""

    def __init__(self, name: str, folder: Path, journal: str, flags: Sequence[str]) -> None:
        self.clock_seconds = 0.0  # by which its clock is ahead of the machine's, from its next start on
        self.name = name
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.secure_port, self.port = reserve_port(), reserve_port()
        self._flags = [
            *("--journal", journal, "--data-dir", str(self.data)),
            *("--secure-port", str(self.secure_port), "--insecure-port", str(self.port)),
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """It may have ended by itself: a start without a quorum of etcd gives up."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        program = _PROGRAM.format(seconds=self.clock_seconds)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, "serve", *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this program, which stops the nodes in order
            )

    def is_ready(self) -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/readyz")
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"node {self.name} does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self.resume()
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self.signal(number)
        try:
            self._process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=START_SECONDS)
        self._process = None


class LocalCluster:
    def __init__(self, folder: Path, size: int = 3, flags: Sequence[str] = (), token: str = TOKEN) -> None:
        self.folder = folder
        self.members = EtcdMembers(size, folder)
        endpoints = ",".join(url.partition("//")[2] for url in self.members.urls)
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{token},admin,1,"system:masters"\n')
        common = ("--token-auth-file", str(tokens), *flags)
        self.nodes = [
            NodeProcess(f"node-{number}", folder, f"etcd://{endpoints}/registry", common)
            for number in range(1, size + 1)
        ]

    def start(self) -> None:
        """The first node makes the certificates, which all have in common."""
        self.members.start()
        first, *others = self.nodes
        first.start()
        first.wait_ready()
        for node in others:
            if not (node.data / "pki").exists():
                shutil.copytree(first.data / "pki", node.data / "pki")
            node.start()
        for node in others:
            node.wait_ready()

    def stop(self) -> None:
        for node in self.nodes:
            node.resume()
            node.signal(signal.SIGTERM)
        for node in self.nodes:
            node.stop()
        self.members.kill()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()
        self.members.kill()


@contextmanager
def local_cluster(size: int = 3, flags: Sequence[str] = (), token: str = TOKEN) -> Iterator[LocalCluster]:
    with tempfile.TemporaryDirectory(prefix="rewound-cluster-") as folder:
        cluster = LocalCluster(Path(folder), size, flags, token)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()


def _next_steps(cluster: LocalCluster) -> str:
    first = cluster.nodes[0]
    lines = ["Three members of etcd and three nodes run.", ""]
    lines += [f"  {one.name}  https://127.0.0.1:{one.secure_port}  log {one.log}" for one in cluster.nodes]
    lines += ["", "Next, in another terminal: write through one node, and read through all of them.", ""]
    pki = shlex.quote(str(first.data / "pki"))
    curl = f"curl --cacert {pki}/ca.crt --cert {pki}/admin.crt --key {pki}/admin.key"
    config_maps = "/api/v1/namespaces/default/configmaps"
    body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"hello"}}'
    lines.append(
        f"  {curl} -H 'Content-Type: application/json' -d '{body}' "
        f"https://127.0.0.1:{first.secure_port}{config_maps}"
    )
    lines += [f"  {curl} https://127.0.0.1:{one.secure_port}{config_maps}/hello" for one in cluster.nodes]
    lines += [
        f"  kubectl --kubeconfig {shlex.quote(str(first.data / 'admin.kubeconfig'))} get namespaces",
        "",
        "Kill a process of etcd or of a node, and write through another. docs/cluster.md says what holds.",
        "Stop all with Ctrl-C.",
    ]
    return "\n".join(lines)


def main() -> int:
    if ETCD is None:
        print(INSTALL, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="rewound-cluster-") as folder:
        cluster = LocalCluster(Path(folder), flags=("--dialect", "kubernetes"))
        try:
            print("Starting three members of etcd and three nodes ...", flush=True)
            cluster.start()
            print(_next_steps(cluster), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            print("Stopping.", flush=True)
        finally:
            cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
