"""A server to measure, and the objects that the harness has created in it.

The first workload that needs a collection fills it, so that `--only` pays only for what it uses. Names contain a
random tag of the run, so that a second run on the same server never meets objects of the first.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import Any

from benchmarks.loads.client import Client, Refused
from benchmarks.loads.job import Lane, LoadFailed, run_lane
from benchmarks.options import Options, Sizes
from benchmarks.reports.measurement import Measurement, from_load
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.server_process import ServerProcess

FILL_CONNECTIONS = 64  # many connections make large commits: filling is not measured
_FILL_TIMEOUT = 1800.0


class MeasuredServer:
    def __init__(
        self, endpoint: Endpoint, options: Options, *, name: str = "", process: ServerProcess | None = None
    ) -> None:
        self.endpoint, self.options, self.process = endpoint, options, process
        self.sizes: Sizes = options.sizes
        self._tag = secrets.token_hex(3)
        self._filled: dict[int, str] = {}
        self._namespaces: list[str] = []
        with Client(endpoint) as client:
            status, version = client.call("GET", "/version")
        self.version = (
            str(version.get("gitVersion", "")) if status == 200 and isinstance(version, dict) else ""
        )
        self.name = name or "server"

    def endpoint_for(self, *, tls: bool) -> Endpoint | None:
        """The endpoint with or without TLS; None when the server is not known to have one."""
        if self.process is not None:
            return self.process.endpoint if tls else self.process.plain_endpoint
        return self.endpoint if self.endpoint.tls == tls else None

    def config_maps(self, purpose: str) -> str:
        """The path of the ConfigMaps in a namespace of this purpose; creates the namespace on the first call."""
        namespace = f"bench-{self._tag}-{purpose}"
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        if namespace not in self._namespaces:
            self._namespaces.append(namespace)
            with Client(self.endpoint) as client:
                client.expect("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
                _wait_writable(client, path)
        return path

    def collection(self, size: int) -> str:
        """The path of a collection with this many objects, `o-000000` ...; fills it on the first call."""
        if size not in self._filled:
            path = self.config_maps(f"of-{size}")
            self.fill(path, "o-", size)
            self._filled[size] = path
        return self._filled[size]

    def fill(self, path: str, prefix: str, size: int) -> None:
        plan = {"plan": "create", "path": path, "prefix": prefix, "total": size}
        result = run_lane(Lane(self.endpoint, plan, FILL_CONNECTIONS), _FILL_TIMEOUT)
        if result.operations != size:
            raise LoadFailed(f"{result.operations} of {size} objects were created: {result.first_error}")

    def measure(
        self, work: str, plan: dict[str, Any], connections: int, *, per_round: int = 0
    ) -> Measurement:
        """Runs the plan; with `per_round`, a round ends after that many operations instead of after a time."""
        sizes = self.sizes
        bounds: dict[str, Any] = {"seconds": sizes.seconds}
        if per_round:
            bounds = {"seconds": _FILL_TIMEOUT, "count": per_round}
        lane = Lane(self.endpoint, plan, connections)
        result = run_lane(lane, rounds=sizes.rounds, warmup=sizes.warmup, **bounds)
        return from_load(work, result, connections, cpu_known=bool(self.endpoint.pids))

    def get(self, path: str) -> Any:
        with Client(self.endpoint) as client:
            return client.expect("GET", path)

    def delete_objects(self) -> None:
        """Delete the namespaces of this run, best effort: the server keeps running."""
        with Client(self.endpoint) as client, contextlib.suppress(OSError):
            for namespace in self._namespaces:
                client.call("DELETE", f"/api/v1/namespaces/{namespace}/configmaps")
                client.call("DELETE", f"/api/v1/namespaces/{namespace}")


def _wait_writable(client: Client, path: str) -> None:
    """Retry a create until the server accepts it: servers that read namespaces from a cache refuse the first writes."""
    for _ in range(50):
        status, response = client.call("POST", path, {"metadata": {"name": "probe"}})
        if status in (201, 409):
            client.call("DELETE", f"{path}/probe")
            return
        time.sleep(0.1)
    raise Refused(f"POST {path}: {status} {str(response)[:300]}")
