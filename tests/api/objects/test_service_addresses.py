"""ServiceCIDRs and the IPAddress of each ClusterIP, as versions since 1.33 have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.account_tokens import eventually
from tests.gateway.api import ON_ETCD, Api, ApiResponse, served

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def names(api: Api, path: str = ADDRESSES) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.ask("GET", path)).expect(200)["items"]]


def condition(response: ApiResponse) -> dict[str, Any]:
    found = response.expect(200)["status"].get("conditions") or [{}]
    return dict(found[0])


async def change(api: Api, name: str, patch: dict[str, Any]) -> None:
    headers = {"content-type": "application/merge-patch+json"}
    (await api.ask("PATCH", api.path("services", name=name), patch, headers=headers)).expect(200)


async def refusal(api: Api, name: str, **spec: Any) -> str:
    response = await api.ask("POST", api.path("services"), service(name, **spec))
    return str(response.expect(422)["details"]["causes"][0]["message"]).partition(": failed")[2]


async def stored(api: Api, path: str = ADDRESSES) -> list[dict[str, Any]]:
    return list((await api.ask("GET", path)).expect(200)["items"])


async def has_addresses(api: Api, expected: list[str]) -> None:
    """They are there at once, or once the controller has written them where nodes share etcd."""
    if ON_ETCD:
        await eventually(
            api,
            ADDRESSES,
            lambda one: [found["metadata"]["name"] for found in one.expect(200)["items"]] == expected,
        )
    assert await names(api) == expected


async def test_an_address_is_stored_and_removed_with_its_service(caplog: pytest.LogCaptureFixture) -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await eventually(api, ADDRESSES, lambda one: len(one.expect(200)["items"]) == 1)
        before = await names(api)  # that of the API itself
        caplog.clear()
        made = await api.create("services", service("a"))
        ip = made["spec"]["clusterIP"]
        await has_addresses(api, sorted([*before, ip]))
        address = (await api.ask("GET", f"{ADDRESSES}/{ip}")).expect(200)
        assert address["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}
        assert address["metadata"]["labels"] == {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
        if not ON_ETCD:
            versions = [int(one["metadata"]["resourceVersion"]) for one in (address, made)]
            assert versions[1] == versions[0] + 1  # one commit, the address first
        (await api.ask("POST", api.path("services"), service("b"), dryRun="All")).expect(201)
        (await api.ask("POST", api.path("services"), service("b", type="x"))).expect(422)
        (await api.ask("POST", api.path("services"), service("a"))).expect(409)
        await api.create("services", service("headless", clusterIP="None"))
        await has_addresses(api, sorted([*before, ip]))
        external = {
            "spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": None, "clusterIPs": None}
        }
        await change(api, "a", external)
        await has_addresses(api, before)
        await change(api, "a", {"spec": {"type": "ClusterIP"}})
        [new] = [
            found["spec"]["clusterIP"]
            for found in await stored(api, api.path("services"))
            if found["metadata"]["name"] == "a"
        ]
        await has_addresses(api, sorted([*before, new]))
        (await api.ask("DELETE", api.path("services", name="a"))).expect(200)
        await has_addresses(api, before)
        assert "not allocated" not in caplog.text


async def test_services_get_addresses_of_all_ready_ranges() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        assert await names(api, CIDRS) == ["kubernetes"]
        await eventually(api, f"{CIDRS}/kubernetes", lambda one: condition(one).get("status") == "True")
        mismatch = " to allocate IP 10.9.0.1: the provided network does not match the current range"
        assert await refusal(api, "a", clusterIP="10.9.0.1") == mismatch
        extra = {"metadata": {"name": "extra"}, "spec": {"cidrs": ["10.9.0.0/29"]}}
        (await api.ask("POST", CIDRS, extra)).expect(201)
        await api.create("services", service("a", clusterIP="10.9.0.1"))
        taken = " to allocate IP 10.9.0.1: provided IP is already allocated"
        assert await refusal(api, "b", clusterIP="10.9.0.1") == taken
        unmanaged = {"metadata": {"name": "10.9.0.2"}, "spec": {"parentRef": {"resource": "x", "name": "y"}}}
        (await api.ask("POST", ADDRESSES, unmanaged)).expect(201)
        assert "already allocated" in await refusal(api, "b", clusterIP="10.9.0.2")

        def has_finalizer(response: ApiResponse) -> bool:
            return bool(response.expect(200)["metadata"].get("finalizers"))

        await eventually(api, f"{CIDRS}/extra", has_finalizer)
        (await api.ask("DELETE", f"{CIDRS}/extra")).expect(200)
        waiting = await eventually(api, f"{CIDRS}/extra", lambda one: condition(one).get("status") == "False")
        assert condition(waiting)["reason"] == "Terminating"
        assert "does not match" in await refusal(api, "b", clusterIP="10.9.0.3")
        (await api.ask("DELETE", api.path("services", name="a"))).expect(200)
        await eventually(api, f"{CIDRS}/extra", lambda one: one.status == 404)


async def test_services_of_earlier_versions_get_their_addresses(tmp_path: Path) -> None:
    async with served(tmp_path, dialect="kubernetes", kubernetes_version="1.32") as api:
        ip = (await api.create("services", service("a")))["spec"]["clusterIP"]
    async with served(tmp_path, dialect="kubernetes", kubernetes_version="1.36") as api:
        await eventually(api, f"{ADDRESSES}/{ip}", lambda one: one.status == 200)
        (await api.ask("DELETE", f"{ADDRESSES}/{ip}")).expect(200)
        await eventually(api, f"{ADDRESSES}/{ip}", lambda one: one.status == 200)
        found = await api.ask("GET", api.path("services"), fieldSelector=f"spec.clusterIP={ip}")
        assert [one["metadata"]["name"] for one in found.expect(200)["items"]] == ["a"]
