"""Nodes get networks for their pods."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from rewound.actors.allocation.node_networks import node_networks
from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.messages import Object
from rewound.actors.nodes.simulator import SimulatedNodes
from rewound.actors.scheduler.scheduler import Scheduler
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench


def options(cluster: str, **sizes: int) -> WorkloadOptions:
    return WorkloadOptions(allocate_node_cidrs=True, cluster_cidr=cluster, **sizes)  # type: ignore[arg-type]


def networks(bench: Bench) -> dict[str, list[str]]:
    found = {}
    for one in bench.all("nodes", None):
        spec = one.get("spec", {})
        found[one["metadata"]["name"]] = spec.get("podCIDRs", [])
        assert spec.get("podCIDR", "") == (spec.get("podCIDRs") or [""])[0]
    return found


def node(name: str, *given: str) -> Object:
    spec: Object = {"podCIDR": given[0], "podCIDRs": list(given)} if given else {}
    return {"metadata": {"name": name}, "spec": spec}


async def test_each_node_gets_its_own_networks(tmp_path: Path, autojump_clock: object) -> None:
    chosen = options("10.244.0.0/16,fd00::/48")
    async with open_bench(tmp_path, "nodeipam", workloads=chosen) as bench:
        for name in ("a", "b"):
            await bench.create("nodes", node(name))
        await bench.create("nodes", node("own", "10.244.2.0/24"))
        await bench.create("nodes", node("c"))
        await bench.rest(1)
        assert networks(bench) == {
            "a": ["10.244.0.0/24", "fd00::/64"],
            "b": ["10.244.1.0/24", "fd00:0:0:1::/64"],
            "own": ["10.244.2.0/24"],
            "c": ["10.244.3.0/24", "fd00:0:0:2::/64"],
        }


async def test_networks_of_deleted_nodes_are_given_again_also_after_a_restart(
    tmp_path: Path, autojump_clock: object
) -> None:
    chosen = options("10.0.0.0/23")
    async with open_bench(tmp_path, "nodeipam", workloads=chosen) as bench:
        # 10.0.0.0/24 is the range of Services.
        for name in ("a", "b"):
            await bench.create("nodes", node(name))
            await bench.rest(1)
        assert networks(bench) == {"a": ["10.0.1.0/24"], "b": []}
        assert bench.events("b") == [("CIDRNotAvailable", "Node b status is now: CIDRNotAvailable")]
    async with open_bench(tmp_path, "nodeipam", workloads=chosen) as bench:
        await bench.rest(1)
        assert networks(bench)["b"] == []
        await bench.delete("nodes", "a")
        await bench.rest(2000)
        assert networks(bench) == {"b": ["10.0.1.0/24"]}


async def test_without_the_flag_nodes_have_none(tmp_path: Path, autojump_clock: object) -> None:
    async with open_bench(tmp_path, "nodeipam") as bench:
        await bench.create("nodes", node("a"))
        await bench.rest(10)
        assert networks(bench) == {"a": []}


async def test_simulated_pods_have_addresses_of_their_node(tmp_path: Path, autojump_clock: object) -> None:
    more = [(Scheduler.name, Scheduler), (SimulatedNodes.name, SimulatedNodes)]
    chosen, release = options("172.16.0.0/20", node_cidr_mask_size=29), choose_release("1.36")
    names = ("nodeipam", "nodelifecycle")
    async with open_bench(
        tmp_path, *names, more=more, pods_run=False, workloads=chosen, release=release
    ) as bench:
        for name in ("a", "b"):
            await bench.create("nodes", {"metadata": {"name": name, "annotations": {"sim/node": "true"}}})
        await bench.rest(60)
        for number in range(9):
            spec = {"nodeName": "b", "containers": [{"name": "main", "image": "web:1"}]}
            await bench.create("pods", {"metadata": {"name": f"web-{number}"}, "spec": spec})
        await bench.rest(60)
        given = [one["status"]["podIP"] for one in bench.all("pods")]
        (network,) = networks(bench)["b"]
        # A /29 has room for five pods, the others get addresses of no node.
        assert sum(ip_network(one).subnet_of(ip_network(network)) for one in given) == 5  # type: ignore[arg-type]
        assert len(set(given)) == 9 and sum(one.startswith("10.244.") for one in given) == 4


@pytest.mark.parametrize(
    ("cluster", "sizes", "text"),
    [
        ("", {}, "is empty; write a network such as 10.244.0.0/16"),
        ("nonsense", {}, "'nonsense' is not a network; write one such as 10.244.0.0/16"),
        ("10.0.0.0/8,10.1.0.0/16", {"of_ipv4": 24}, "has two networks of one address family"),
        ("10.0.0.0/16", {"length": 8}, "10.0.0.0/16 has no networks of /8; give nodes a larger number"),
        ("10.0.0.0/16", {"length": 33}, "10.0.0.0/16 has no networks of /33"),
        ("10.0.0.0/8", {"of_ipv4": 30}, "10.0.0.0/8 has more than 65536 networks of /30"),
        ("10.0.0.0/16", {"of_ipv6": 64}, "has no IPv6 network; leave --node-cidr-mask-size-ipv6 out"),
        ("10.0.0.0/16,fd00::/48", {"length": 24}, "--node-cidr-mask-size is for one address family"),
    ],
)
def test_networks_that_cannot_be_divided_are_refused(cluster: str, sizes: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("(", "\\(")):
        node_networks(cluster, **sizes)


def test_pool_gives_each_network_once() -> None:
    (pool,) = node_networks("10.0.0.0/22")
    pool.occupy("10.0.1.0/25")
    pool.occupy("not a network")
    pool.occupy("fd00::/8")
    taken = [pool.take() for _ in range(4)]
    assert taken == ["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24", None]
    pool.release("10.0.2.0/24")
    assert (pool.take(), pool.take()) == ("10.0.2.0/24", None)
