"""Services over HTTP: addresses from the configured ranges, the same after a restart, and no endpoints to proxy to."""

from __future__ import annotations

from typing import Any

from tests.gateway.api import served
from tests.gateway.shared_server import shared

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_addresses_are_from_the_configured_ranges() -> None:
    chosen = {
        "service_cluster_ip_range": "10.1.0.0/28,fd00::/120",
        "service_node_port_range": "20000-20001",
    }
    async with served(**chosen) as api:
        made = await api.create("services", service("a", type="NodePort", ipFamilyPolicy="PreferDualStack"))
        assert made["spec"]["clusterIPs"] == ["10.1.0.2", "fd00::11"]
        assert made["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
        assert made["spec"]["ports"][0]["nodePort"] == 20000
        taken = (await api.ask("POST", SERVICES, service("b", clusterIP="10.1.0.2"))).expect(422)
        assert [cause["field"] for cause in taken["details"]["causes"]] == ["spec.clusterIPs"]
        await api.create("services", service("b", type="NodePort"))
        full = (await api.ask("POST", SERVICES, service("c", type="NodePort"))).expect(500)
        assert full["reason"] == "InternalError"
        assert full["message"] == "Internal error occurred: failed to allocate a nodePort: range is full"


async def test_allocated_addresses_are_known_after_a_restart() -> None:
    async with served() as api:
        made = await api.create("services", service("a"))
        await api.restart()
        again = service("b", clusterIP=made["spec"]["clusterIP"])
        (await api.ask("POST", SERVICES, again)).expect(422)
        await api.delete("services", "a")
        (await api.ask("POST", SERVICES, again)).expect(201)


async def test_merge_patch_without_an_address_keeps_it() -> None:
    async with served() as api:
        made = await api.create("services", service("a"))
        response = await api.ask(
            "PATCH",
            f"{SERVICES}/a",
            {"spec": {"selector": {"a": "b"}}},
            headers={"content-type": "application/merge-patch+json"},
        )
        assert response.expect(200)["spec"]["clusterIP"] == made["spec"]["clusterIP"]


async def test_service_proxy_has_no_endpoints() -> None:
    async with served() as api:
        (await api.ask("GET", f"{SERVICES}/a/proxy")).expect(404)
        await api.create("services", service("a"))
        status = (await api.ask("GET", f"{SERVICES}/a/proxy")).expect(404)
        assert status["message"] == 'services "a" not found'
        await api.create("endpoints", {"metadata": {"name": "a"}})
        status = (await api.ask("GET", f"{SERVICES}/a/proxy")).expect(503)
        assert (await api.ask("GET", f"{SERVICES}/a/proxy/any/path")).expect(503) == status
        assert status["message"] == 'no endpoints available for service "a"'
        listed = (await api.ask("GET", "/api/v1")).expect(200)["resources"]
        assert {"services", "services/proxy", "services/status"} <= {one["name"] for one in listed}


async def test_deprecated_version_of_flow_schemas_warns() -> None:
    async with shared() as api:
        group = "flowcontrol.apiserver.cluster.io"
        newer = await api.ask("GET", f"/apis/{group}/v1beta2/flowschemas")
        older = await api.ask("GET", f"/apis/{group}/v1beta1/flowschemas")
        assert newer.status == older.status == 200 and newer.warnings == []
        assert older.warnings == [
            f'299 - "{group}/v1beta1 FlowSchema is deprecated in v1.23+, unavailable in v1.26+; '
            f'use {group}/v1beta2 FlowSchema"'
        ]
        missing = await api.ask("GET", f"/apis/{group}/v1beta1/flowschemas/none")
        assert missing.status == 404 and missing.warnings == older.warnings


async def test_object_is_served_in_two_versions() -> None:
    async with served() as api:
        group = "flowcontrol.apiserver.cluster.io"
        schema = {"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "l"}}}
        made = (await api.ask("POST", f"/apis/{group}/v1beta1/flowschemas", schema)).expect(201)
        assert made["apiVersion"] == f"{group}/v1beta1" and made["spec"]["matchingPrecedence"] == 1000
        newer = (await api.ask("GET", f"/apis/{group}/v1beta2/flowschemas/a")).expect(200)
        assert newer["metadata"]["uid"] == made["metadata"]["uid"] and newer["spec"] == made["spec"]
