"""Several servers whose journal etcd orders: all have what one acknowledges, and each rule holds across them."""

from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import orjson
import pytest
import trio

from rewound.actors.store.etcd.copy import CannotJoin
from rewound.journal.errors import StorageFull
from rewound.journal.log import Journal
from tests.actors.object_store import memory_folder
from tests.actors.store.etcd.fake import FakeCluster, FakeEtcd
from tests.gateway.api import ALICE
from tests.gateway.nodes import etcd_of, node, nodes


def config_map(name: str, **data: str):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def service(name: str, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def together(*calls):
    """The results of calls that run at the same time, in their order."""
    results = [None] * len(calls)

    async def run(index, call):
        results[index] = await call

    async with trio.open_nursery() as nursery:
        for index, call in enumerate(calls):
            nursery.start_soon(run, index, call)
    return results


async def test_what_one_node_acknowledges_all_serve():
    async with nodes(3) as servers:
        a, b, c = servers
        made = await a.create("configmaps", config_map("shared", a="1"))
        for one in servers:
            assert await one.get("configmaps", "shared") == made
            [listed] = (await one.list("configmaps"))["items"]
            assert listed == {key: made[key] for key in ("metadata", "data")}
        # Changes of other nodes are kept: each write is decided on the newest state.
        changes = [
            one.ask(
                "PATCH",
                "/api/v1/namespaces/default/configmaps/shared",
                orjson.dumps({"data": {f"{number}-{index}": "x"}}),
                headers={"content-type": "application/merge-patch+json"},
            )
            for index, one in enumerate(servers)
            for number in range(5)
        ]
        assert [one.status for one in await together(*changes)] == [200] * 15
        final = await b.get("configmaps", "shared")
        assert len(final["data"]) == 16
        # A precondition applies on every node.
        stale = {**made, "data": {"a": "2"}}
        refused = await c.ask("PUT", "/api/v1/namespaces/default/configmaps/shared", stale)
        assert (refused.status, refused.document["reason"]) == (409, "Conflict")
        # Of simultaneous creates of one name, one succeeds.
        creates = [
            one.ask("POST", "/api/v1/namespaces/default/configmaps", config_map("race")) for one in servers
        ]
        assert sorted(one.status for one in await together(*creates)) == [201, 409, 409]
        # A delete through another node, whose author a third node shows in the history.
        await b.delete("configmaps", "race")
        gone = await c.ask("GET", "/api/v1/namespaces/default/configmaps/race")
        assert gone.status == 404
        bodies = [
            (
                await one.ask(
                    "GET",
                    "/api/v1/configmaps",
                    resourceVersion=final["metadata"]["resourceVersion"],
                    resourceVersionMatch="Exact",
                )
            ).body
            for one in servers
        ]
        assert bodies[0] == bodies[1] == bodies[2]


async def test_addresses_ports_and_quotas_hold_for_all_nodes_together():
    async with nodes(2) as (a, b):
        fixed = service("x", clusterIP="10.0.0.77", type="NodePort")
        path = "/api/v1/namespaces/default/services"
        made = await together(
            a.ask("POST", path, fixed), b.ask("POST", path, {**fixed, "metadata": {"name": "y"}})
        )
        assert sorted(one.status for one in made) == [201, 422]
        # Both nodes try the same addresses first.
        several = [
            one.ask("POST", path, service(f"s{index}{number}"))
            for index, one in enumerate((a, b))
            for number in range(6)
        ]
        replies = await together(*several)
        assert {one.status for one in replies} == {201}
        addresses = [one.document["spec"]["clusterIP"] for one in replies]
        assert len(set(addresses)) == 12
        # The quota allows three; nodes that write at the same time do not exceed it.
        await a.create(
            "resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"count/secrets": "3"}}}
        )
        secrets = "/api/v1/namespaces/default/secrets"
        asked = [
            one.ask("POST", secrets, {"metadata": {"name": f"q{index}{number}"}})
            for index, one in enumerate((a, b))
            for number in range(4)
        ]
        statuses = sorted(one.status for one in await together(*asked))
        assert statuses == [201] * 3 + [403] * 5


async def test_kinds_rights_and_namespaces_of_one_node_hold_on_the_other():
    async with nodes(2) as (a, b):
        definition = {
            "apiVersion": "apiextensions.cluster.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                ],
            },
        }
        (
            await a.ask("POST", "/apis/apiextensions.cluster.io/v1/customresourcedefinitions", definition)
        ).expect(201)
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        with trio.fail_after(10):
            while (await b.ask("GET", widgets)).status != 200:
                await trio.sleep(0.05)
        widget = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "spec": {"size": 1},
        }
        made = (await b.ask("POST", widgets, widget)).expect(201)
        assert (await a.ask("GET", f"{widgets}/w")).expect(200) == made
        # A right that one node grants applies on the other at once, and so does its removal.
        binding = {
            "metadata": {"name": "readers"},
            "roleRef": {
                "apiGroup": "rbac.authorization.cluster.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.cluster.io"}],
        }
        secrets = "/api/v1/namespaces/default/secrets"
        assert (await b.ask("GET", secrets, token=ALICE)).status == 403
        await a.create("clusterrolebindings", binding)
        assert (await b.ask("GET", secrets, token=ALICE)).status == 200
        await b.delete("clusterrolebindings", "readers")
        assert (await a.ask("GET", secrets, token=ALICE)).status == 403
        # Controllers run on one node only: the namespace is deleted, whichever node got the request.
        await b.create("namespaces", {"metadata": {"name": "passing"}})
        await a.create("configmaps", config_map("inside"), namespace="passing")
        await b.delete("namespaces", "passing")
        with trio.fail_after(20):
            while (await a.ask("GET", "/api/v1/namespaces/passing")).status != 404:
                await trio.sleep(0.05)


async def test_node_without_quorum_serves_old_reads_and_refuses_the_others():
    async with nodes(2) as (a, b):
        await a.create("configmaps", config_map("old"))
        assert (await b.get("configmaps", "old"))["metadata"]["name"] == "old"
        etcd_of(b).gives_up_after = 0.05
        etcd_of(b).is_cut = True
        await a.create("configmaps", config_map("new"))
        listed = await b.list("configmaps", resourceVersion="0")
        assert [
            one["metadata"]["name"] for one in listed["items"] if one["metadata"]["name"] in ("old", "new")
        ] == ["old"]
        for method, body in (("GET", None), ("POST", config_map("refused"))):
            refused = await b.ask(method, "/api/v1/namespaces/default/configmaps", body)
            assert refused.status == 503, refused.text
            assert "etcd cannot be reached or has no quorum" in refused.document["message"]
        assert (await b.ask("GET", "/readyz")).status == 500
        assert (await b.ask("GET", "/livez")).status == 200
        assert "rewound_node_leads 0" in (await b.ask("GET", "/metrics")).text
        etcd_of(b).is_cut = False
        assert (await b.get("configmaps", "new"))["metadata"]["name"] == "new"


async def test_endpoints_of_the_api_are_all_nodes_that_serve():
    cluster = FakeCluster()
    with memory_folder() as folder:
        async with AsyncExitStack() as stack:
            a, b, c = [
                await stack.enter_async_context(
                    node(folder / str(port), FakeEtcd(cluster), insecure_port=port)
                )
                for port in (1, 2, 3)
            ]
            assert await endpoints(a) == [1, 2, 3]
            await c.finish()
            assert await endpoints(b) == [1, 2]


async def endpoints(api):
    """The ports of all servers: in tests they have one address."""
    found = await api.get("endpoints", "kubernetes")
    return [subset["ports"][0]["port"] for subset in found["subsets"]]


async def test_node_without_room_says_what_etcd_has_and_refuses_what_comes_next(monkeypatch):
    def full(*_):
        raise StorageFull(Path("data"), "No space left on device")

    async with nodes(1) as (a,):
        path = a.path("configmaps")
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "write", full)
            unclear = (await a.ask("POST", path, config_map("first"))).expect(504)
            assert "etcd has stored it, and this node could not yet" in unclear["message"]
            assert "No space left on device" in unclear["message"]
            for method, body in (("POST", config_map("second")), ("GET", None)):
                refused = (await a.ask(method, path, body)).expect(503)
                assert "this node cannot store the newest changes, please try again" in refused["message"]
                assert "free some space" in refused["message"]
        with trio.fail_after(30):
            while (await a.ask("POST", path, config_map("second"))).status != 201:
                await trio.sleep(0.05)
        listed = (await a.list("configmaps"))["items"]
        assert [one["metadata"]["name"] for one in listed] == ["first", "second"]


STATEFUL_SET = {
    "metadata": {"name": "work"},
    "spec": {
        "serviceName": "work",
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


async def version_of(server) -> str:
    return (await server.ask("GET", "/version")).document["minor"]


async def test_first_node_of_a_newer_version_migrates_the_cluster():
    """Each node has the version of the cluster; no node of another one runs beside it."""
    cluster = FakeCluster()
    with memory_folder() as folder:

        def started(name: str, **changed):
            return node(folder / name, FakeEtcd(cluster), dialect="kubernetes", **changed)

        async with started("a", kubernetes_version="1.25") as a:
            before = await a.create("statefulsets", STATEFUL_SET)
            kept = await a.create("configmaps", config_map("kept"))
            with raises_group(CannotJoin, "nodes of Kubernetes 1.25 serve the cluster in etcd"):
                async with started("b", kubernetes_version="1.36"):
                    pass
        async with started("a", kubernetes_version="1.36") as a:
            assert await version_of(a) == "36"
            after = await a.get("statefulsets", "work")
            assert "persistentVolumeClaimRetentionPolicy" not in before["spec"]
            assert "persistentVolumeClaimRetentionPolicy" in after["spec"]
            assert after["metadata"]["uid"] == before["metadata"]["uid"]
            assert await a.get("configmaps", "kept") == kept
            async with started("b") as b:  # without the flag
                assert await version_of(b) == "36"
                assert await b.get("statefulsets", "work") == after
        with raises_group(CannotJoin, "has objects of Kubernetes 1.36, which 1.30 cannot read"):
            async with started("c", kubernetes_version="1.30"):
                pass


@contextmanager
def raises_group(kind, text: str):
    """Expects an error, which may be in groups of one."""
    with pytest.raises((kind, BaseExceptionGroup)) as raised:
        yield
    error = raised.value
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    assert isinstance(error, kind)
    assert text in str(error)
