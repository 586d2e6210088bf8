"""Where the Service of this server points: kept true at every start, without touching anything else."""

from __future__ import annotations

from typing import Any

import pytest

from actors.allocation.ranges import ServiceRanges
from actors.bootstrap.ensure import ensure
from actors.bootstrap.objects import Whereabouts, api_service
from actors.names import CLUSTER
from tests.actors.store import Store, stored


async def move(store: Store, address: str, port: int) -> None:
    seeds = api_service(CLUSTER, ServiceRanges(), Whereabouts(address, port))
    await ensure(seeds, store.catalog, store.journal, store.directory, store.stamps)


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


async def test_a_server_that_moves_is_found_again() -> None:
    async with stored() as store:
        for address, port in (("192.0.2.7", 6443), ("192.0.2.8", 6443), ("192.0.2.8", 7443)):
            await move(store, address, port)
            assert await found(store) == {
                "targetPort": port,
                "clusterIP": "10.0.0.1",
                "endpoints": [(address, port)],
                "slice": ("IPv4", [address], port),
            }
        head = store.journal.head
        await move(store, "192.0.2.8", 7443)
        assert store.journal.head == head


@pytest.mark.parametrize(
    ("address", "reachable"),
    [("192.0.2.7", True), ("2001:db8::1", True), ("127.0.0.1", False), ("::", False), ("0.0.0.0", False)],
)
def test_addresses_that_others_can_reach(address: str, reachable: bool) -> None:
    assert Whereabouts(address, 1).reachable is reachable
