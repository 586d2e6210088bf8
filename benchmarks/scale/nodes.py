"""Three nodes whose journal three members of etcd order, on this machine: what a write costs where.

Clients write through the first node; the others only follow. Their CPU per event is what the model calls `apply`, that
of the first its `write`, with its own copy of the event. The processes share the cores, so latencies say little here,
and CPU much. etcd runs as `make cluster` starts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.loads.client import Client
from benchmarks.loads.job import Lane, run_lane
from benchmarks.reports.measurement import from_load
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.endpoint import Endpoint
from tests.local_cluster import TOKEN, LocalCluster, local_cluster

CONNECTIONS = 16
SETTLE_SECONDS = 2.0


def measure(seconds: float, report: Callable[[str], None]) -> dict[str, Any]:
    with local_cluster() as cluster:
        time.sleep(SETTLE_SECONDS)
        pids = _pids(cluster)
        first = Endpoint("127.0.0.1", cluster.nodes[0].port, False, TOKEN, pids["first"])
        path = "/api/v1/namespaces/default/configmaps"
        with Client(first) as client:
            client.expect("POST", path, {"metadata": {"name": "read"}, "data": {"a": "b"}})
        found: dict[str, Any] = {}
        for work, plan in (
            ("create", {"plan": "create", "path": path, "prefix": "c-"}),
            ("get", {"plan": "repeat", "paths": [f"{path}/read"]}),
            ("get_any", {"plan": "repeat", "paths": [f"{path}/read?resourceVersion=0"]}),
        ):
            before = {name: cpu_seconds(some) for name, some in pids.items()}
            done = run_lane(Lane(first, plan, CONNECTIONS), seconds, rounds=3)
            time.sleep(SETTLE_SECONDS if work == "create" else 0.0)  # until all nodes have followed
            used = {name: cpu_seconds(some) - before[name] for name, some in pids.items()}
            figures = from_load(work, done, CONNECTIONS).figures
            found[work] = {
                "rate": figures["rate"],
                "p50_ms": figures["p50_ms"],
                "p99_ms": figures["p99_ms"],
                **{f"{name}_us": round(cpu / done.operations * 1e6, 1) for name, cpu in used.items()},
            }
            report(f"{work}: {found[work]}")
        return found


def _pids(cluster: LocalCluster) -> dict[str, tuple[int, ...]]:
    first, *others = [node.pid for node in cluster.nodes]
    members = tuple(member.pid for member in cluster.members.members)
    return {"first": (first,), "others": tuple(others), "etcd": members}
