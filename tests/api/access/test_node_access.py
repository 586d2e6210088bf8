"""Node authorizer and NodeRestriction over HTTP: what a node may read, and what it must not read or change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.gateway.api import Api, ApiResponse, served

SECRET = "/api/v1/namespaces/default/secrets/s"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}


@asynccontextmanager
async def cluster(**more: Any) -> AsyncIterator[Api]:
    """Two nodes, a secret, and the pod `p` on n1 that mounts it."""
    given = {"authorization_mode": "Node,RBAC", "enable_admission_plugins": "NodeRestriction", **more}
    async with served(**given) as api:
        for name in ("n1", "n2"):
            await api.create("nodes", {"metadata": {"name": name}, "spec": {}})
        await api.create("secrets", {"metadata": {"name": "s"}})
        await api.create("pods", pod("p", "n1", volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
        yield api


def pod(name: str, on: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeName": on,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}],
            **spec,
        },
    }


async def by(api: Api, node: str, method: str, path: str, body: Any = None, **query: Any) -> ApiResponse:
    headers = {"impersonate-user": f"system:node:{node}", "impersonate-group": "system:nodes"}
    if method == "PATCH":
        headers |= MERGE
    return await api.ask(method, path, body, headers=headers, **query)


async def refused(api: Api, node: str, method: str, path: str, body: Any = None) -> str:
    return str((await by(api, node, method, path, body)).expect(403)["message"])


async def test_node_reads_the_secret_of_its_pod_and_no_other_node_does() -> None:
    async with cluster() as api:
        assert (await by(api, "n1", "GET", SECRET)).status == 200
        listed = await by(api, "n1", "GET", SECRET.rpartition("/")[0], fieldSelector="metadata.name=s")
        assert [one["metadata"]["name"] for one in listed.expect(200)["items"]] == ["s"]
        message = await refused(api, "n2", "GET", SECRET)
        assert message.endswith(
            '"system:node:n2" cannot get resource "secrets" in API group "" in the namespace "default": '
            "no relationship found between node 'n2' and this object"
        )
        for path in (SECRET.rpartition("/")[0], "/api/v1/secrets"):
            assert (await by(api, "n1", "GET", path)).status == 403
            assert (await by(api, "n1", "GET", path, watch="true")).status == 403


async def test_node_that_loses_its_pod_loses_the_right_with_the_next_request() -> None:
    async with cluster() as api:
        assert (await by(api, "n1", "GET", SECRET)).status == 200
        await api.delete("pods", "p")
        assert (await by(api, "n1", "GET", SECRET)).status == 403


async def test_rights_of_nodes_hold_from_the_first_request_after_a_restart() -> None:
    async with cluster() as api:
        await api.restart()
        assert (await by(api, "n1", "GET", SECRET)).status == 200
        assert (await by(api, "n2", "GET", SECRET)).status == 403


async def test_without_the_mode_nodes_have_no_rights() -> None:
    async with cluster(authorization_mode="RBAC") as api:
        assert (await by(api, "n1", "GET", SECRET)).status == 403
        assert (await by(api, "n1", "GET", "/api/v1/nodes/n1")).status == 403


async def test_member_of_the_group_without_the_name_of_a_node_has_no_rights() -> None:
    async with cluster() as api:
        headers = {"impersonate-user": "n1", "impersonate-group": "system:nodes"}
        assert (await api.ask("GET", SECRET, headers=headers)).status == 403
        headers = {"impersonate-user": "system:node:n1", "impersonate-group": "others"}
        assert (await api.ask("GET", SECRET, headers=headers)).status == 403


async def test_node_does_not_change_other_nodes_or_its_own_taints_and_restricted_labels() -> None:
    async with cluster() as api:
        label = {"metadata": {"labels": {"a": "b"}}}
        for path in ("/api/v1/nodes/n2", "/api/v1/nodes/n2/status"):
            assert 'node "n1" is not allowed to modify node "n2"' in await refused(
                api, "n1", "PATCH", path, label
            )
        assert (await by(api, "n1", "PATCH", "/api/v1/nodes/n1", label)).status == 200
        taint = {"spec": {"taints": None}}
        assert "is not allowed to modify taints" in await refused(
            api, "n1", "PATCH", "/api/v1/nodes/n1", taint
        )
        restricted = {"metadata": {"labels": {"node-restriction.cluster.io/a": "b"}}}
        for path in ("/api/v1/nodes/n1", "/api/v1/nodes/n1/status"):
            assert "is not allowed to modify labels: node-restriction" in await refused(
                api, "n1", "PATCH", path, restricted
            )
        assert (await by(api, "n1", "DELETE", "/api/v1/nodes/n1")).status == 403
        assert (await by(api, "n3", "POST", "/api/v1/nodes", {"metadata": {"name": "n4"}})).status == 403
        assert (await by(api, "n3", "POST", "/api/v1/nodes", {"metadata": {"name": "n3"}})).status == 201


def mirror(node: dict[str, Any], **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"]}
    body = pod("m", "n1", **spec)
    body["metadata"] |= {
        "annotations": {"cluster.io/config.mirror": "x"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    return body


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "t"}}]}, "secrets"),
        ({"imagePullSecrets": [{"name": "t"}]}, "secrets"),
        ({"volumes": [{"name": "v", "configMap": {"name": "t"}}]}, "configmaps"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "t"}}]}, "persistentvolumeclaims"),
        ({"serviceAccountName": "default"}, "service account"),
    ],
)
async def test_mirror_pod_gives_its_node_no_way_to_other_objects(spec: dict[str, Any], what: str) -> None:
    async with cluster(disable_admission_plugins="ServiceAccount") as api:
        await api.create("secrets", {"metadata": {"name": "t"}})
        body = mirror(await api.get("nodes", "n1"), **spec)
        message = await refused(api, "n1", "POST", PODS, body)
        assert 'node "n1" can not create pods that reference ' in message
        assert message.endswith(what)
        assert (await by(api, "n1", "GET", SECRET[:-1] + "t")).status == 403


async def test_node_creates_a_mirror_pod_of_its_own_and_deletes_only_its_own_pods() -> None:
    async with cluster() as api:
        await api.create("pods", pod("q", "n2"))
        assert (await by(api, "n1", "POST", PODS, mirror(await api.get("nodes", "n1")))).status == 201
        assert (await by(api, "n1", "DELETE", f"{PODS}/m")).status == 200
        assert "can only delete pods" in await refused(api, "n1", "DELETE", f"{PODS}/q")
        assert (await by(api, "n1", "DELETE", PODS)).status == 403
        status = {"status": {"reason": "x"}}
        assert "can only update pod status" in await refused(api, "n1", "PATCH", f"{PODS}/q/status", status)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}}
        message = await refused(api, "n1", "POST", f"{PODS}/q/eviction", eviction)
        assert message.endswith("node n1 can only evict pods with spec.nodeName set to itself")
        assert (await by(api, "n2", "POST", f"{PODS}/q/eviction", eviction)).status == 201
        assert (await by(api, "n2", "POST", f"{PODS}/q/eviction", eviction)).status == 404


async def test_node_writes_the_status_of_claims_of_its_pods_and_nothing_else_of_them() -> None:
    async with cluster() as api:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await api.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
        path = "/api/v1/namespaces/default/persistentvolumeclaims/c/status"
        grown = {"status": {"capacity": {"storage": "2Gi"}}}
        assert (await by(api, "n1", "PATCH", path, grown)).status == 403
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        await api.create("pods", pod("q", "n1", volumes=[claim]))
        assert (await by(api, "n1", "PATCH", path, grown)).status == 200
        for body, field in (
            ({"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
            ({"metadata": {"finalizers": None}}, "metadata.finalizers"),
            ({"spec": {"volumeName": "v"}}, "spec.volumeName"),
            ({"status": {"phase": "Bound"}}, "status.phase"),
        ):
            message = await refused(api, "n1", "PATCH", path, body)
            why = "is not allowed to update fields other than status.capacity and status.conditions"
            assert message.endswith(f'node "n1" {why}: {field}')


async def test_lease_and_csi_node_have_the_name_of_their_node() -> None:
    async with cluster() as api:
        leases = "/apis/coordination.cluster.io/v1/namespaces/cluster-node-lease/leases"
        nodes = "/apis/storage.cluster.io/v1/csinodes"
        for path, spec in ((leases, {}), (nodes, {"drivers": []})):
            other, own = ({"metadata": {"name": name}, "spec": spec} for name in ("n2", "n1"))
            assert "with the same name as the requesting node" in await refused(
                api, "n1", "POST", path, other
            )
            generated = {"metadata": {"generateName": "n1"}, "spec": spec}
            assert (await by(api, "n1", "POST", path, generated)).status == 403
            assert (await by(api, "n1", "POST", path, own)).status == 201
            assert (
                await by(api, "n2", "PATCH", f"{path}/n1", {"metadata": {"labels": {"a": "b"}}})
            ).status == 403


async def test_node_gets_no_token_for_a_pod_of_another_node() -> None:
    async with cluster() as api:
        uids = {
            name: (await api.create("pods", pod(name, on)))["metadata"]["uid"]
            for name, on in (("a", "n1"), ("b", "n2"))
        }
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"

        def bound(name: str, **more: str) -> dict[str, Any]:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uids[name], **more}
            return {"spec": {"boundObjectRef": reference}}

        assert (await by(api, "n1", "POST", path, bound("a"))).expect(201)["status"]["token"]
        message = await refused(api, "n1", "POST", path, bound("b"))
        assert message.endswith("node requested token bound to a pod scheduled on a different node")
        assert "not bound to a pod" in await refused(api, "n1", "POST", path, {"spec": {}})
        assert "without a uid" in await refused(api, "n1", "POST", path, bound("a", uid=""))
        await api.delete("pods", "a")
        await api.delete("pods", "p")
        assert "no relationship found" in await refused(api, "n1", "POST", path, bound("a"))


async def test_names_of_the_kubernetes_dialect_hold_for_nodes_too() -> None:
    async with cluster(dialect="kubernetes") as api:
        assert (await by(api, "n1", "GET", SECRET)).status == 200
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        for path, spec in ((leases, {}), ("/apis/storage.k8s.io/v1/csinodes", {"drivers": []})):
            own = {"metadata": {"name": "n1"}, "spec": spec}
            assert (await by(api, "n1", "POST", path, own)).status == 201
            assert (await by(api, "n2", "DELETE", f"{path}/n1")).status == 403
        assert '"kubernetes.io/config.mirror" annotation' in await refused(
            api, "n1", "POST", PODS, pod("q", "n1")
        )
        label = {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}
        assert (await by(api, "n1", "PATCH", "/api/v1/nodes/n1", label)).status == 403


async def test_plugin_is_off_unless_it_is_enabled() -> None:
    async with cluster(enable_admission_plugins="") as api:
        label = {"metadata": {"labels": {"a": "b"}}}
        assert (await by(api, "n1", "PATCH", "/api/v1/nodes/n2", label)).status == 200


async def test_node_cannot_delete_its_own_node() -> None:
    async with cluster() as api:
        message = await refused(api, "n1", "DELETE", "/api/v1/nodes/n1")
        assert 'cannot delete resource "nodes"' in message
        await api.get("nodes", "n1")
