"""Behaves like controller-runtime's envtest: what it runs, in which order, and what it waits for.

async with started(assets) as environment:
    async with environment.client(environment.user("ann", "system:masters")) as client:
        await client.get("/api/v1/namespaces")

It creates a folder for each program and its certificates, asks both for --help, polls /health and /healthz, stops with
SIGTERM, and removes the folders. Run as a module, it starts an environment, prints its processes, and hangs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import trio

from tests.issuers import SERVER, issuer, with_key
from tests.ports import reserve_port

SECONDS = 90  # for a busy machine
TEMPORARY = "k8s_test_framework_"


class Environment:
    def __init__(self, assets: Path) -> None:
        self._assets = assets
        self._etcd_folder, self.certificates = (Path(tempfile.mkdtemp(prefix=TEMPORARY)) for _ in range(2))
        self.etcd_port, self.port = reserve_port(), reserve_port()
        self._authority, self._clients = issuer("serving"), issuer("clients of envtest")
        self.etcd: trio.Process | None = None
        self.api_server: trio.Process | None = None
        self.log = b""

    @property
    def folders(self) -> tuple[Path, Path]:
        return self._etcd_folder, self.certificates

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.etcd_port}"

    async def start_etcd(self, *more: str) -> None:
        flags = {
            "listen-peer-urls": f"http://127.0.0.1:{reserve_port()}",
            "data-dir": str(self._etcd_folder),
            "advertise-client-urls": self.etcd_url,
            "listen-client-urls": self.etcd_url,
        }
        if await self._has_flag("etcd", "unsafe-no-fsync"):
            flags["unsafe-no-fsync"] = "true"
        command = [str(self._assets / "etcd"), *(f"--{name}={value}" for name, value in flags.items()), *more]
        self.etcd = await trio.lowlevel.open_process(command)
        await _healthy(f"{self.etcd_url}/health", self.etcd)

    async def start_api_server(self, *more: str, without: Sequence[str] = ()) -> None:
        """With envtest's default flags and `more`, except those in `without`."""
        assert not await self._has_flag("kube-apiserver", "insecure-port")
        self.write_certificates()
        self.api_server = await trio.lowlevel.open_process(self._command(more, without))
        await _healthy(f"https://127.0.0.1:{self.port}/healthz", self.api_server)

    def write_certificates(self) -> None:
        serving = self._authority.leaf("kube-apiserver", usages=(SERVER,)).read_bytes()
        begin = serving.index(b"-----BEGIN PRIVATE KEY")
        (self.certificates / "apiserver.crt").write_bytes(serving[:begin])
        (self.certificates / "apiserver.key").write_bytes(serving[begin:])
        (self.certificates / "client-cert-auth-ca.crt").write_bytes(self._clients.file.read_bytes())
        accounts = issuer("service accounts")
        (self.certificates / "sa-signer.crt").write_bytes(accounts.file.read_bytes())
        both = with_key(accounts).read_bytes()
        (self.certificates / "sa-signer.key").write_bytes(both[both.index(b"-----BEGIN PRIVATE KEY") :])

    def _command(self, more: Sequence[str], without: Sequence[str]) -> list[str]:
        flags = [flag for flag in self._flags() if flag.partition("=")[0] not in without]
        return [str(self._assets / "kube-apiserver"), *flags, *more]

    def _flags(self) -> list[str]:
        return [
            "--advertise-address=127.0.0.1",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.certificates}",
            f"--client-ca-file={self.certificates / 'client-cert-auth-ca.crt'}",
            "--disable-admission-plugins=ServiceAccount",
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.port}",
            f"--service-account-issuer=https://127.0.0.1:{self.port}/",
            f"--service-account-key-file={self.certificates / 'sa-signer.crt'}",
            f"--service-account-signing-key-file={self.certificates / 'sa-signer.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]

    async def _has_flag(self, program: str, flag: str) -> bool:
        with trio.fail_after(SECONDS):
            run = await trio.run_process(
                [str(self._assets / program), "--help"], capture_stdout=True, capture_stderr=True
            )
        return re.search(rf"(?m)^\s*--{flag}\b", (run.stdout + run.stderr).decode()) is not None

    async def refusal(self, *more: str, without: Sequence[str] = ()) -> tuple[int, str]:
        """The exit code and the output of an API server with these further flags, which does not start."""
        self.write_certificates()
        command = self._command(more, without)
        with trio.fail_after(SECONDS):
            run = await trio.run_process(command, capture_stderr=True, check=False)
        return run.returncode, run.stderr.decode()

    def user(self, name: str, *groups: str) -> Path:
        """A certificate and a key, signed by the CA of clients."""
        return self._clients.leaf(name, *groups)

    def client(self, certificate: Path, authority: Path | None = None) -> httpx.AsyncClient:
        context = ssl.create_default_context(cafile=str(authority or self._authority.file))
        context.load_cert_chain(certificate)
        return httpx.AsyncClient(base_url=f"https://127.0.0.1:{self.port}", verify=context, timeout=SECONDS)

    async def stop_api_server(self) -> int:
        code, self.api_server = await _stop(self.api_server), None
        return code

    async def stop_etcd(self) -> int:
        code, self.etcd = await _stop(self.etcd), None
        return code

    async def end(self) -> None:
        with trio.CancelScope(shield=True):
            if self.api_server is not None:
                await self.stop_api_server()
            if self.etcd is not None:
                await self.stop_etcd()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def started(assets: Path, *more: str, without: Sequence[str] = ()) -> AsyncIterator[Environment]:
    async with with_etcd(assets) as environment:
        await environment.start_api_server(*more, without=without)
        yield environment


@asynccontextmanager
async def with_etcd(assets: Path, *more: str) -> AsyncIterator[Environment]:
    environment = Environment(assets)
    try:
        await environment.start_etcd(*more)
        yield environment
    finally:
        await environment.end()


async def _healthy(url: str, process: trio.Process) -> None:
    async with httpx.AsyncClient(verify=False, timeout=SECONDS) as client:
        with trio.fail_after(SECONDS):
            while True:
                assert process.poll() is None, "it ended before it was healthy"
                try:
                    if (await client.get(url)).status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                await trio.sleep(0.02)


async def _stop(process: trio.Process | None) -> int:
    assert process is not None
    process.send_signal(signal.SIGTERM)
    with trio.fail_after(SECONDS):
        return await process.wait()


async def _hang(assets: Path) -> None:
    environment = Environment(assets)
    await environment.start_etcd()
    await environment.start_api_server()
    assert environment.etcd is not None and environment.api_server is not None
    print(environment.etcd.pid, environment.api_server.pid, *environment.folders, flush=True)
    await trio.sleep_forever()


def hanging(assets: Path) -> subprocess.Popen[str]:
    """A process that looks to the programs like one that runs tests; it prints their process ids and folders."""
    command = [sys.executable, "-m", __name__, str(assets)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


if __name__ == "__main__":
    trio.run(_hang, Path(sys.argv[1]))
