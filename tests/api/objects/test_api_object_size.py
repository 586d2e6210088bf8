"""Objects too large for the etcd of a kube-apiserver are refused as there, unless a flag allows them."""

from __future__ import annotations

import orjson

from tests.actors.object_store import Document
from tests.api.custom.kinds import GROUP, define, definition
from tests.gateway.api import Api, config_map, served

LIMIT = 1536 << 10
MESSAGE = "etcdserver: request is too large"
PATH = f"/apis/{GROUP}/v1/namespaces/default/widgets"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
ENDPOINTS = "/api/v1/namespaces/default/endpoints"


def widget(name: str, size: int) -> Document:
    metadata = {"name": name}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, "text": "x" * size}


def refused(response: Document, message: str = MESSAGE) -> None:
    assert response == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": 500,
    }


async def room(api: Api) -> int:
    """The maximum length of the text of a widget named `a`: the etcd request has its JSON, two keys and 39 bytes."""
    dry = await api.ask("POST", PATH, widget("a", 0), dryRun="All")
    stored = dry.expect(201)
    del stored["metadata"]["managedFields"]
    key = f"/registry/{GROUP}/widgets/default/a"
    return LIMIT - 39 - 2 * len(key) - len(orjson.dumps(stored)) - 1


async def test_limit_of_etcd_to_the_byte() -> None:
    async with served() as api:
        await define(api, definition(VERSION))
        most = await room(api)
        refused((await api.ask("POST", PATH, widget("a", most + 1))).expect(500))
        assert (await api.ask("GET", f"{PATH}/a")).status == 404
        (await api.ask("POST", PATH, widget("a", most + 1), dryRun="All")).expect(201)
        # managedFields are left out of an object that is too large with them.
        assert "managedFields" not in (await api.ask("POST", PATH, widget("a", most))).expect(201)["metadata"]
        (await api.ask("DELETE", f"{PATH}/a")).expect(200)
        assert (
            "managedFields" in (await api.ask("POST", PATH, widget("a", most - 500))).expect(201)["metadata"]
        )
        # An update has the key three times in the request.
        patched = await api.ask("PATCH", f"{PATH}/a", {"text": "x" * most}, headers=MERGE)
        refused(patched.expect(500))
        patched = await api.ask("PATCH", f"{PATH}/a", {"text": "x" * (most - 200)}, headers=MERGE)
        assert "managedFields" not in patched.expect(200)["metadata"]


async def test_an_apply_keeps_its_managed_fields() -> None:
    async with served() as api:
        await define(api, definition(VERSION))
        most = await room(api)
        path = f"{PATH}/a?fieldManager=m"
        refused((await api.ask("PATCH", path, widget("a", most), headers=APPLY)).expect(500))
        (await api.ask("PATCH", path, widget("a", most - 500), headers=APPLY)).expect(201)


async def test_objects_beyond_the_limit_of_the_client_of_etcd() -> None:
    async with served() as api:
        await define(api, definition(VERSION))
        most = await room(api)
        sent = widget("a", 2_500_000)
        size = LIMIT - 17 + 3 + 2_500_000 - most
        text = "rpc error: code = ResourceExhausted desc = trying to send message larger than max"
        refused((await api.ask("POST", PATH, sent)).expect(500), f"{text} ({size} vs. 2097152)")


def endpoints(name: str, count: int) -> Document:
    addresses = [{"ip": f"10.0.{n // 250}.{n % 250}", "nodeName": "n" * 100} for n in range(count)]
    return {"metadata": {"name": name}, "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}


async def test_built_in_kinds_are_measured_in_protobuf() -> None:
    async with served() as api:
        taken = await api.ask("POST", ENDPOINTS, endpoints("a", 13_000))
        assert len(taken.body) > LIMIT + 100_000
        taken.expect(201)
        refused((await api.ask("POST", ENDPOINTS, endpoints("b", 14_500))).expect(500))


async def test_deletes_are_not_limited_and_a_smaller_limit_counts() -> None:
    async with served() as api:
        body = config_map("a", text="x" * 100_000)
        body["metadata"]["finalizers"] = ["example.io/wait"]
        await api.create("configmaps", body)
        await api.restart(max_object_size=64 << 10)
        await api.delete("configmaps", "a")
        marked = await api.get("configmaps", "a")
        assert "deletionTimestamp" in marked["metadata"]
        refused(
            (await api.ask("POST", api.path("configmaps"), config_map("b", text="x" * 100_000))).expect(500)
        )


async def test_object_that_is_being_deleted_may_lose_its_finalizers_but_not_grow() -> None:
    async with served() as api:
        for kind, path in (("configmaps", api.path("configmaps")), ("widgets", PATH)):
            if kind == "widgets":
                await api.restart(max_object_size=LIMIT)
                await define(api, definition(VERSION))
            body = config_map("a", text="x" * 100_000) if kind == "configmaps" else widget("a", 100_000)
            body["metadata"]["finalizers"] = ["example.io/a", "example.io/b"]
            (await api.ask("POST", path, body)).expect(201)
            await api.restart(max_object_size=64 << 10)
            one, path = {"metadata": {"finalizers": ["example.io/b"]}}, f"{path}/a"
            refused((await api.ask("PATCH", path, one, headers=MERGE)).expect(500))
            (await api.ask("DELETE", path)).expect(200)
            grown = {"metadata": {"annotations": {"a": "x" * 2000}}}
            refused((await api.ask("PATCH", path, grown, headers=MERGE)).expect(500))
            patched = (await api.ask("PATCH", path, one, headers=MERGE)).expect(200)
            assert patched["metadata"]["finalizers"] == ["example.io/b"]
            (await api.ask("PATCH", path, {"metadata": {"finalizers": None}}, headers=MERGE)).expect(200)
            assert (await api.ask("GET", path)).status == 404


async def test_size_of_objects_can_be_unlimited() -> None:
    async with served(max_object_size=0) as api:
        await define(api, definition(VERSION))
        made = (await api.ask("POST", PATH, widget("a", 2_500_000))).expect(201)
        assert "managedFields" in made["metadata"]


async def test_objects_with_as_many_parts_as_kube_apiserver_takes() -> None:
    """80,000 keys are too large with managedFields; 12,000 addresses have 78,000 values."""
    keys = {f"k{number}": "v" for number in range(80_000)}
    addresses = [
        {
            "ip": f"10.0.{number // 250}.{number % 250}",
            "nodeName": "n1",
            "targetRef": {"kind": "Pod", "name": f"pod-{number}", "namespace": "default", "uid": "u" * 36},
        }
        for number in range(12_000)
    ]
    subsets = [{"addresses": addresses, "ports": [{"port": 80}]}]
    async with served() as api:
        made = await api.create("configmaps", {"metadata": {"name": "a"}, "data": keys})
        assert len(made["data"]) == 80_000
        assert "managedFields" not in made["metadata"]
        made = await api.create("endpoints", {"metadata": {"name": "a"}, "subsets": subsets})
        assert len(made["subsets"][0]["addresses"]) == 12_000
