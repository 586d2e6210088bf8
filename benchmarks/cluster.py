"""Measures a simulated cluster: nodes, Deployments, a day that passes, and what all that costs at rest.

    python -m benchmarks.cluster                            # everything, about five minutes
    python -m benchmarks.cluster --only nodes,deployment    # some of it
    python -m benchmarks.cluster --scale 0.1                # a tenth of the nodes and pods: shows that it runs
    python -m benchmarks.cluster --kubernetes-version 1.25  # as another version: newer ones write more

Each measurement starts a new server and prints seconds of wall time and of CPU beside the targets. Other programs on
the machine lengthen wall time; CPU stays about the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.loads.client import Client
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess
from rewound.testing.fixture.pool import Pool, start

NODES, REPLICAS = 5_000, 10_000
APPS: Final = "/apis/apps/v1/namespaces/default/deployments"
PODS: Final = "/api/v1/namespaces/default/pods"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
CRON_JOBS: Final = "/apis/batch/v1/namespaces/default/cronjobs"
_LONGEST: Final = 300.0  # seconds that anything may take
_SETTLE_SECONDS: Final = 20.0  # images are reported ten seconds after the last pod
_REST_SECONDS: Final = 30.0
_WRITES: Final = 5_000


class Figure(NamedTuple):
    what: str
    measured: str
    aim: str


class Cluster:
    """A server with simulated nodes, and a client of it."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.client = Client(server.endpoint)
        self.ready_seconds, self.ready_cpu = server.ready_seconds, server.ready_cpu

    @property
    def cpu(self) -> float:
        return cpu_seconds(self._server.endpoint.pids)

    def megabytes(self) -> str:
        used = memory(self._server.endpoint.pids)
        return f"{used.pss_mb:.0f} MB, {used.anonymous_mb:.0f} MB without mapped pages of the journal"

    def count(self, path: str) -> int:
        found = self.client.expect("GET", f"{path}?limit=1")
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))

    def wait(self, done: Callable[[], bool], pause: float = 0.2) -> float:
        """Seconds until it is done."""
        begin = time.perf_counter()
        while not done():
            if time.perf_counter() > begin + _LONGEST:
                raise SystemExit(f"not done after {_LONGEST:.0f} s")
            time.sleep(pause)
        return time.perf_counter() - begin

    def deploy(self, replicas: int, pause: float = 0.2) -> float:
        """Create a Deployment; seconds until all its replicas are available."""
        begin = time.perf_counter()
        self.client.expect("POST", APPS, deployment(replicas))
        self.wait(lambda: self._available() == replicas, pause)
        return time.perf_counter() - begin

    def _available(self) -> int:
        status = self.client.expect("GET", f"{APPS}/web")["status"]
        return int(status.get("availableReplicas", 0))

    def wait_for_nodes(self, count: int) -> None:
        """Wait until so many have no taint; every look lists them all."""
        self.wait(lambda: self._schedulable_nodes() >= count, 1.0 if count > 100 else 0.2)

    def _schedulable_nodes(self) -> int:
        nodes = self.client.expect("GET", "/api/v1/nodes")["items"]
        return sum(not node["spec"].get("taints") for node in nodes)


@contextmanager
def running(version: str, *flags: str) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="rewound-cluster-") as folder:
        server = ServerProcess(Path(folder), dialect="kubernetes", flags=(*of_version(version), *flags))
        try:
            yield Cluster(server)
        finally:
            server.stop()


def of_version(version: str) -> tuple[str, ...]:
    return ("--kubernetes-version", version) if version else ()


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def cron_job(number: int) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "tick:1"}]}
    template = {"metadata": {"annotations": {"sim/phase": "Succeeded"}}, "spec": pod}
    spec = {"schedule": f"{number} * * * *", "jobTemplate": {"spec": {"template": template}}}
    return {"metadata": {"name": f"tick-{number}"}, "spec": spec}


def nodes_and_large_deployment(scale: float, version: str) -> Iterator[Figure]:
    nodes, replicas = round(NODES * scale), round(REPLICAS * scale)
    # A share of the pods may be so few that nodes record all Events about them by default; 10,000 are not.
    with running(version, "--nodes", str(nodes), "--node-events", "failures") as cluster:
        begin = time.perf_counter()
        cluster.wait(lambda: cluster.count("/api/v1/nodes") >= nodes)
        cluster.wait_for_nodes(nodes)
        seconds = time.perf_counter() - begin + cluster.ready_seconds
        yield Figure(f"{nodes} nodes ready", f"{seconds:.1f} s, {cluster.cpu:.1f} s of CPU", "20 s")
        before = cluster.cpu
        seconds = cluster.deploy(replicas)
        used = f"{seconds:.1f} s, {cluster.cpu - before:.1f} s of CPU"
        yield Figure(f"Deployment of {replicas} available", used, "60 s")
        yield Figure("memory then", cluster.megabytes(), "600 MB")
        before, begin = cluster.cpu, time.perf_counter()
        cluster.client.expect("DELETE", f"{APPS}/web", {"propagationPolicy": "Background"})
        cluster.wait(lambda: cluster.count(PODS) == 0)
        used = f"{time.perf_counter() - begin:.1f} s, {cluster.cpu - before:.1f} s of CPU"
        yield Figure("all its pods deleted", used, "60 s")


def small_deployment(scale: float, version: str) -> Iterator[Figure]:
    with running(version, "--nodes", "10") as cluster:
        started = f"{cluster.ready_seconds:.2f} s, {cluster.ready_cpu:.2f} s of CPU"
        yield Figure("new server ready with 10 nodes", started, "1.5 s")
        cluster.wait_for_nodes(10)
        before, seconds = cluster.cpu, cluster.deploy(100, 0.01)
        used = f"{seconds:.2f} s, {cluster.cpu - before:.2f} s of CPU"
        yield Figure("Deployment of 100 available", used, "1 s")


def a_day(scale: float, version: str) -> Iterator[Figure]:
    pods = round(1_000 * scale)
    with start(nodes=10, flags=of_version(version)) as server:
        server.advance(1)
        server.request("POST", APPS, deployment(pods))
        for number in range(20):
            server.request("POST", CRON_JOBS, cron_job(number))
        server.advance(10)
        begin = time.perf_counter()
        server.advance(86_400)
        seconds = time.perf_counter() - begin
    yield Figure(f"advance(86400) with {pods} pods and 20 CronJobs", f"{seconds:.1f} s", "10 s")


def at_rest(scale: float, version: str) -> Iterator[Figure]:
    for nodes, pods, aim in ((100, REPLICAS, "0.5%"), (1_000, REPLICAS // 2, "1%")):
        nodes, pods = max(1, round(nodes * scale)), round(pods * scale)
        with running(version, "--nodes", str(nodes)) as cluster:
            cluster.wait_for_nodes(nodes)
            cluster.deploy(pods)
            time.sleep(_SETTLE_SECONDS)
            before = cluster.cpu
            time.sleep(_REST_SECONDS)
            share = (cluster.cpu - before) / _REST_SECONDS
            yield Figure(f"at rest with {pods} pods on {nodes} nodes", f"{share:.2%} CPU", aim)


def unrelated_writes(scale: float, version: str) -> Iterator[Figure]:
    """Writes ConfigMaps with and without all controllers, in turns, because the machine's load changes."""
    costs: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(3):
        for everything in (False, True):
            flags = ("--nodes", "0") if everything else ()
            with running(version, *flags) as cluster:
                time.sleep(3)
                before = cluster.cpu
                for number in range(round(_WRITES * scale)):
                    cluster.client.expect("POST", MAPS, {"metadata": {"name": f"m-{number}"}})
                costs[everything].append(cluster.cpu - before)
    share = min(costs[True]) / min(costs[False]) - 1
    yield Figure("writes that concern no controller", f"{share:+.1%} CPU with all on", "+5%")


def fixture(scale: float, version: str) -> Iterator[Figure]:
    flags = ("--nodes=3", *of_version(version))
    with closing(Pool()) as pool:
        pool.take("process", "kubernetes", flags)  # makes the template
        seconds = []
        for _ in range(8):
            begin = time.perf_counter()
            pool.take("process", "kubernetes", flags, fresh=True)
            seconds.append(time.perf_counter() - begin)
    yield Figure("fixture start with 3 nodes", f"{statistics.median(seconds):.3f} s", "0.4 s")


MEASUREMENTS: Final[dict[str, Callable[[float, str], Iterator[Figure]]]] = {
    "nodes": nodes_and_large_deployment,
    "deployment": small_deployment,
    "day": a_day,
    "rest": at_rest,
    "writes": unrelated_writes,
    "fixture": fixture,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--only", default=",".join(MEASUREMENTS), metavar="NAME,...", help=", ".join(MEASUREMENTS)
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the nodes, pods and writes")
    parser.add_argument("--kubernetes-version", default="", help="of the server (default: its own default)")
    options = parser.parse_args(arguments)
    chosen = options.only.split(",")
    if unknown := [name for name in chosen if name not in MEASUREMENTS]:
        parser.error(f"--only: {unknown[0]} is none of {', '.join(MEASUREMENTS)}")
    for name in chosen:
        for figure in MEASUREMENTS[name](options.scale, options.kubernetes_version):
            print(f"{figure.what:<55} {figure.measured:<55} (aim: {figure.aim})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
