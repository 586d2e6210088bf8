"""Nothing is sent to the address of a simulated pod, however a Service leads there; an annotation names a real one."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.access.remote.address import ServiceAddress
from rewound.actors.admission.webhooks.services import Services, Unresolved
from tests.actors.object_store import Store, open_store
from tests.api.webhooks.hooking import Hooks, hooking
from tests.cases import cases

HOOK = ServiceAddress("default", "hook", 443)
REAL = "192.0.2.7"
REFUSED = (
    'service "hook" leads to simulated pods, in which no program listens: its annotation sim/address may name'
)
KWOK = {"kwok.x-k8s.io/node": "fake"}


async def node(store: Store, name: str, **annotations: str) -> None:
    await store.create("nodes", {"metadata": {"name": name, "annotations": annotations}})


async def pod(store: Store, name: str, node_name: str, address: str) -> None:
    spec = {"nodeName": node_name, "containers": [{"name": "c", "image": "i"}]}
    made = await store.create("pods", {"metadata": {"name": name}, "spec": spec})
    made["status"] = {"podIP": address, "podIPs": [{"ip": address}]}
    await store.replace("pods", made, subresource="status")


async def cluster(store: Store) -> None:
    """A simulated node, one of kwok and a real one, with a pod each."""
    await node(store, "simulated", **{"sim/node": "true"})
    await node(store, "fake", **KWOK)
    await node(store, "real")
    await pod(store, "a", "simulated", "10.244.0.1")
    await pod(store, "b", "fake", "fd00::5")
    await pod(store, "c", "real", "10.244.0.3")


async def service(store: Store, *addresses: dict[str, Any], **spec: Any) -> None:
    await store.create("services", {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}], **spec}})
    if addresses:
        subsets = [{"addresses": list(addresses), "ports": [{"port": 9443}]}]
        await store.create("endpoints", {"metadata": {"name": "hook"}, "subsets": subsets})


async def resolved(*addresses: dict[str, Any], **spec: Any) -> set[str]:
    """The addresses that are chosen in many calls, or the error."""
    async with open_store() as store:
        await cluster(store)
        await service(store, *addresses, **spec)
        services = Services(store.journal)
        try:
            return {await services.resolve(HOOK) for _ in range(20)}
        except Unresolved as error:
            return {str(error)[: len(REFUSED)]}


def on(node_name: str, address: str) -> dict[str, Any]:
    return {"ip": address, "nodeName": node_name}


@cases(
    "addresses, chosen",
    [
        ([on("simulated", "10.244.0.1")], REFUSED),
        ([on("fake", "fd00::5")], REFUSED),
        ([on("simulated", "10.244.9.9")], REFUSED),  # of a pod that is gone
        ([on("gone", "10.244.9.9")], REFUSED),
        ([{"ip": "10.244.0.1"}], REFUSED),  # written by a client
        ([{"ip": "fd00:0::0005"}], REFUSED),
        ([{"ip": "::ffff:10.244.0.1"}], REFUSED),
        ([on("real", "10.244.0.1")], REFUSED),
        ([on("real", "10.244.0.3")], "10.244.0.3:9443"),
        ([{"ip": "10.244.0.9"}], "10.244.0.9:9443"),  # of the same network, but of no pod
        ([on("simulated", "10.244.0.1"), {"ip": "10.244.0.1"}, {"ip": REAL}], f"{REAL}:9443"),
    ],
)
async def test_addresses_of_simulated_pods_are_never_chosen(
    addresses: list[dict[str, Any]], chosen: str
) -> None:
    assert await resolved(*addresses) == {chosen}


@cases(
    "name, chosen",
    [
        ("10.244.0.1", REFUSED),
        ("10.244.1", REFUSED),  # another form of the same
        ("hook.example.com", "hook.example.com:443"),
    ],
)
async def test_external_name_may_be_no_simulated_pod(name: str, chosen: str) -> None:
    assert await resolved(type="ExternalName", externalName=name) == {chosen}


async def test_headless_service_of_simulated_pods_is_refused() -> None:
    assert await resolved(on("simulated", "10.244.0.1"), clusterIP="None") == {REFUSED}


async def test_address_is_looked_up_among_many_pods() -> None:
    async with open_store() as store:
        await node(store, "simulated", **{"sim/node": "true"})
        for index in range(300):  # more than are scanned
            await pod(store, f"p{index}", "simulated", f"10.244.1.{index % 250}")
        await service(store, {"ip": "10.244.1.249"}, {"ip": "10.244.1.250"})
        services = Services(store.journal)
        assert {await services.resolve(HOOK) for _ in range(20)} == {"10.244.1.250:9443"}


async def test_node_that_stops_being_simulated_is_called() -> None:
    async with open_store() as store:
        await cluster(store)
        await service(store, on("simulated", "10.244.0.1"))
        services = Services(store.journal)
        with pytest.raises(Unresolved):
            await services.resolve(HOOK)
        stored = await store.get("nodes", "simulated")
        del stored["metadata"]["annotations"]
        await store.replace("nodes", stored)
        assert await services.resolve(HOOK) == "10.244.0.1:9443"


async def annotated(text: str) -> str:
    async with open_store() as store:
        metadata = {"name": "hook", "annotations": {"sim/address": text}}
        await store.create("services", {"metadata": metadata, "spec": {"ports": [{"port": 443}]}})
        try:
            return await Services(store.journal).resolve(HOOK)
        except Unresolved as error:
            return str(error)


async def test_annotation_names_host_and_port() -> None:
    for text in ("127.0.0.1:9443", "[::1]:9443", "hook.example.com:1"):
        assert await annotated(text) == text
    for text in (
        "",
        "127.0.0.1",
        "::1:9443",
        "h:0",
        "h:65536",
        "h:x",
        "a/b:1",
        "u@h:1",
        "[h]:1",
        ":9443",
        "[]:1",
    ):
        assert "it needs a host and a port, such as 127.0.0.1:9443 or [::1]:9443" in await annotated(text), (
            text
        )


def by_service(hooks: Hooks, **fields: Any) -> dict[str, Any]:
    made = hooks.hook("a.example.com", **fields)
    service = {"namespace": "default", "name": "hook", "path": "/allow"}
    return {**made, "clientConfig": {"caBundle": made["clientConfig"]["caBundle"], "service": service}}


async def prepared(hooks: Hooks) -> None:
    simulated = {"metadata": {"name": "n", "annotations": {"sim/node": "true"}}}
    await hooks.api.create("nodes", simulated)
    await hooks.api.create("services", {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}})
    subsets = [{"addresses": [on("n", "10.244.0.1")], "ports": [{"port": 9443}]}]
    await hooks.api.create("endpoints", {"metadata": {"name": "hook"}, "subsets": subsets})


async def test_write_fails_at_once_unless_the_policy_ignores_that() -> None:
    async with hooking(certificate="service") as hooks:
        await prepared(hooks)
        await hooks.configure("validating", by_service(hooks))
        refused = (await hooks.create("a")).expect(500)
        assert (
            'failed calling webhook "a.example.com": failed to call webhook: ' + REFUSED in refused["message"]
        )
        await hooks.remove("validating")
        await hooks.configure("mutating", by_service(hooks, failurePolicy="Ignore"))
        (await hooks.create("a")).expect(201)
        assert hooks.called() == []


async def test_annotated_service_is_called() -> None:
    async with hooking(certificate="service") as hooks:
        await prepared(hooks)
        await hooks.configure("validating", by_service(hooks))
        stored = await hooks.api.get("services", "hook")
        stored["metadata"]["annotations"] = {"sim/address": f"127.0.0.1:{hooks.peer.port}"}
        await hooks.api.replace("services", stored)
        (await hooks.create("a")).expect(201)
        [received] = hooks.peer.received
        assert received.headers["host"] == "hook.default.svc"
