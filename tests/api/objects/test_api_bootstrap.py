"""A new server has its initial objects when it is ready; a restart creates no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.names import NAMES
from tests.gateway.api import Api, names, served

SERVICE = "/api/v1/namespaces/default/services/kubernetes"


async def everything(api: Api) -> dict[str, list[str]]:
    listed = {}
    for plural in ("namespaces", "priorityclasses", "services", "endpoints", "endpointslices"):
        listed[plural] = names(await api.list(plural, None))
    return listed


async def test_fresh_server_has_the_initial_objects() -> None:
    async with served() as api:
        assert await everything(api) == {
            "namespaces": ["cluster-node-lease", "cluster-public", "cluster-system", "default"],
            "priorityclasses": ["system-cluster-critical", "system-node-critical"],
            "services": ["kubernetes"],
            "endpoints": ["kubernetes"],
            "endpointslices": ["kubernetes"],
        }
        service = (await api.ask("GET", SERVICE)).expect(200)
        assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        assert service["spec"]["clusterIPs"] == ["10.0.0.1"]
        assert service["spec"]["ports"] == [
            {"name": "https", "protocol": "TCP", "port": 443, "targetPort": api.settings.insecure_port}
        ]


@pytest.mark.parametrize("dialect", sorted(NAMES))
async def test_endpoints_of_the_api_service_have_the_form_of_a_reference_server(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        dialect_names, port = NAMES[dialect], api.settings.insecure_port
        endpoints = await api.get("endpoints", "kubernetes")
        assert endpoints["metadata"]["labels"] == {dialect_names.key("skip-mirror", "endpointslice"): "true"}
        assert endpoints["subsets"] == [
            {
                "addresses": [{"ip": "127.0.0.1"}],
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            }
        ]
        slice_ = await api.get("endpointslices", "kubernetes")
        assert slice_["metadata"]["labels"] == {dialect_names.key("service-name"): "kubernetes"}
        assert slice_["addressType"] == "IPv4"
        assert slice_["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
        assert slice_["ports"] == [{"name": "https", "port": port, "protocol": "TCP"}]


async def test_advertised_address_is_where_others_reach_the_server() -> None:
    async with served(advertise_address="192.0.2.7") as api:
        endpoints = await api.get("endpoints", "kubernetes")
        assert endpoints["subsets"][0]["addresses"] == [{"ip": "192.0.2.7"}]
        assert api.addresses.hosts == ("192.0.2.7", "127.0.0.1")


async def test_restart_writes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        before, head = await everything(api), await api.head()
        await api.restart()
        assert await everything(api) == before and await api.head() == head


async def test_restart_creates_deleted_objects_again(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        before = await everything(api)
        await api.delete_collection("priorityclasses")  # deletes by name are refused
        assert await everything(api) != before
        await api.delete("services", "kubernetes")
        await api.restart()
        assert await everything(api) == before


async def test_restart_keeps_changes(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        labelled = {"metadata": {"labels": {"mine": "yes"}}}
        headers = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", SERVICE, labelled, headers=headers)).expect(200)
        await api.restart()
        assert (await api.ask("GET", SERVICE)).document["metadata"]["labels"]["mine"] == "yes"


async def test_cluster_ip_is_the_first_of_the_service_range() -> None:
    async with served(service_cluster_ip_range="fd00::/108") as api:
        assert (await api.ask("GET", SERVICE)).document["spec"]["clusterIP"] == "fd00::1"


async def test_server_starts_and_logs_when_its_cluster_ip_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as api:
        await api.delete("services", "kubernetes")
        taken = {"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}}
        await api.create("services", taken)
        await api.restart()
        assert names(await api.list("services")) == ["a"]
    assert 'could not be stored: Service "kubernetes" is invalid' in caplog.text
