"""A write negotiates its representation first: if that is refused, nothing changes."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map, served
from tests.gateway.protobuf_client import MEDIA

AS_TABLE = ";as=Table;g=meta.cluster.io;v=v1"
TABLE = f"application/json{AS_TABLE}"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SPEC: Document = {"containers": [{"name": "c", "image": "i"}]}
POD: Document = {"metadata": {"name": "p"}, "spec": SPEC}
TEMPLATE: Document = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
DEPLOYMENT: Document = {
    "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
EVICTION: Document = {"metadata": {"name": "p"}}
BINDING: Document = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
MERGE = {"content-type": "application/merge-patch+json"}
WRITES: dict[str, tuple[str, str, Document | None]] = {
    "create": ("POST", MAPS, config_map("b")),
    "update": ("PUT", f"{MAPS}/a", config_map("a", k="v")),
    "patch": ("PATCH", f"{MAPS}/a", {"data": {"k": "v"}}),
    "delete": ("DELETE", f"{MAPS}/a", None),
    "delete that returns the object": ("DELETE", f"{PODS}/p", None),
    "deletecollection": ("DELETE", MAPS, None),
    "eviction": ("POST", f"{PODS}/p/eviction", EVICTION),
    "binding": ("POST", f"{PODS}/p/binding", BINDING),
    "scale": ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}),
    "status": ("PATCH", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 3}}),
}


async def fill(api: Api) -> None:
    await api.create("configmaps", config_map("a"))
    (await api.ask("POST", PODS, POD)).expect(201)
    (await api.ask("POST", DEPLOYMENTS, DEPLOYMENT)).expect(201)


@pytest.mark.parametrize("name", WRITES)
async def test_table_in_protobuf_is_refused_before_the_write(name: str) -> None:
    method, path, body = WRITES[name]
    async with served() as api:
        await fill(api)
        head = await api.head()
        content = MERGE if method == "PATCH" else {}
        refused = await api.ask(method, path, body, headers={**content, "accept": MEDIA + AS_TABLE})
        assert refused.status == 406
        assert await api.head() == head


@pytest.mark.parametrize("name", WRITES)
async def test_unknown_include_object_is_refused_before_the_write(name: str) -> None:
    method, path, body = WRITES[name]
    async with served() as api:
        await fill(api)
        head = await api.head()
        content = MERGE if method == "PATCH" else {}
        refused = await api.ask(method, path, body, headers={**content, "accept": TABLE}, includeObject="All")
        assert "includeObject" in refused.expect(400)["message"]
        assert await api.head() == head


@pytest.mark.parametrize("accept", [f"{MEDIA}{AS_TABLE}, application/json", f"{MEDIA}{AS_TABLE}, */*;q=0.5"])
async def test_next_accept_clause_is_used(accept: str) -> None:
    async with served() as api:
        made = await api.ask("POST", MAPS, config_map("a"), headers={"accept": accept})
        assert made.expect(201)["kind"] == "ConfigMap"
        listed = await api.ask("GET", MAPS, headers={"accept": accept})
        assert listed.expect(200)["kind"] == "ConfigMapList"
