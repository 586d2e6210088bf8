"""Services get unique ClusterIPs and node ports, keep them and release them, also after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from tests.actors.object_store import ManualClock, Refused, Store, memory_folder


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    with memory_folder() as folder:
        async with trio.open_nursery() as nursery:
            made = Store(folder, ManualClock())
            await made.start(nursery)
            yield made
            made.stop()
            nursery.cancel_scope.cancel()


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def made(store: Store, name: str, **spec: Any) -> dict[str, Any]:
    created: dict[str, Any] = (await store.create("services", service(name, **spec)))["spec"]
    return created


async def refusal(store: Store, name: str, **spec: Any) -> str:
    with pytest.raises(Refused) as refused:
        await store.create("services", service(name, **spec))
    return refused.value.message


async def test_every_service_gets_an_address(store: Store) -> None:
    spec = await made(store, "a")
    assert spec["clusterIP"] == "10.0.0.17" and spec["clusterIPs"] == ["10.0.0.17"]
    assert spec["ipFamilies"] == ["IPv4"] and spec["ipFamilyPolicy"] == "SingleStack"
    assert list(spec)[:3] == ["ports", "clusterIP", "clusterIPs"]
    assert (await made(store, "b"))["clusterIP"] == "10.0.0.18"


async def test_headless_and_external_name_services_get_no_address(store: Store) -> None:
    spec = await made(store, "a", clusterIP="None", selector={"a": "b"})
    assert spec["clusterIPs"] == ["None"] and spec["ipFamilies"] == ["IPv4"]
    spec = await made(store, "b", type="ExternalName", externalName="x.example.com")
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(spec)


async def test_requested_address_is_allocated_if_free(store: Store) -> None:
    assert (await made(store, "a", clusterIP="10.0.0.5"))["clusterIPs"] == ["10.0.0.5"]
    assert await refusal(store, "b", clusterIP="10.0.0.5") == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: []string{"10.0.0.5"}: '
        "failed to allocate IP 10.0.0.5: provided IP is already allocated"
    )
    assert await refusal(store, "b", clusterIP="10.9.9.9") == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: []string{"10.9.9.9"}: '
        "failed to allocate IP 10.9.9.9: the provided IP (10.9.9.9) is not in the valid range. "
        "The range of valid IPs is 10.0.0.0/24"
    )


async def test_refused_service_allocates_nothing(store: Store) -> None:
    await refusal(store, "a", type="Magic", clusterIP="10.0.0.5")
    await store.create("services", service("c", clusterIP="10.0.0.5"), dryRun="All")
    assert (await made(store, "a", clusterIP="10.0.0.5"))["clusterIP"] == "10.0.0.5"
    await refusal(store, "a", clusterIP="10.0.0.6")
    assert (await made(store, "b", clusterIP="10.0.0.6"))["clusterIP"] == "10.0.0.6"


async def test_deleted_service_releases_its_address(store: Store) -> None:
    await made(store, "a", clusterIP="10.0.0.5")
    await store.delete("services", "a")
    assert (await made(store, "b", clusterIP="10.0.0.5"))["clusterIP"] == "10.0.0.5"


async def test_allocations_are_known_after_a_restart(store: Store) -> None:
    node_port = (await made(store, "a", type="NodePort"))["ports"][0]["nodePort"]
    await made(store, "b", clusterIP="10.0.0.5")
    await store.restart()
    assert "already allocated" in await refusal(store, "c", clusterIP="10.0.0.5")
    assert "already allocated" in await refusal(
        store, "c", type="NodePort", ports=[{"port": 1, "nodePort": node_port}]
    )
    assert (await made(store, "c"))["clusterIP"] not in ("10.0.0.5", "10.0.0.17")


async def test_replace_keeps_allocated_values_that_it_leaves_out(store: Store) -> None:
    before = await made(store, "a", type="NodePort")
    after = (await store.replace("services", service("a", type="NodePort", ports=[{"port": 81}])))["spec"]
    assert after["clusterIP"] == before["clusterIP"]
    assert after["ports"][0]["nodePort"] == before["ports"][0]["nodePort"]


async def test_address_cannot_be_changed(store: Store) -> None:
    await made(store, "a")
    with pytest.raises(Refused) as refused:
        await store.replace("services", service("a", clusterIP="10.0.0.253"))
    assert (
        "spec.clusterIPs[0]" in refused.value.message and "may not change once set" in refused.value.message
    )


async def test_node_ports_are_allocated(store: Store) -> None:
    ports = (await made(store, "a", type="NodePort"))["ports"]
    assert ports == [{"protocol": "TCP", "port": 80, "targetPort": 80, "nodePort": 30000}]
    both = [
        {"name": "t", "port": 53, "protocol": "TCP"},
        {"name": "u", "port": 53, "protocol": "UDP"},
        {"name": "v", "port": 54},
    ]
    ports = (await made(store, "b", type="NodePort", ports=both))["ports"]
    assert [port["nodePort"] for port in ports] == [30001, 30001, 30002]
    message = await refusal(store, "c", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    assert message == (
        'Service "c" is invalid: spec.ports[0].nodePort: Invalid value: 30001: '
        "provided port is already allocated"
    )
    message = await refusal(store, "c", type="NodePort", ports=[{"port": 1, "nodePort": 80}])
    assert message.endswith(
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )


@pytest.mark.parametrize("second", ["TCP", "UDP"])
async def test_ports_of_different_numbers_share_no_node_port(store: Store, second: str) -> None:
    ports = [
        {"name": "a", "port": 80, "nodePort": 30080},
        {"name": "b", "port": 81, "nodePort": 30080, "protocol": second},
    ]
    assert await refusal(store, "a", type="NodePort", ports=ports) == (
        'Service "a" is invalid: spec.ports[1].nodePort: Invalid value: 30080: '
        "provided port is already allocated"
    )
    ports[1]["port"] = 80
    ports[0]["protocol"], ports[1]["protocol"] = "UDP", "TCP"
    del ports[0]["nodePort"]
    shared = (await made(store, "a", type="NodePort", ports=ports))["ports"]
    assert [port["nodePort"] for port in shared] == [30080, 30080]


async def test_one_port_number_may_have_two_node_ports(store: Store) -> None:
    ports = [
        {"name": "a", "port": 53, "nodePort": 30053, "protocol": "UDP"},
        {"name": "b", "port": 53, "nodePort": 30054},
    ]
    made_ports = (await made(store, "a", type="NodePort", ports=ports))["ports"]
    assert [port["nodePort"] for port in made_ports] == [30053, 30054]


async def test_load_balancer_gets_node_ports_and_a_health_check_port(store: Store) -> None:
    spec = await made(store, "a", type="LoadBalancer", externalTrafficPolicy="Local")
    assert spec["ports"][0]["nodePort"] == 30000 and spec["healthCheckNodePort"] == 30001
    spec = await made(store, "b", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in spec["ports"][0]
    taken = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 30001}
    assert "already allocated" in await refusal(store, "c", type="LoadBalancer", **taken)


async def test_health_check_port_is_no_node_port(store: Store) -> None:
    balanced: dict[str, Any] = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    ports = [{"port": 80, "nodePort": 30500}]
    taken = "provided port is already allocated"
    why = await refusal(store, "a", **balanced, ports=ports, healthCheckNodePort=30500)
    assert why == f'Service "a" is invalid: spec.healthCheckNodePort: Invalid value: 30500: {taken}'
    await made(store, "a", **balanced, ports=ports, healthCheckNodePort=30501)
    for changed in (balanced, {"type": "NodePort"}):
        with pytest.raises(Refused) as refused:
            await store.replace("services", service("a", **changed, ports=[{"port": 80, "nodePort": 30501}]))
        assert (
            refused.value.message
            == f'Service "a" is invalid: spec.ports[0].nodePort: Invalid value: 30501: {taken}'
        )


async def test_health_check_port_is_not_the_node_port_that_an_update_releases(store: Store) -> None:
    await made(store, "a", type="LoadBalancer", ports=[{"port": 80, "nodePort": 30500}])
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30500}
    for number in (30500, 30600):
        with pytest.raises(Refused) as refused:
            await store.replace("services", service("a", **local, ports=[{"port": 80, "nodePort": number}]))
        assert "spec.healthCheckNodePort: Invalid value: 30500" in refused.value.message


async def test_change_of_type_allocates_and_releases(store: Store) -> None:
    await made(store, "a", type="ExternalName", externalName="x.example.com", ports=[])
    spec = (await store.replace("services", service("a", type="NodePort")))["spec"]
    assert spec["clusterIP"] == "10.0.0.17" and spec["ports"][0]["nodePort"] == 30000
    spec = (await store.replace("services", service("a")))["spec"]
    assert "nodePort" not in spec["ports"][0] and spec["clusterIP"] == "10.0.0.17"
    await made(store, "b", type="NodePort", ports=[{"port": 1, "nodePort": 30000}])
    named = service("a", type="ExternalName", externalName="x.example.com")
    assert "clusterIP" not in (await store.replace("services", named))["spec"]
    assert (await made(store, "c", clusterIP="10.0.0.17"))["clusterIP"] == "10.0.0.17"


async def test_full_range_is_an_error(store: Store) -> None:
    for number in range(253):
        await made(store, f"s{number}")
    assert (
        await refusal(store, "last")
        == "Internal error occurred: failed to allocate a serviceIP: range is full"
    )
    await store.delete("services", "s7")
    assert (await made(store, "last"))["clusterIP"] == "10.0.0.24"
