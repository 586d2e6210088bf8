"""Every start writes this server's address into its Service, Endpoints and EndpointSlice, and changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.allocation.ranges import ServiceRanges
from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.bootstrap.objects import ServingAddress
from rewound.actors.names import CLUSTER
from tests.actors.object_store import Refused, Store, open_store


async def start(store: Store, address: str, port: int) -> None:
    bootstrap = Bootstrap(CLUSTER, store.catalog, store.journal, store.directory, store.write_contexts)
    await bootstrap.create_objects(ServiceRanges(), ServingAddress(address, port))


async def found(store: Store) -> dict[str, Any]:
    service = await store.get("services", "kubernetes")
    endpoints = await store.get("endpoints", "kubernetes")
    slice_ = await store.get("endpointslices", "kubernetes")
    return {
        "targetPort": service["spec"]["ports"][0]["targetPort"],
        "clusterIP": service["spec"]["clusterIP"],
        "endpoints": [(one["addresses"][0]["ip"], one["ports"][0]["port"]) for one in endpoints["subsets"]],
        "slice": (slice_["addressType"], slice_["endpoints"][0]["addresses"], slice_["ports"][0]["port"]),
    }


MOVES = (
    ("192.0.2.7", 6443, "IPv4"),
    ("192.0.2.8", 6443, "IPv4"),
    ("192.0.2.8", 7443, "IPv4"),
    ("2001:db8::1", 7443, "IPv6"),
    ("127.0.0.1", 7443, "IPv4"),
)


async def test_endpoints_follow_a_changed_address_or_port() -> None:
    async with open_store() as store:
        for address, port, family in MOVES:
            await start(store, address, port)
            assert await found(store) == {
                "targetPort": port,
                "clusterIP": "10.0.0.1",
                "endpoints": [(address, port)],
                "slice": (family, [address], port),
            }


async def test_start_at_the_same_address_writes_nothing() -> None:
    async with open_store() as store:
        await start(store, "192.0.2.8", 7443)
        head = store.journal.head
        await start(store, "192.0.2.8", 7443)
        assert store.journal.head == head


async def test_start_updates_only_the_address() -> None:
    async with open_store() as store:
        await start(store, "192.0.2.7", 6443)
        changed = await store.get("endpoints", "kubernetes")
        changed["metadata"]["labels"]["mine"] = "yes"
        await store.replace("endpoints", changed)
        await start(store, "192.0.2.8", 6443)
        assert (await store.get("endpoints", "kubernetes"))["metadata"]["labels"]["mine"] == "yes"


async def test_endpoints_have_all_servers_of_the_cluster() -> None:
    """Sorted, with a subset for each port; the EndpointSlice has only the first one, as in v1.25."""
    async with open_store() as store:
        await start(store, "192.0.2.7", 6443)
        bootstrap = Bootstrap(CLUSTER, store.catalog, store.journal, store.directory, store.write_contexts)
        others = [
            ServingAddress(f"192.0.2.{number}", port) for number, port in ((9, 6443), (7, 6443), (8, 7443))
        ]
        await bootstrap.update_endpoints(others)
        subsets = (await store.get("endpoints", "kubernetes"))["subsets"]
        assert [(one["ports"][0]["port"], [each["ip"] for each in one["addresses"]]) for one in subsets] == [
            (6443, ["192.0.2.7", "192.0.2.9"]),
            (7443, ["192.0.2.8"]),
        ]
        slice_ = await store.get("endpointslices", "kubernetes")
        assert [one["addresses"] for one in slice_["endpoints"]] == [["192.0.2.7"], ["192.0.2.9"]]
        assert [one["port"] for one in slice_["ports"]] == [6443]
        head = store.journal.head
        await bootstrap.update_endpoints(others[::-1])
        await bootstrap.update_endpoints(())  # the last address is never removed
        assert store.journal.head == head


SUBSETS = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 1}]}]
SLICE = {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": []}


@pytest.mark.parametrize(("plural", "body"), [("endpoints", {"subsets": SUBSETS}), ("endpointslices", SLICE)])
async def test_other_endpoints_may_not_point_at_loopback(plural: str, body: dict[str, Any]) -> None:
    async with open_store() as store:
        with pytest.raises(Refused, match="may not be in the loopback range"):
            await store.create(plural, {"metadata": {"name": "kubernetes2"}, **body})
