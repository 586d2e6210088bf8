"""Three etcd members and three nodes as processes on this machine, for `make cluster` and for fault tests.

python -m tests.local_cluster        starts them, prints what to do next, and stops all with Ctrl-C
"""

from __future__ import annotations

import mmap
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.etcd_members import ETCD, START_SECONDS, EtcdMembers
from tests.network import Link, Network
from tests.ports import reserve_port

TOKEN = "cluster-token"
INSTALL = (
    "make cluster needs etcd 3.4 or newer: install it (Debian: apt install etcd-server), then run it again"
)


# The command `rewound` with a wall clock that the test can step: a file has the seconds by which it is ahead.
_PROGRAM = """
import mmap, struct, sys, time
with open(sys.argv.pop(1), "rb") as file:
    ahead = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
seconds, nanoseconds = time.time, time.time_ns
time.time = lambda: seconds() + struct.unpack("d", ahead)[0]
time.time_ns = lambda: nanoseconds() + round(struct.unpack("d", ahead)[0] * 1e9)
from rewound.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class NodeProcess:
    """One server with its data folder; it can be started again after it ends."""

    def __init__(
        self, name: str, folder: Path, journal: str, flags: Sequence[str], *, steps_clock: bool
    ) -> None:
        """`steps_clock`: use a wall clock that `set_clock` can step; it is slower to read.

        Without `journal`, it orders its journal itself.
        """
        self.name = name
        self.release: Path | None = None  # a folder with another release, which runs at the next start
        self.data = folder / name
        self._command = ["-m", "rewound"]
        self._clock = folder / f"{name}.clock"
        if steps_clock:
            self._command = ["-c", _PROGRAM, str(self._clock)]
            self._clock.write_bytes(bytes(8))
        self.log = folder / f"{name}.log"
        self.secure_port, self.port = reserve_port(), reserve_port()
        self._flags = [
            *(("--journal", journal) if journal else ()),
            *("--data-dir", str(self.data)),
            *("--secure-port", str(self.secure_port), "--insecure-port", str(self.port)),
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """The process may already have ended: a start without a quorum of etcd gives up."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def set_clock(self, seconds: float) -> None:
        """Set how far its wall clock is ahead of the machine's, even while it runs."""
        with self._clock.open("r+b") as file, mmap.mmap(file.fileno(), 8) as ahead:
            struct.pack_into("d", ahead, 0, seconds)

    def start(self) -> None:
        source = {} if self.release is None else {"PYTHONPATH": str(self.release)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._command, "serve", *self._flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | source,
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
    def __init__(
        self,
        folder: Path,
        size: int = 3,
        flags: Sequence[str] = (),
        token: str = TOKEN,
        *,
        faults: bool = False,
    ) -> None:
        """`faults`: nodes and members connect through `self.network`, which can cut them off; clocks can be stepped."""
        self.folder = folder
        self.members = EtcdMembers(size, folder, relayed=faults)
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{token},admin,1,"system:masters"\n')
        common = ("--token-auth-file", str(tokens), *flags)
        links = [Link("", one.name, one.peer_port, one.own_peer_port) for one in self.members.members]
        self.nodes = []
        for name in (f"node-{number}" for number in range(1, size + 1)):
            own = [Link(name, one.name, reserve_port(), one.port) for one in self.members.members]
            links += own
            ports = [link.port if faults else link.to for link in own]
            endpoints = ",".join(f"127.0.0.1:{port}" for port in ports)
            journal = f"etcd://{endpoints}/registry"
            self.nodes.append(NodeProcess(name, folder, journal, common, steps_clock=faults))
        self._links = links if faults else []
        self._network: Network | None = None

    @property
    def network(self) -> Network:
        """The network of a cluster started with `faults`; only between `start` and `stop`."""
        assert self._network is not None
        return self._network

    def start(self) -> None:
        """Start the first node alone: it creates the certificates that all nodes share."""
        if self._links:
            self._network = Network(self._links)
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
        self._kill_members()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()
        self._kill_members()

    def _kill_members(self) -> None:
        self.members.kill()
        if self._network is not None:
            self._network.close()
            self._network = None


@contextmanager
def local_cluster(
    size: int = 3,
    flags: Sequence[str] = (),
    token: str = TOKEN,
    *,
    faults: bool = False,
    release: Path | None = None,
) -> Iterator[LocalCluster]:
    """`release`: a folder with another release, which all nodes run at first."""
    with tempfile.TemporaryDirectory(prefix="rewound-cluster-") as folder:
        cluster = LocalCluster(Path(folder), size, flags, token, faults=faults)
        for node in cluster.nodes:
            node.release = release
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
        f"  rewound open --kubeconfig {shlex.quote(str(first.data / 'admin.kubeconfig'))}",
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
