"""The endpoints of Services follow their pods: in Endpoints, in EndpointSlices, and in slices of custom Endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Command, DeleteOptions, Object, Outcome
from rewound.actors.names import CLUSTER
from rewound.actors.workloads import endpoint_mirroring
from rewound.actors.workloads.built_in import Workloads
from rewound.actors.workloads.endpoint_mirroring import MirrorKeys, mirror
from rewound.actors.workloads.endpoint_slices import sorted_ports
from rewound.actors.workloads.endpoints import subsets_of, truncate
from rewound.actors.workloads.service_pods import Fnv, hashed, long_hashed
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane
from tests.actors.controllers.signing_requests import controller_context
from tests.at_once import at_once

SLICES = "endpointslices.discovery.cluster.io"
CONTROLLERS = frozenset({"endpoint", "endpointslice", "endpointslicemirroring"})
MANAGED_BY, SERVICE = "endpointslice.cluster.io/managed-by", "cluster.io/service-name"
HINTS, ZONE = "service.cluster.io/topology-aware-hints", "topology.cluster.io/zone"
NOW = DeleteOptions(grace_period_seconds=0)
TRIGGER = "endpoints.cluster.io/last-change-trigger-time"


class Net:
    """Services, nodes and pods, and what the controllers create for them."""

    def __init__(self, cluster: ControlPlane, workloads: Workloads | None = None) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self._loops = {loop.name: loop for loop in workloads.loops} if workloads is not None else {}

    async def node(self, name: str, zone: str = "", cpu: str = "4") -> None:
        labels = {ZONE: zone} if zone else {}
        await self.cluster.create("nodes", name, labels=labels)
        ready = {"type": "Ready", "status": "True"}
        await self._status("nodes", "", name, {"allocatable": {"cpu": cpu}, "conditions": [ready]})

    async def pod(
        self, name: str, ip: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        container = {"name": "c", "image": "app:1", "ports": spec.pop("ports", [{"containerPort": 80}])}
        content = {"spec": {"nodeName": "n", "containers": [container], **spec}}
        await self.cluster.create("pods", name, content=content, labels=labels or {"app": "web"})
        if ip:
            await self.run(name, ip, ready=ready)

    async def run(self, name: str, ip: str, *, ready: bool = True, phase: str = "Running") -> None:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        ips = [{"ip": one} for one in ip.split()]
        status = {"phase": phase, "podIP": ip.split()[0], "podIPs": ips, "conditions": [condition]}
        await self._status("pods", "default", name, status)

    async def _status(self, type_name: str, namespace: str, name: str, status: Object) -> None:
        definition = self.cluster.catalog.storage(type_name)
        await self.client.patch(definition, namespace, name, {"status": status}, "merge", "status")

    async def service(self, name: str = "svc", **spec: Any) -> None:
        annotations = spec.pop("annotations", {})
        families = spec.pop("ipFamilies", ["IPv4"])
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP"}], **spec}
        spec = {"clusterIP": "10.1.0.1", "ipFamilies": families, **spec}
        spec["clusterIPs"] = [spec["clusterIP"], "10.1.0.1"][: len(families)]
        spec["ipFamilyPolicy"] = "RequireDualStack" if len(families) > 1 else "SingleStack"
        content = {"spec": {part: value for part, value in spec.items() if value is not None}}
        labels = {"svc": name}
        await self.cluster.create("services", name, content=content, labels=labels, annotations=annotations)

    async def patch(self, type_name: str, name: str, patch: Object) -> None:
        await self.client.patch(self.cluster.catalog.storage(type_name), "default", name, patch)

    async def settled(self, seconds: float = 2) -> None:
        await self.cluster.wait_until_idle(seconds)

    def subsets(self, name: str = "svc") -> list[Object]:
        found = self.cluster.get("endpoints", name)
        assert found is not None
        subsets: list[Object] = found.get("subsets", [])
        return subsets

    def slices(self, service: str = "svc") -> list[Object]:
        found = (self.cluster.get(SLICES, name) for name in self.cluster.names(SLICES))
        return [one for one in found if one is not None and one["metadata"]["labels"][SERVICE] == service]

    def served(self, service: str = "svc") -> dict[str, Object]:
        """The endpoints in all slices, by their first address."""
        every = [endpoint for one in self.slices(service) for endpoint in one["endpoints"] or ()]
        found = {endpoint["addresses"][0]: endpoint for endpoint in every}
        assert len(found) == len(every)
        return found

    def reconciled(self) -> int:
        """How many keys the controller of EndpointSlices has taken so far."""
        return self._loops["endpointslice"].statistics()[1].taken

    def warnings(self) -> list[str]:
        names = self.cluster.names("events")
        found = [self.cluster.get("events", name) for name in names]
        return [f"{one['reason']}: {one['message']}" for one in found if one is not None]


@asynccontextmanager
async def open_net(path: Path, **changed: Any) -> AsyncIterator[Net]:
    async with open_control_plane(path, controllers=False) as cluster, trio.open_nursery() as nursery:
        workloads = Workloads(controller_context(cluster, enabled=CONTROLLERS, **changed))
        for name, run in workloads.tasks:
            nursery.start_soon(cluster.supervisor.keep, name, run)
        net = Net(cluster, workloads)
        if cluster.get("nodes", "n") is None:
            await net.node("n")
        await net.settled()
        yield net
        nursery.cancel_scope.cancel()


def ips(addresses: list[Object]) -> list[str]:
    return [one["ip"] for one in addresses]


async def test_ready_and_unready_pods_are_in_both(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("b", "10.0.0.2")
        await net.pod("a", "10.0.0.1")
        await net.pod("c", "10.0.0.3", ready=False)
        await net.pod("pending", "")
        await net.pod("other", "10.0.0.9", labels={"app": "db"})
        await net.settled()
        (subset,) = net.subsets()
        assert ips(subset["addresses"]) == ["10.0.0.1", "10.0.0.2"]
        assert ips(subset["notReadyAddresses"]) == ["10.0.0.3"]
        assert subset["ports"] == [{"port": 80, "protocol": "TCP"}]
        first = subset["addresses"][0]
        uid = net.cluster.get("pods", "a")["metadata"]["uid"]  # type: ignore[index]
        reference = {"kind": "Pod", "namespace": "default", "name": "a", "uid": uid}
        assert first == {"ip": "10.0.0.1", "nodeName": "n", "targetRef": reference}
        (one,) = net.slices()
        assert one["metadata"]["labels"] == {
            "svc": "svc",
            SERVICE: "svc",
            MANAGED_BY: "endpointslice-controller.cluster.io",
        }
        assert one["metadata"]["generateName"] == "svc-"
        assert [owner["kind"] for owner in one["metadata"]["ownerReferences"]] == ["Service"]
        assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
        conditions = {ip: endpoint["conditions"] for ip, endpoint in net.served().items()}
        up = {"ready": True, "serving": True, "terminating": False}
        down = {"ready": False, "serving": False, "terminating": False}
        assert conditions == {"10.0.0.1": up, "10.0.0.2": up, "10.0.0.3": down}


async def test_pod_that_is_deleted_or_ends_leaves(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        for number, name in enumerate("abc"):
            await net.pod(name, f"10.0.0.{number + 1}")
        await net.run("c", "10.0.0.3", phase="Succeeded")
        await net.cluster.delete("pods", "a")
        await net.settled()
        assert ips(net.subsets()[0]["addresses"]) == ["10.0.0.2"]
        served = net.served()
        assert sorted(served) == ["10.0.0.1", "10.0.0.2"]
        assert served["10.0.0.1"]["conditions"] == {"ready": False, "serving": True, "terminating": True}


async def test_pod_that_was_never_ready_stays_after_its_end_until_something_else_changes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("a", "10.0.0.1", ready=False)
        await net.pod("b", "10.0.0.2", ready=False)
        await net.settled()
        await net.run("a", "10.0.0.1", ready=False, phase="Failed")
        await net.settled(60)
        assert sorted(net.served()) == ips(net.subsets()[0]["notReadyAddresses"]) == ["10.0.0.1", "10.0.0.2"]
        await net.run("b", "10.0.0.2")
        await net.settled()
        assert sorted(net.served()) == ips(net.subsets()[0]["addresses"]) == ["10.0.0.2"]


async def test_unready_addresses_can_be_published(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service(publishNotReadyAddresses=True)
        await net.pod("a", "10.0.0.1", ready=False)
        await net.pod("b", "10.0.0.2")
        await net.cluster.delete("pods", "b")
        await net.settled()
        assert ips(net.subsets()[0]["addresses"]) == ["10.0.0.1", "10.0.0.2"]
        assert [one["conditions"]["ready"] for one in net.served().values()] == [True, True]


async def test_headless_service_without_ports(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service(clusterIP="None", ports=None)
        await net.pod("a", "10.0.0.1", hostname="a", subdomain="svc")
        await net.settled()
        (subset,) = net.subsets()
        assert "ports" not in subset and subset["addresses"][0]["hostname"] == "a"
        label = "service.cluster.io/headless"
        assert net.cluster.get("endpoints", "svc")["metadata"]["labels"][label] == ""  # type: ignore[index]
        (one,) = net.slices()
        assert not one["ports"] and one["endpoints"][0]["hostname"] == "a"
        assert one["metadata"]["labels"][label] == ""


async def test_endpoints_keep_their_labels_if_only_the_address_of_the_service_goes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("a", "10.0.0.1")
        await net.settled()
        before = net.cluster.get("endpoints", "svc")
        service = net.cluster.get("services", "svc")
        assert service is not None
        spec = {
            part: value for part, value in service["spec"].items() if part not in ("clusterIP", "clusterIPs")
        }
        external = {**spec, "type": "ExternalName", "externalName": "example.org"}
        await net.cluster.replace("services", {**service, "spec": external})
        await net.settled()
        assert net.cluster.get("endpoints", "svc") == before


async def test_named_ports_make_subsets_and_slices(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service(
            ports=[
                {"name": "web", "port": 80, "protocol": "TCP", "targetPort": "http"},
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"},
            ]
        )
        http = {"name": "http", "containerPort": 8080, "protocol": "TCP"}
        dns = {"name": "dns", "containerPort": 53, "protocol": "UDP"}
        await net.pod("a", "10.0.0.1", ports=[http, dns])
        await net.pod("b", "10.0.0.2", ports=[{**http, "containerPort": 9090}])
        await net.pod("c", "10.0.0.3", ports=[])
        await net.settled()
        found = {tuple(ips(one["addresses"])): one["ports"] for one in net.subsets()}
        both = [
            {"name": "web", "port": 8080, "protocol": "TCP"},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ]
        assert found == {
            ("10.0.0.1",): both,
            ("10.0.0.2",): [{"name": "web", "port": 9090, "protocol": "TCP"}],
        }
        ports = {one["endpoints"][0]["addresses"][0]: one["ports"] or [] for one in net.slices()}
        assert ports == {"10.0.0.1": both, "10.0.0.2": found[("10.0.0.2",)], "10.0.0.3": []}


async def test_selector_and_labels_of_the_service_change(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("a", "10.0.0.1")
        await net.pod("b", "10.0.0.2", labels={"app": "db"})
        await net.settled()
        name = net.slices()[0]["metadata"]["name"]
        await net.patch("services", "svc", {"spec": {"selector": {"app": "db"}}})
        await net.patch("services", "svc", {"metadata": {"labels": {"more": "1"}}})
        await net.settled()
        assert ips(net.subsets()[0]["addresses"]) == ["10.0.0.2"] and sorted(net.served()) == ["10.0.0.2"]
        assert net.cluster.get("endpoints", "svc")["metadata"]["labels"] == {"svc": "svc", "more": "1"}  # type: ignore[index]
        (one,) = net.slices()
        assert one["metadata"]["name"] == name and one["metadata"]["labels"]["more"] == "1"
        await net.patch("pods", "a", {"metadata": {"labels": {"app": "db"}}})
        await net.settled()
        assert sorted(net.served()) == ["10.0.0.1", "10.0.0.2"] and len(net.subsets()[0]["addresses"]) == 2


async def test_service_without_pods_has_an_empty_slice(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.settled()
        (empty,) = net.slices()
        assert not empty["endpoints"] and not empty["ports"] and net.subsets() == []
        await net.pod("a", "10.0.0.1")
        await net.settled()
        (one,) = net.slices()
        assert one["metadata"]["name"] == empty["metadata"]["name"] and len(one["endpoints"]) == 1


async def test_nothing_is_written_without_a_change(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("a", "10.0.0.1")
        await net.settled()
        head = net.cluster.journal.head
        await net.patch("pods", "a", {"metadata": {"annotations": {"note": "1"}}})
        await net.settled(60)
        assert net.cluster.journal.head == head + 1


async def test_what_others_change_or_delete_is_restored(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("a", "10.0.0.1")
        await net.settled()
        (one,) = net.slices()
        await net.patch(SLICES, one["metadata"]["name"], {"endpoints": []})
        await net.cluster.delete("endpoints", "svc")
        await net.settled()
        assert sorted(net.served()) == ["10.0.0.1"] and len(net.subsets()) == 1
        await net.cluster.delete(SLICES, one["metadata"]["name"])
        await net.settled()
        assert sorted(net.served()) == ["10.0.0.1"]


async def test_endpoints_go_with_their_service(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.settled()
        await net.cluster.delete("services", "svc")
        await net.settled()
        assert net.cluster.get("endpoints", "svc") is None


async def test_a_restart_makes_up_for_what_was_missed(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service("gone")
        await net.service("stays", clusterIP="10.1.0.2")
        await net.pod("a", "10.0.0.1")
        await net.settled()
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.delete("services", "gone")
        net = Net(cluster)
        await net.run("a", "10.0.0.1", ready=False)
        await net.pod("b", "10.0.0.2")
        await cluster.create("endpoints", "lock", annotations={"control-plane.alpha.cluster.io/leader": "{}"})
    async with open_net(tmp_path) as net:
        assert net.cluster.names("endpoints") == ["lock", "stays"]
        (subset,) = net.subsets("stays")
        assert ips(subset["addresses"]) == ["10.0.0.2"] and ips(subset["notReadyAddresses"]) == ["10.0.0.1"]
        ready = {ip: one["conditions"]["ready"] for ip, one in net.served("stays").items()}
        assert ready == {"10.0.0.1": False, "10.0.0.2": True}


async def test_dual_stack_service_has_slices_of_both_types(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service(ipFamilies=["IPv6", "IPv4"], clusterIP="fd00:1::1")
        await net.pod("a", "10.0.0.1 fd00::1")
        await net.settled()
        assert ips(net.subsets()[0]["addresses"]) == ["fd00::1"]
        found = {one["addressType"]: one["endpoints"][0]["addresses"] for one in net.slices()}
        assert found == {"IPv4": ["10.0.0.1"], "IPv6": ["fd00::1"]}


async def test_pod_on_a_missing_node_waits_for_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.service()
        await net.pod("a", "10.0.0.1", nodeName="later")
        await net.settled()
        assert net.served() == {}
        assert net.warnings() == [
            "FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service default/svc: "
            "skipping Pod a for Service default/svc: Node later Not Found"
        ]
        await net.node("later", zone="east")
        await net.settled()
        assert net.served()["10.0.0.1"]["zone"] == "east"
        await net.client.patch(
            net.cluster.catalog.storage("nodes"), "", "later", {"metadata": {"labels": {ZONE: "west"}}}
        )
        await net.settled()
        assert net.served()["10.0.0.1"]["zone"] == "west"


async def test_services_without_pods_on_a_missing_node_do_not_wait_for_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_net(tmp_path) as net:
        for name in ("svc", "gone"):
            await net.service(name)
        await net.pod("a", "10.0.0.1", nodeName="later")
        await net.settled()
        await net.client.delete(net.cluster.catalog.storage("services"), "default", "gone", NOW)
        await net.client.delete(net.cluster.catalog.storage("pods"), "default", "a", NOW)
        await net.settled()
        before = net.reconciled()
        await net.node("later")
        await net.settled()
        assert net.reconciled() == before


async def test_many_pods_fill_slices_of_a_hundred(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        async with trio.open_nursery() as nursery:
            for number in range(130):
                nursery.start_soon(net.pod, f"p{number:03}", f"10.0.0.{number}")
        await net.service()
        await net.settled()
        assert sorted(len(one["endpoints"]) for one in net.slices()) == [30, 100]
        assert len(net.served()) == len(net.subsets()[0]["addresses"]) == 130
        before = net.cluster.journal.head
        await net.client.delete(net.cluster.catalog.storage("pods"), "default", "p007", NOW)
        await net.settled()
        assert len(net.served()) == 129
        with net.cluster.journal.read() as view:
            writers = [event.user for event in view.events(before) if event.user != "client"]
        assert len(writers) == 2  # Endpoints, and the one slice that had it


async def test_custom_endpoints_are_mirrored(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        subset = {
            "addresses": [{"ip": "192.0.2.1"}, {"ip": "fd00::1", "hostname": "six"}],
            "notReadyAddresses": [{"ip": "192.0.2.2"}],
            "ports": [{"name": "web", "port": 80, "protocol": "TCP"}],
        }
        annotations = {"note": "1", TRIGGER: "2020-01-01T00:00:00Z"}
        await net.cluster.create(
            "endpoints", "custom", content={"subsets": [subset]}, labels={"a": "b"}, annotations=annotations
        )
        await net.settled()
        assert net.slices("custom") == []
        await net.service("custom", selector=None)
        await net.settled()
        found = {one["addressType"]: one for one in net.slices("custom")}
        assert sorted(found) == ["IPv4", "IPv6"]
        four = found["IPv4"]
        assert [(one["addresses"], one["conditions"]) for one in four["endpoints"]] == [
            (["192.0.2.1"], {"ready": True}),
            (["192.0.2.2"], {"ready": False}),
        ]
        assert found["IPv6"]["endpoints"][0]["hostname"] == "six"
        assert four["ports"] == subset["ports"] and four["metadata"]["annotations"] == {"note": "1"}
        assert four["metadata"]["labels"] == {
            "a": "b",
            SERVICE: "custom",
            MANAGED_BY: "endpointslicemirroring-controller.cluster.io",
        }
        await net.patch("endpoints", "custom", {"subsets": [{**subset, "notReadyAddresses": None}]})
        await net.settled()
        assert sorted(net.served("custom")) == ["192.0.2.1", "fd00::1"]
        names = {one["metadata"]["name"] for one in net.slices("custom")}
        assert names == {one["metadata"]["name"] for one in found.values()}
        await net.patch(
            "endpoints", "custom", {"metadata": {"labels": {"endpointslice.cluster.io/skip-mirror": "true"}}}
        )
        await net.settled()
        assert net.slices("custom") == []


async def test_only_a_thousand_addresses_of_a_subset_are_mirrored(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_net(tmp_path) as net:
        await net.service("custom", selector=None)
        addresses = [{"ip": f"192.0.{number // 250}.{number % 250}"} for number in range(1002)]
        ports = [{"port": 80, "protocol": "TCP"}]
        content = {"subsets": [{"addresses": addresses, "ports": ports}]}
        await net.cluster.create("endpoints", "custom", content=content)
        await net.settled()
        assert len(net.served("custom")) == 1000
        assert net.warnings() == [
            "TooManyAddressesToMirror: A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. "
            "2 addresses were skipped"
        ]


async def test_many_subsets_are_mirrored_in_turns_and_in_several_passes(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    subsets = [
        {
            "addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}],
            "ports": [{"port": port, "protocol": "TCP"}],
        }
        for port in range(1, 11)
    ]
    metadata = {"name": "custom", "namespace": "default", "uid": "u"}
    planned = mirror(MirrorKeys(CLUSTER), {"metadata": metadata, "subsets": subsets}, [])
    assert sum(1 for _ in planned) >= 3 * len(subsets)  # for each address, and for each slice
    monkeypatch.setattr(endpoint_mirroring, "BURST", 3)
    async with open_net(tmp_path) as net:
        await net.service("custom", selector=None)
        await net.cluster.create("endpoints", "custom", content={"subsets": subsets})
        await net.settled()
        assert len(net.slices("custom")) == 20
        await net.patch("endpoints", "custom", {"subsets": subsets[:1]})
        await net.settled()
        assert len(net.slices("custom")) == 2


async def test_mirrored_slices_go_when_the_service_gets_a_selector(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_net(tmp_path) as net:
        await net.service("custom", selector=None)
        subset = {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}
        await net.cluster.create("endpoints", "custom", content={"subsets": [subset]})
        await net.settled()
        assert sorted(net.served("custom")) == ["192.0.2.1"]
        await net.patch("services", "custom", {"spec": {"selector": {"app": "web"}}})
        await net.settled()
        assert [one["metadata"]["labels"][MANAGED_BY] for one in net.slices("custom")] == [
            "endpointslice-controller.cluster.io"
        ]


async def test_zones_get_hints_by_their_cpus(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_net(tmp_path) as net:
        await net.client.delete(net.cluster.catalog.storage("nodes"), "", "n", NOW)
        await net.node("east", "east", "4")
        await net.node("west", "west", "4")
        await net.service(annotations={HINTS: "auto"})
        for number in range(4):
            await net.pod(f"p{number}", f"10.0.0.{number}", nodeName="west" if number == 3 else "east")
        await net.settled()

        def hints() -> list[str]:
            served = net.served().values()
            return sorted(one["hints"]["forZones"][0]["name"] for one in served if "hints" in one)

        assert hints() == ["east", "east", "west", "west"]
        assert net.served()["10.0.0.3"]["hints"] == {"forZones": [{"name": "west"}]}
        await net.node("zoneless")
        await net.settled()
        assert hints() == []


def test_ports_are_sorted_by_hash() -> None:
    """The order was recorded: hashes 09adaa82... and 552d1257..."""
    plain = {"name": "web", "port": 8080, "protocol": "TCP"}
    typed = {**plain, "appProtocol": "h2c"}
    assert at_once(sorted_ports([typed, plain])) == [plain, typed]


def test_fnv_hash_as_published() -> None:
    assert hashed("", Fnv).hex() == "6c62272e07bb014262b821756295c58d"
    assert hashed("a", Fnv).hex() == "d228cb696f1a8caf78912b704e4a8964"
    assert at_once(long_hashed("a" * 5000, Fnv)) == hashed("a" * 5000, Fnv)


def pod(name: str, ip: str, ready: bool = True) -> Object:
    condition = {"type": "Ready", "status": str(ready)}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "nodeName": "n"},
        "status": {"phase": "Running", "podIP": ip, "conditions": [condition]},
    }


def test_endpoints_over_capacity_keep_ready_addresses_first() -> None:
    service = {"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}
    some = [pod(f"r{n}", f"10.1.{n // 250}.{n % 250}") for n in range(900)]
    others = [pod(f"n{n}", f"10.2.{n // 250}.{n % 250}", ready=False) for n in range(300)]
    (subset,), cut = truncate(at_once(subsets_of(service, [*some, *others])))
    assert cut and len(subset["addresses"]) == 900 and len(subset["notReadyAddresses"]) == 100
    more = [pod(f"m{n}", f"10.3.{n // 250}.{n % 250}") for n in range(300)]
    (subset,), cut = truncate(at_once(subsets_of(service, [*some, *more, *others])))
    assert cut and len(subset["addresses"]) == 1000 and "notReadyAddresses" not in subset
    assert truncate(at_once(subsets_of(service, some)))[1] is False


async def _grown(path: Path, stop: int, account: str) -> tuple[object, object]:
    """The result for two pods and then a third, if the process ends before write number `stop` of a controller."""
    written = 0
    async with open_net(path) as net:
        ask = net.cluster.directory.ask

        async def ask_or_end(definition: Definition, command: Command) -> Outcome:
            nonlocal written
            if command.context.user.endswith(f":{account}"):
                written += 1
                if written == stop:
                    await trio.sleep_forever()
            return await ask(definition, command)

        net.cluster.directory.ask = ask_or_end  # type: ignore[method-assign]
        await net.service()
        await net.service("custom", selector=None, clusterIP="10.1.0.2")
        for number in range(2):
            await net.pod(f"p{number}", f"10.0.0.{number}")
        subset = {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}
        await net.cluster.create("endpoints", "custom", content={"subsets": [subset]})
        await net.settled()
        await net.pod("p2", "10.0.0.2")
        await net.patch("services", "svc", {"metadata": {"labels": {"more": "1"}}})
        await net.settled()
    async with open_net(path) as net:
        slices = [
            (
                one["metadata"]["labels"],
                sorted(ip for endpoint in one["endpoints"] for ip in endpoint["addresses"]),
            )
            for one in (*net.slices(), *net.slices("custom"))
        ]
        addresses = ips(net.subsets()[0]["addresses"])
        return (net.cluster.get("endpoints", "svc") or {})["metadata"]["labels"], (addresses, slices)


async def test_a_kill_before_any_write_ends_in_the_same_world(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    expected = await _grown(tmp_path / "whole", 0, "")
    for account, stop in (
        ("endpoint-controller", 1),
        ("endpoint-controller", 3),
        ("endpointslice-controller", 2),
        ("endpointslice-controller", 3),
        ("endpointslicemirroring-controller", 1),
    ):
        assert await _grown(tmp_path / f"{account}{stop}", stop, account) == expected, f"{account}, {stop}"
