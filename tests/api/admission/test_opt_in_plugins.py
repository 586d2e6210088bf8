"""Plugins that are off by default, over HTTP: namespaces, events, services, volumes, and AlwaysDeny."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.gateway.settings.checks import SettingsError
from tests.actors.object_store import Refused
from tests.api.admission.configured import configured
from tests.gateway.api import Api, config_map, served


async def test_missing_namespace_is_created_but_not_by_a_dry_run() -> None:
    async with served(enable_admission_plugins="NamespaceAutoProvision") as api:
        with pytest.raises(Refused, match='namespaces "new" not found'):
            await api.create("configmaps", config_map("a"), "new", dryRun="All")
        made = await api.create("configmaps", config_map("a"), "new")
        assert made["metadata"]["namespace"] == "new"
        namespace = await api.get("namespaces", "new")
        assert namespace["metadata"]["labels"] == {"cluster.io/metadata.name": "new"}
        assert namespace["spec"]["finalizers"] == ["kubernetes"]
        await api.create("configmaps", config_map("b"), "new")
        with pytest.raises(Refused, match='configmaps "c" is forbidden: Namespace "x_y" is invalid'):
            await api.create("configmaps", config_map("c"), "x_y")
        listed = [one["metadata"]["name"] for one in (await api.list("namespaces"))["items"]]
        assert "x_y" not in listed


async def test_namespace_must_exist_without_namespace_lifecycle() -> None:
    async with served(
        enable_admission_plugins="NamespaceExists", disable_admission_plugins="NamespaceLifecycle"
    ) as api:
        with pytest.raises(Refused, match='NotFound: namespaces "new" not found'):
            await api.create("configmaps", config_map("a"), "new")
        await api.create("configmaps", config_map("a"))


async def test_everything_is_denied_except_reads() -> None:
    async with served(enable_admission_plugins="AlwaysDeny,AlwaysAdmit") as api:
        text = "admission control is denying all modifications"
        body = {"metadata": {"generateName": "x-"}}
        for method, path, name in (
            ("POST", "/api/v1/namespaces/default/configmaps", "x-"),
            ("PUT", "/api/v1/namespaces/default", "default"),
            ("DELETE", "/api/v1/namespaces/default/serviceaccounts/default", "default"),
        ):
            if method == "PUT":
                body = (await api.ask("GET", path)).expect(200)
            response = (await api.ask(method, path, body if method != "DELETE" else None)).expect(403)
            assert response["message"].endswith(f'"{name}" is forbidden: {text}')
        assert (await api.ask("GET", "/api/v1/namespaces")).status == 200


def event(name: str) -> dict[str, Any]:
    involved = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": involved, "reason": "r", "message": "m"}


async def test_events_beyond_the_limit_get_429(tmp_path: Path) -> None:
    admission = configured(
        tmp_path,
        "EventRateLimit",
        apiVersion="eventratelimit.admission.cluster.io/v1alpha1",
        kind="Configuration",
        limits=[{"type": "Namespace", "qps": 1, "burst": 1}],
    )
    async with served(enable_admission_plugins="EventRateLimit", admission=admission) as api:
        path = "/api/v1/namespaces/default/events"
        (await api.ask("POST", path, event("a"))).expect(201)
        refused = await api.ask("POST", path, event("b"))
        assert refused.headers["retry-after"] == "1"
        assert refused.expect(429) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Too many requests: limit reached on type Namespace for key default",
            "reason": "TooManyRequests",
            "code": 429,
        }
        api.clock.advance(1)
        (await api.ask("POST", path, event("b"))).expect(201)


async def test_event_rate_limit_needs_limits() -> None:
    with pytest.raises(BaseExceptionGroup) as failed:
        async with served(enable_admission_plugins="EventRateLimit"):
            pass
    (error,) = _leaves(failed.value)
    assert isinstance(error, SettingsError)
    assert "--admission-control-config-file: EventRateLimit needs a configuration" in str(error)


def _leaves(error: BaseException) -> list[BaseException]:
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [leaf for one in inner for leaf in _leaves(one)] or [error]


async def test_external_ips_can_only_be_removed() -> None:
    async with served() as api:
        spec: dict[str, Any] = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1", "192.0.2.2"]}
        await api.create("services", {"metadata": {"name": "old"}, "spec": spec})
        await api.restart(enable_admission_plugins="DenyServiceExternalIPs")
        with pytest.raises(Refused) as refused:
            await api.create("services", {"metadata": {"name": "new"}, "spec": spec})
        text = "Use of external IPs is denied by admission control"
        assert refused.value.message == f'services "new" is forbidden: {text}'
        stored = await api.get("services", "old")
        stored["spec"]["externalIPs"] = ["192.0.2.2"]
        stored = await api.replace("services", stored)
        stored["spec"]["externalIPs"] = ["192.0.2.2", "192.0.2.3"]
        with pytest.raises(Refused, match=text):
            await api.replace("services", stored)


def volume(name: str, source: str, **more: Any) -> dict[str, Any]:
    fields = {"awsElasticBlockStore": {"volumeID": "v"}, "hostPath": {"path": "/x"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], source: fields[source], **more}
    return {"metadata": {"name": name}, "spec": spec}


async def _volume(api: Api, body: dict[str, Any]) -> tuple[Any, Any]:
    made = await api.create("persistentvolumes", body)
    terms = made["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms")
    return made["metadata"].get("labels"), terms


async def test_volumes_get_the_region_and_zones_of_the_configuration(tmp_path: Path) -> None:
    admission = configured(tmp_path, "PersistentVolumeLabel", region="r", zones=["b", "a"])
    region, zone = "topology.cluster.io/region", "topology.cluster.io/zone"
    rules = [
        {"key": region, "operator": "In", "values": ["r"]},
        {"key": zone, "operator": "In", "values": ["a", "b"]},
    ]
    async with served(enable_admission_plugins="PersistentVolumeLabel", admission=admission) as api:
        labels = {region: "r", zone: "a__b"}
        assert await _volume(api, volume("a", "awsElasticBlockStore")) == (
            labels,
            [{"matchExpressions": rules}],
        )
        assert await _volume(api, volume("b", "hostPath")) == (None, None)
        own = [{"matchExpressions": [{"key": zone, "operator": "In", "values": ["z"]}]}]
        affinity = {"required": {"nodeSelectorTerms": own}}
        assert await _volume(api, volume("c", "awsElasticBlockStore", nodeAffinity=affinity)) == (labels, own)
        provisioned = volume("d", "awsElasticBlockStore")
        provisioned["metadata"]["annotations"] = {"pv.cluster.io/provisioned-by": "x"}
        provisioned["metadata"]["labels"] = {region: "s", zone: "q"}
        assert (await _volume(api, provisioned))[0] == {region: "s", zone: "q"}


async def test_volumes_on_disks_are_refused_without_a_region() -> None:
    async with served(enable_admission_plugins="PersistentVolumeLabel") as api:
        with pytest.raises(Refused, match='"a" is forbidden: error querying AWS EBS volume v: '):
            await _volume(api, volume("a", "awsElasticBlockStore"))


async def test_an_empty_list_of_groups_is_denied_and_otherwise_not_stored() -> None:
    """Only here does Kubernetes distinguish an empty list from none: no stored object has it."""
    pods = "/api/v1/namespaces/default/pods"
    new = {
        "metadata": {"name": "web"},
        "spec": {
            "containers": [{"name": "c", "image": "app:1"}],
            "securityContext": {"supplementalGroups": [], "runAsGroup": 1},
        },
    }
    async with served() as api:
        created = (await api.ask("POST", pods, new)).expect(201)
        assert created["spec"]["securityContext"] == {"runAsGroup": 1}
        [entry] = created["metadata"]["managedFields"]
        assert "f:supplementalGroups" not in entry["fieldsV1"]["f:spec"]["f:securityContext"]
        await api.restart(enable_admission_plugins="SecurityContextDeny")
        refused = (await api.ask("POST", pods, {**new, "metadata": {"name": "other"}})).expect(403)
        assert "pod.Spec.SecurityContext.SupplementalGroups is forbidden" in refused["message"]
        for patch, status in (
            ({"spec": {"securityContext": {"supplementalGroups": []}}}, 403),
            ({"metadata": {"labels": {"a": "b"}}}, 200),
        ):
            headers = {"content-type": "application/merge-patch+json"}
            (await api.ask("PATCH", f"{pods}/web", patch, headers=headers)).expect(status)
