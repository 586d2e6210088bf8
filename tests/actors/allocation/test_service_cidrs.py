"""Pools of ServiceCIDRs, values of dry runs, and IPAddresses that take addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.allocation.allocated import (
    DEFAULT_CIDR,
    AddressPool,
    AllocatedItems,
    FixedRanges,
    PortPool,
    ServiceCidrs,
    is_ready,
)
from rewound.actors.allocation.services import AllocationError, ServicePools, allocate
from rewound.actors.errors import Exhausted
from rewound.actors.messages import Object
from rewound.actors.store.document import encode
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import choose_release
from rewound.journal.log import Journal
from rewound.journal.records import Event

CIDRS, ADDRESSES = "servicecidrs.networking.k8s.io", "ipaddresses.networking.k8s.io"
FEATURES = choose_release("1.36").features


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal.open(tmp_path, dialect="kubernetes")
    made.register_types(["services", CIDRS, ADDRESSES])
    return made


def store(journal: Journal, type_name: str, name: str, **content: Any) -> None:
    offset = journal.head + 1
    document: Object = {"metadata": {"name": name}, "spec": {}, "status": {}, **content}
    body = encode(document, offset)
    event = Event(offset, journal.type_id(type_name), "create", "", name, 0, False, 1, "u", "", b"", body, "")
    journal.append([event])


def service(**spec: Any) -> Object:
    whole = {
        "ports": [{"port": 80, "protocol": "TCP"}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        **spec,
    }
    return {"metadata": {"name": "a"}, "spec": whole}


class Cluster:
    def __init__(self, journal: Journal) -> None:
        feed = Feed(0, journal)
        cidrs = ServiceCidrs(("10.0.0.0/24",), journal, feed, CIDRS)
        self.items, self.pools = (
            AllocatedItems(journal, feed, ADDRESSES),
            ServicePools(cidrs, PortPool(30000, 30001)),
        )

    def spec(self, *, dry_run: bool = False, **spec: Any) -> Object:
        made = allocate(self.items, self.pools, service(**spec), None, unchecked=dry_run, features=FEATURES)
        found: Object = made.service["spec"]
        return found


def test_addresses_come_from_the_default_range_first(journal: Journal) -> None:
    store(journal, CIDRS, "a", spec={"cidrs": ["10.1.0.0/30", "fd00::/64"]})
    store(journal, CIDRS, DEFAULT_CIDR, spec={"cidrs": ["10.0.0.0/30"]})
    store(journal, ADDRESSES, "10.0.0.1")
    cluster = Cluster(journal)
    assert cluster.spec()["clusterIP"] == "10.0.0.2"
    assert cluster.spec(clusterIP="10.1.0.2")["clusterIPs"] == ["10.1.0.2"]
    store_all = [f"10.{part}.0.{number}" for part in (0, 1) for number in (1, 2)]
    cluster.items.reserve(store_all)
    with pytest.raises(Exhausted, match='failed to allocate a serviceIP for Service "a": range is full'):
        cluster.spec()


@pytest.mark.parametrize(
    ("dry_run", "text"), [(False, "does not match the current range"), (True, "10.0.0.0/24")]
)
def test_an_address_of_no_range(journal: Journal, dry_run: bool, text: str) -> None:
    store(journal, CIDRS, DEFAULT_CIDR, spec={"cidrs": ["10.0.0.0/24"]})
    with pytest.raises(AllocationError) as refused:
        Cluster(journal).spec(clusterIP="10.7.0.1", dry_run=dry_run)
    assert refused.value.errors[0].message.endswith(text)


def test_dry_runs_get_values_that_no_service_has(journal: Journal) -> None:
    store(journal, CIDRS, DEFAULT_CIDR, spec={"cidrs": ["10.0.0.0/24"]})
    store(journal, ADDRESSES, "10.0.0.9")
    cluster = Cluster(journal)
    spec = cluster.spec(dry_run=True, type="NodePort")
    assert (spec["clusterIP"], spec["ports"][0]["nodePort"]) == ("10.0.0.0", 32769)
    assert cluster.spec(dry_run=True, clusterIP="10.0.0.9")["clusterIP"] == "10.0.0.9"


def test_a_range_is_ready_without_a_condition_and_until_it_is_deleted() -> None:
    condition = {"type": "Ready", "status": "False"}
    assert is_ready({"metadata": {}, "status": {}})
    assert not is_ready({"metadata": {"deletionTimestamp": "x"}, "status": {}})
    assert not is_ready({"metadata": {}, "status": {"conditions": [condition]}})
    assert is_ready({"metadata": {}, "status": {"conditions": [{**condition, "status": "True"}]}})


def test_the_pool_of_a_range_has_its_first_address_and_no_end() -> None:
    whole, fixed = AddressPool("fd00::/64", whole=True), FixedRanges(("fd00::/108",)).pools("IPv6")[0]
    assert whole.check("fd00::ffff:ffff") == "fd00::ffff:ffff"
    assert whole.cursor().next(lambda _: True) == "fd00::101"
    assert AddressPool("10.0.0.0/30", whole=True).cursor().next(lambda _: True) == "10.0.0.1"
    with pytest.raises(ValueError, match="not in the valid range"):
        fixed.check("fd00::f:ffff")
