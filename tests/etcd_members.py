"""Members of a real etcd cluster on loopback ports: started, stopped, killed and paused by tests.

    with etcd_members(3) as cluster:        # skips the test without etcd
        async with cluster.running_client() as client:
            (await cluster.leader()).kill()

A member starts in about half a second, so tests of one module share a cluster (a fixture with `scope="module"`) and
write below prefixes of their own. `tls`: clients need a certificate (`cluster.tls_context()`, or the files
`cluster.ca_file` and `cluster.client_file`). `users`: the cluster has the user root with PASSWORD, and requires one.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import orjson
import pytest
import trio

from rewound.actors.certificates.trust import verifying
from rewound.cluster.etcd.client import EtcdClient
from tests.issuers import CLIENT, SERVER, issuer
from tests.ports import reserve_port

ETCD = shutil.which("etcd")
REASON = "etcd is not installed (Debian: apt install etcd-server)"
START_SECONDS = 60  # a bound for a busy machine
PASSWORD = "a password: of root"
needs_etcd = pytest.mark.skipif(ETCD is None, reason=REASON)


class EtcdMember:
    """One process with its folder; it can be started again after it ends."""

    def __init__(self, name: str, folder: Path, *, tls: bool, relayed: bool, quota: int = 0) -> None:
        """`relayed`: other members connect through a relay that listens on another port."""
        self._quota = quota
        self.name = name
        self._folder = folder
        self._tls = tls
        self._client, self._peer, self._metrics = reserve_port(), reserve_port(), reserve_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.peer_port = reserve_port() if relayed else self._peer
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._client}"
        self.peer_url = f"http://127.0.0.1:{self.peer_port}"

    @property
    def port(self) -> int:
        return self._client

    @property
    def own_peer_port(self) -> int:
        """The port on which it listens."""
        return self._peer

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, cluster: str) -> None:
        """`cluster`: all members with their peer URLs, in etcd's format."""
        flags = {
            "name": self.name,
            "data-dir": str(self._folder / self.name),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": f"http://127.0.0.1:{self._peer}",
            "initial-advertise-peer-urls": self.peer_url,
            "initial-cluster": cluster,
            "listen-metrics-urls": f"http://127.0.0.1:{self._metrics}",
            # Half of etcd's defaults: members notice a lost leader sooner, and a busy machine still keeps one.
            "heartbeat-interval": "50",
            "election-timeout": "500",
            "bcrypt-cost": "4",
            "quota-backend-bytes": str(self._quota),
            "logger": "zap",
            "log-level": "error",
        }
        if self._tls:
            # The client of etcd's own JSON API uses this certificate too.
            server = str(issuer("etcd").leaf("", "etcd", usages=(SERVER, CLIENT)))
            flags |= {
                "cert-file": server,
                "key-file": server,
                "trusted-ca-file": str(issuer("etcd").file),
                "client-cert-auth": "true",
            }
        # Debian's etcd requires this on architectures that it does not support, and ignores it elsewhere.
        machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [ETCD or "etcd", *(f"--{name}={value}" for name, value in flags.items())],
                env={"PATH": os.environ.get("PATH", ""), "ETCD_UNSUPPORTED_ARCH": machine},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def healthy(self) -> bool:
        """Whether the member has a leader and can read."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/health", timeout=5) as response:
                return bool(orjson.loads(response.read()).get("health") == "true")
        except (OSError, ValueError):
            return False

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.healthy():
            if time.monotonic() > deadline or (
                self._process is not None and self._process.poll() is not None
            ):
                log = (self._folder / f"{self.name}.log").read_text(errors="replace")
                raise AssertionError(f"etcd member {self.name} did not become healthy:\n{log[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        self._ended()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def running(self) -> bool:
        return self._process is not None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _ended(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=START_SECONDS)
            self._process = None


class EtcdMembers:
    def __init__(
        self, size: int, folder: Path, *, tls: bool = False, relayed: bool = False, quota: int = 0
    ) -> None:
        """`quota`: bytes that the database may have; 0: etcd's default."""
        self.ca_file = issuer("etcd").file if tls else None
        # Certificate and key in one file. etcd would take a common name for a user.
        self.client_file = issuer("etcd").leaf("", "rewound") if tls else None
        self.members = [
            EtcdMember(f"m{number}", folder, tls=tls, relayed=relayed, quota=quota) for number in range(size)
        ]
        self._names = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        self.user, self.password = "", ""

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(member.url for member in self.members)

    def start(self) -> None:
        """Start all members that are not running, and wait until they are healthy."""
        for member in self.members:
            if not member.running:
                member.start(self._names)
        for member in self.members:
            member.wait_healthy()

    def restart(self, member: EtcdMember) -> None:
        member.start(self._names)
        member.wait_healthy()

    def kill(self) -> None:
        for member in self.members:
            member.kill()

    def tls_context(self) -> ssl.SSLContext | None:
        if self.ca_file is None or self.client_file is None:
            return None
        context = verifying(self.ca_file.read_bytes())
        context.load_cert_chain(self.client_file)
        return context

    def client(self, *urls: str, seconds: float = 30.0) -> EtcdClient:
        """A client of all members, or of these URLs; `seconds` is a bound for a busy machine."""
        tls = self.tls_context()
        return EtcdClient(urls or self.urls, tls=tls, user=self.user, password=self.password, seconds=seconds)

    @asynccontextmanager
    async def running_client(self, *urls: str, seconds: float = 30.0) -> AsyncIterator[EtcdClient]:
        """A client, with its task running."""
        async with running(self.client(*urls, seconds=seconds)) as client:
            yield client

    async def leader(self) -> EtcdMember:
        with trio.fail_after(START_SECONDS):
            while True:
                async with self.running_client() as client:
                    found = await client.status()
                for status in found:
                    if status.leader and status.leader == status.member_id:
                        return next(one for one in self.members if one.url == status.endpoint)
                await trio.sleep(0.05)

    def require_users(self) -> None:
        """Create the user root, and require authentication."""
        steps = (
            ("user/add", {"name": "root", "password": PASSWORD}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        )
        for path, document in steps:
            self.post(f"/v3/auth/{path}", document)
        self.user, self.password = "root", PASSWORD

    def post(self, path: str, document: dict[str, object], token: str = "") -> dict[str, object]:
        """Send a request to the first member directly, without the client."""
        headers = {"authorization": token} if token else {}
        request = urllib.request.Request(self.urls[0] + path, orjson.dumps(document), headers)
        with urllib.request.urlopen(request, timeout=30, context=self.tls_context()) as response:
            reply: dict[str, object] = orjson.loads(response.read())
            return reply


@asynccontextmanager
async def running(client: EtcdClient) -> AsyncIterator[EtcdClient]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        yield client
        nursery.cancel_scope.cancel()


@contextmanager
def etcd_members(
    size: int = 1, *, tls: bool = False, users: bool = False, quota: int = 0
) -> Iterator[EtcdMembers]:
    if ETCD is None:
        pytest.skip(REASON)
    with tempfile.TemporaryDirectory(prefix="rewound-etcd-") as folder:
        cluster = EtcdMembers(size, Path(folder), tls=tls, quota=quota)
        try:
            cluster.start()
            if users:
                cluster.require_users()
            yield cluster
        finally:
            cluster.kill()
