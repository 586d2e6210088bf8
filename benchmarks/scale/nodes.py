"""Three nodes whose journal three members of etcd order, on this machine: writes beside bare etcd, reads beside a
server that orders its journal itself, and the model beside the nodes.

    write   creates through the first node, and transactions of etcd with as many bytes, in turns: p99 should be at most
            twice that of etcd
    read    gets and lists of a node and of a server without etcd, in turns: CPU should be the same
    model   requests at random times to all three nodes, and what `benchmarks/simulate.py` says about them

The processes share the cores with each other and with the client, so that times say more about the machine than about
the nodes; those of one run compare. The others only follow: their CPU of an event is what the model calls `apply`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import trio

from benchmarks.loads.client import Client
from benchmarks.scale.light_load import Creates, Repeated
from benchmarks.scale.model_check import OpenLoad, steady_load
from benchmarks.scale.watchers import served
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.simulate import Cluster, Costs, Layout, summary
from rewound.actors.etcd.api import Compare, Put
from rewound.cluster.etcd.client import EtcdClient
from tests.local_cluster import TOKEN, LocalCluster, local_cluster

CONNECTIONS = (1, 16)
READERS = 16
SETTLE_SECONDS = 2.0
LISTED = 500
# Of the model: gets and writes a second through all nodes together, and the share of writes.
RATES = (40.0, 80.0)
WRITES = 0.25
WATCHERS = 9
BARE_VALUE, BARE_HEAD = b"x" * 1300, b"x" * 80  # what a create of `Creates` puts, about
Figures = dict[str, Any]
Report = Callable[[str], None]
Pids = dict[str, tuple[int, ...]]


def measure(scratch: Path, seconds: float, rounds: int, report: Report) -> Figures:
    with local_cluster() as cluster, served(scratch, 1) as alone:
        time.sleep(SETTLE_SECONDS)
        pids = _pids(cluster)
        ends = [Endpoint("127.0.0.1", node.port, False, TOKEN, (node.pid,)) for node in cluster.nodes]
        found: Figures = {}
        for connections in CONNECTIONS:
            found[f"write_{connections}"] = _writes(cluster, ends[0], pids, connections, seconds, rounds)
            report(f"write, {connections} at a time: {found[f'write_{connections}']}")
        found["read"] = _reads(ends[0], alone, pids["etcd"], seconds, rounds)
        for name, figures in found["read"].items():
            report(f"{name}: {figures}")
        for rate in RATES:
            found[f"model_{rate:g}"] = _model(cluster, ends, found, rate, seconds * rounds)
            report(f"{rate:g} requests a second: {found[f'model_{rate:g}']}")
        return found


def _pids(cluster: LocalCluster) -> Pids:
    first, *others = [node.pid for node in cluster.nodes]
    members = tuple(member.pid for member in cluster.members.members)
    return {"first": (first,), "others": tuple(others), "etcd": members}


# Writes.


@dataclass
class Bare:
    """Transactions of etcd, each of which compares a key and puts two, as a create of a node does."""

    client: EtcdClient
    connections: int
    made: int = 0
    latencies: list[float] = field(default_factory=list)

    async def round(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        async with trio.open_nursery() as nursery:
            for _ in range(self.connections):
                nursery.start_soon(self._write_until, end)

    async def _write_until(self, end: float) -> None:
        while (begun := time.perf_counter()) < end:
            self.made += 1
            key = b"bare/%d" % self.made
            await self.client.txn(
                [Compare(key, "mod_revision", 0)], [Put(key, BARE_VALUE), Put(b"bare-head", BARE_HEAD)]
            )
            self.latencies.append(time.perf_counter() - begun)


def _writes(
    cluster: LocalCluster, first: Endpoint, pids: Pids, connections: int, seconds: float, rounds: int
) -> Figures:
    creates = Creates(first, _config_maps(first, f"w{connections}"), connections)
    turns: list[dict[str, float]] = []  # CPU us of an operation, by round
    bare: list[float] = []
    reads = trio.run(_reads_of_etcd, cluster)
    creates.round(seconds / 4)
    creates.latencies.clear()
    for number in range(rounds):
        before, own, count = cpu_seconds(pids["etcd"]), time.process_time(), len(bare)
        trio.run(_bare_round, cluster, connections, seconds, number, bare)
        done = (len(bare) - count) / 1e6
        turn = {"bare_etcd": (cpu_seconds(pids["etcd"]) - before) / done}
        turn["bare_client"] = (time.process_time() - own) / done
        used = {name: cpu_seconds(some) for name, some in pids.items()}
        made = creates.round(seconds).operations / 1e6
        time.sleep(SETTLE_SECONDS / 4)  # until all nodes have followed
        turn |= {name: (cpu_seconds(some) - used[name]) / made for name, some in pids.items()}
        turn["create"] = sum(turn[name] for name in pids)
        turns.append(turn)
    creates.close()
    etcd, node = summary(bare), summary(creates.latencies)
    return {
        "etcd_read_ms": summary(reads),
        "etcd_ms": etcd,
        "node_ms": node,
        "p50_ratio": round(node["p50"] / etcd["p50"], 2),
        "p99_ratio": round(node["p99"] / etcd["p99"], 2),
        **{f"{name}_us": round(median(turn[name] for turn in turns), 1) for name in turns[0]},
        # The CPU of all processes over that of etcd and its client, and over that of etcd.
        "cpu_ratio": round(
            median(one["create"] / (one["bare_etcd"] + one["bare_client"]) for one in turns), 2
        ),
        "etcd_ratio": round(median(one["create"] / one["bare_etcd"] for one in turns), 2),
    }


async def _bare_round(
    cluster: LocalCluster, connections: int, seconds: float, number: int, writes: list[float]
) -> None:
    """Adds the seconds of each transaction."""
    async with cluster.members.running_client() as client:
        bare = Bare(client, connections, made=number * 1_000_000 + connections * 10_000_000)
        await client.range(b"bare-head")  # it connects
        await bare.round(seconds)
        writes += bare.latencies


async def _reads_of_etcd(cluster: LocalCluster) -> list[float]:
    """The seconds of some linearizable reads."""
    found: list[float] = []
    async with cluster.members.running_client() as client:
        for _ in range(150):
            begun = time.perf_counter()
            await client.range(b"bare-head")
            found.append(time.perf_counter() - begun)
    return found


# Reads.


def _reads(
    first: Endpoint, alone: MeasuredServer, etcd: tuple[int, ...], seconds: float, rounds: int
) -> Figures:
    plain = alone.endpoint_for(tls=False)
    assert plain is not None
    paths = {end: _config_maps(end, "read") for end in (first, plain)}
    for end, path in paths.items():
        _fill(end, path)
    found: Figures = {}
    for name, rest, readers in (
        ("get", "/o-000", READERS),
        ("get_one", "/o-000", 1),
        ("list", f"?limit={LISTED}", READERS),
    ):
        loads = {
            "alone": Repeated(plain, paths[plain] + rest, readers),
            "node": Repeated(first, paths[first] + rest, readers),
            "node_any": Repeated(first, _any_version(paths[first] + rest), readers),
        }
        cpu: dict[str, list[float]] = {each: [] for each in loads}
        members = dict.fromkeys(loads, 0.0)
        made = dict.fromkeys(loads, 0)
        for _ in range(rounds):
            for each, load in loads.items():
                before = cpu_seconds(etcd)
                done = load.round(seconds / 2)
                members[each] += cpu_seconds(etcd) - before
                made[each] += done.operations
                cpu[each].append(done.cpu_us)
        for load in loads.values():
            load.close()
        found[name] = {f"{each}_us": round(median(values), 1) for each, values in cpu.items()}
        found[name]["etcd_us"] = round(members["node"] / made["node"] * 1e6, 1)
    return found


def _any_version(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}resourceVersion=0"


# The model.


def _model(
    cluster: LocalCluster, ends: list[Endpoint], costs: Figures, rate: float, seconds: float
) -> Figures:
    path = _config_maps(ends[0], f"m{rate:g}")
    with Client(ends[0]) as client:
        client.expect("POST", path, {"metadata": {"name": "read"}, "data": {"a": "b"}})
    load = OpenLoad(ends, f"{path}/read", path, WATCHERS, WRITES)
    pids = [node.pid for node in cluster.nodes]
    try:
        load.run(rate, 1.0, seed=0)
        for values in (load.reads, load.writes, load.deliveries):
            values.clear()
        used, begin = cpu_seconds(pids), time.perf_counter()
        load.run(rate, seconds, seed=1)
        busy = (cpu_seconds(pids) - used) / (time.perf_counter() - begin) / len(pids)
    finally:
        load.close()
    measured = {"reads": load.reads, "writes": load.writes, "deliveries": load.deliveries}
    run = _modelled(costs, rate, seconds)
    return {
        "measured_busy": round(busy, 3),
        "modelled_busy": round(sum(each.workers[0].utilization(seconds) for each in run.machines) / 3, 3),
        "measured_ms": {name: summary(values) for name, values in measured.items()},
        "modelled_ms": {name: summary(getattr(run.latencies, name)) for name in measured},
    }


def _modelled(found: Figures, rate: float, seconds: float) -> Cluster:
    """From the figures of one request at a time and of bare etcd in the same run; nothing else is fitted."""
    one, reads = found["write_1"], found["read"]["get_one"]
    apply_us = one["others_us"] / 2  # of one of the two others: decode, commit, publish
    costs = Costs(
        get_us=reads["node_us"],
        write_us=max(0.0, one["first_us"] - apply_us),
        apply_us=apply_us,
        deliver_us=9.0,
        connect_us=0.0,
        watch_us=0.0,
        commit_us=0.0,  # part of `apply`: at these rates every event has its own
        relist_us=0.0,
        watcher_kb=0.0,
        base_mb=0.0,
        object_bytes=0.0,
    )
    etcd = {"commit_ms": one["etcd_ms"]["p50"], "read_ms": one["etcd_read_ms"]["p50"]}
    layout = Layout(3, workers=1, rtt_ms=0.1, **etcd)
    run = Cluster(steady_load(rate, WATCHERS, WRITES), layout, costs, seed=1)
    run.run(seconds)
    return run


# Objects.


def _config_maps(end: Endpoint, namespace: str) -> str:
    with Client(end) as client:
        client.expect("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _fill(end: Endpoint, path: str) -> None:
    with Client(end) as client:
        for number in range(LISTED):
            client.expect("POST", path, {"metadata": {"name": f"o-{number:03}"}, "data": {"a": "x" * 900}})
