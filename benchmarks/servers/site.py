"""A server under measurement and what the harness has put into it.

Collections are filled when the first workload asks for them, so that `--only` pays for what it uses. Names
carry a tag of the run: measuring the same server twice never meets objects of the time before.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import Any

from benchmarks.loads.client import Client, Refused
from benchmarks.loads.job import Job, LoadFailed, run_job
from benchmarks.options import Options, Sizes
from benchmarks.reports.measurement import Measurement, from_account
from benchmarks.servers.server import Server
from benchmarks.servers.target import Target

FILLING = 64  # connections while filling: large batches, because only the result matters
_FILL_PATIENCE = 1800.0


class Site:
    def __init__(
        self, target: Target, options: Options, *, name: str = "", server: Server | None = None
    ) -> None:
        self.target, self.options, self.server = target, options, server
        self.sizes: Sizes = options.sizes
        self._tag = secrets.token_hex(3)
        self._filled: dict[int, str] = {}
        self._namespaces: list[str] = []
        with Client(target) as client:
            status, told = client.call("GET", "/version")
        self.version = str(told.get("gitVersion", "")) if status == 200 and isinstance(told, dict) else ""
        self.name = name or "server"

    def door(self, *, tls: bool) -> Target | None:
        """Where this server listens with TLS or without, if it does."""
        if self.server is not None:
            return self.server.target if tls else self.server.plain
        return self.target if self.target.tls == tls else None

    def config_maps(self, purpose: str) -> str:
        """The path of a namespace's ConfigMaps, ready to be written to."""
        namespace = f"bench-{self._tag}-{purpose}"
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        if namespace not in self._namespaces:
            self._namespaces.append(namespace)
            with Client(self.target) as client:
                client.expect("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
                _wait_writable(client, path)
        return path

    def collection(self, size: int) -> str:
        """The path of a collection of so many objects `o-000000` ..., filled once."""
        if size not in self._filled:
            path = self.config_maps(f"of-{size}")
            self.fill(path, "o-", size)
            self._filled[size] = path
        return self._filled[size]

    def fill(self, path: str, prefix: str, size: int) -> None:
        plan = {"plan": "create", "path": path, "prefix": prefix, "total": size}
        account = run_job(Job(self.target, plan, FILLING, _FILL_PATIENCE))
        if account.operations != size:
            raise LoadFailed(f"{account.operations} of {size} objects were made: {account.first_error}")

    def measure(
        self, work: str, plan: dict[str, Any], connections: int, *, per_round: int = 0
    ) -> Measurement:
        """Runs the plan; with `per_round` a round ends after so many operations instead of by time."""
        sizes = self.sizes
        bounds: dict[str, Any] = {"seconds": sizes.seconds}
        if per_round:
            bounds = {"seconds": _FILL_PATIENCE, "count": per_round}
        job = Job(self.target, plan, connections, rounds=sizes.rounds, warmup=sizes.warmup, **bounds)
        return from_account(work, run_job(job), connections, cpu_known=bool(self.target.pids))

    def get(self, path: str) -> Any:
        with Client(self.target) as client:
            return client.expect("GET", path)

    def clean(self) -> None:
        """Best effort, for a server that goes on after the run."""
        with Client(self.target) as client, contextlib.suppress(OSError):
            for namespace in self._namespaces:
                client.call("DELETE", f"/api/v1/namespaces/{namespace}/configmaps")
                client.call("DELETE", f"/api/v1/namespaces/{namespace}")


def _wait_writable(client: Client, path: str) -> None:
    """Servers that learn of a namespace through a cache refuse its first writes."""
    for _ in range(50):
        status, answer = client.call("POST", path, {"metadata": {"name": "probe"}})
        if status in (201, 409):
            client.call("DELETE", f"{path}/probe")
            return
        time.sleep(0.1)
    raise Refused(f"POST {path}: {status} {str(answer)[:300]}")
