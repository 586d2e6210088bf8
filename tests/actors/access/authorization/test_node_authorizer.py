"""What a node may do because of its pods and the objects that they refer to, and what every node may do."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
import trio.testing

from rewound.actors.access.authorization.chain import AlwaysDeny, AuthorizerChain
from rewound.actors.access.authorization.node_authorizer import BoundPod, NodeUserRouter
from rewound.actors.access.authorize import Decision
from rewound.actors.identity import User
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.versions.features import NODE_SELECTORS, NODES_GET_ACCOUNTS, POD_CERTIFICATES
from rewound.journal.records import Event
from tests.actors.access.authorization.node_store import (
    Nodes,
    container,
    node,
    nodes,
    persistent_volume,
    pod,
    volume,
)
from tests.actors.object_store import Document, open_store

STORAGE = "storage.cluster.io"
NOT_RELATED = "no relationship found between node 'n1' and this object"


SECRETS: list[Document] = [
    {"imagePullSecrets": [{"name": "a"}]},
    {"containers": [container(envFrom=[{"secretRef": {"name": "a"}}])]},
    {
        "initContainers": [
            {
                **container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}]),
                "name": "i",
            }
        ]
    },
    volume("secret", secretName="a"),
    volume("projected", sources=[{"secret": {"name": "a"}}]),
    volume("azureFile", secretName="a", shareName="s"),
    volume("cephfs", monitors=["m"], secretRef={"name": "a"}),
    volume("flexVolume", driver="x/y", secretRef={"name": "a"}),
    volume("csi", driver="d", nodePublishSecretRef={"name": "a"}),
]
CONFIG_MAPS: list[Document] = [
    {"containers": [container(envFrom=[{"configMapRef": {"name": "a"}}])]},
    {
        "containers": [
            container(env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}])
        ]
    },
    volume("configMap", name="a"),
    volume("projected", sources=[{"configMap": {"name": "a"}}]),
]


async def test_node_reads_what_its_pods_name_and_only_while_they_exist() -> None:
    async with nodes() as found:
        for resource, specs in (("secrets", SECRETS), ("configmaps", CONFIG_MAPS)):
            for spec in specs:
                assert found.decide(resource).reason == NOT_RELATED, spec
                await found.pod(**spec)
                for verb in ("get", "list", "watch"):
                    assert found.allows(resource, verb=verb), spec
                    assert not found.allows(resource, verb=verb, of="n2"), spec
                other = "configmaps" if resource == "secrets" else "secrets"
                for foreign in (
                    found.decide(resource, "b"),
                    found.decide(resource, namespace="other"),
                    found.decide(other),
                ):
                    assert foreign.reason == NOT_RELATED
                await found.store.delete("pods", "p")
                assert found.decide(resource).reason == NOT_RELATED, spec


async def test_pod_relates_its_node_only_once_it_is_bound() -> None:
    async with nodes() as found:
        made = await found.pod(on="", **volume("secret", secretName="a"))
        assert not found.allows("secrets")
        await found.store.delete("pods", "p")
        made = await found.pod(**volume("secret", secretName="a"))
        assert made["spec"]["nodeName"] == "n1"
        assert found.allows("secrets")


async def test_last_pod_that_names_an_object_takes_the_right_away() -> None:
    async with nodes() as found:
        for name in ("p", "q"):
            await found.pod(name, **volume("secret", secretName="a"))
        await found.store.delete("pods", "p")
        assert found.allows("secrets")
        await found.store.delete("pods", "q")
        assert not found.allows("secrets")


async def test_pod_with_many_references() -> None:
    async with nodes() as found:
        volumes = [{"name": f"v{number}", "secret": {"secretName": f"s{number}"}} for number in range(30)]
        await found.pod(volumes=volumes)
        assert found.allows("secrets", "s29") and found.allows("secrets", "s0")
        assert not found.allows("secrets", "s30")


async def test_new_pod_with_the_name_of_an_old_one_counts_alone() -> None:
    async with nodes() as found:
        await found.pod(**volume("secret", secretName="a"))
        await found.store.delete("pods", "p")
        await found.pod(**volume("secret", secretName="b"))
        assert not found.allows("secrets", "a")
        assert found.allows("secrets", "b")


async def add_ephemeral_container(found: Nodes, name: str, **more: Any) -> None:
    stored = await found.store.get("pods", "p")
    stored["spec"].setdefault("ephemeralContainers", []).append({"name": name, "image": "i", **more})
    await found.store.replace("pods", stored, subresource="ephemeralcontainers")


async def test_ephemeral_containers_relate_the_node_of_a_running_pod_to_more() -> None:
    async with nodes() as found:
        await found.pod(**volume("secret", secretName="a"))
        await add_ephemeral_container(found, "e1", envFrom=[{"secretRef": {"name": "b"}}])
        await add_ephemeral_container(found, "e2", envFrom=[{"configMapRef": {"name": "c"}}])
        assert found.allows("secrets", "a") and found.allows("secrets", "b")
        assert found.allows("configmaps", "c")
        assert not found.allows("secrets", "b", of="n2")
        await found.store.delete("pods", "p")
        assert not found.allows("secrets", "a") and not found.allows("secrets", "b")


async def test_ephemeral_container_of_a_large_pod_counts_once_it_is_read() -> None:
    volumes = [{"name": f"v{number}", "secret": {"secretName": "s" * 40}} for number in range(1200)]
    async with nodes() as found:
        await found.pod(volumes=volumes)
        await found.graph.wait()
        for name in ("b", "d"):  # the second one possibly while a thread reads the pod with the first
            await add_ephemeral_container(found, name, envFrom=[{"secretRef": {"name": name}}])
        await found.graph.wait()
        assert all(found.allows("secrets", name) for name in ("b", "d", "s" * 40))


async def test_change_of_a_large_pod_while_a_thread_reads_it_counts() -> None:
    volumes = [{"name": f"v{number}", "secret": {"secretName": "s" * 40}} for number in range(1200)]
    async with open_store() as store:
        found = Nodes(store)
        await found.pod(volumes=volumes)
        read, began, go_on = found.graph._pod_of, threading.Event(), threading.Event()

        def read_slowly(body: bytes) -> BoundPod:
            began.set()
            assert go_on.wait(30)
            return read(body)

        found.graph._pod_of = read_slowly  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.graph.run)
            nursery.start_soon(found.graph.wait)
            assert await trio.to_thread.run_sync(began.wait, 30)
            await add_ephemeral_container(found, "b", envFrom=[{"secretRef": {"name": "b"}}])
            go_on.set()
            await found.graph.wait()
            nursery.cancel_scope.cancel()
        assert found.allows("secrets", "b")


async def test_object_that_cannot_be_read_relates_nothing_and_delays_no_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with nodes() as found:
        await found.pod("p", **volume("secret", secretName="a"))
        attachment = {"attacher": "x", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
        await found.store.create("volumeattachments", {"metadata": {"name": "t"}, "spec": attachment})
        assert found.allows("volumeattachments", "t", group=STORAGE, namespace="")
        offset = found.store.feed.head
        types = [found.store.journal.type_id(one) for one in (f"volumeattachments.{STORAGE}", "pods")]
        broken = Event(offset + 1, types[0], "update", "", "t", offset, False, 0, "u", "m", b"", b"{}")
        deleted = Event(offset + 2, types[1], "delete", "default", "p", offset, True, 0, "u", "m", b"", b"{}")
        found.store.feed.publish([broken, deleted])
        assert "'t' cannot be read" in caplog.text
        assert not found.allows("volumeattachments", "t", group=STORAGE, namespace="")
        assert not found.allows("secrets", "a")


async def test_mirror_pod_relates_its_node_to_nothing() -> None:
    """Admission already refuses such pods; the authorizer does not rely on that."""
    async with nodes() as found:
        key = "cluster.io/config.mirror"
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}
        metadata = {"name": "m", "annotations": {key: "x"}, "ownerReferences": [owner]}
        await found.store.create("pods", {**pod(**volume("configMap", name="a")), "metadata": metadata})
        assert not found.allows("configmaps")


async def test_node_gets_claims_of_its_pods_and_their_volumes() -> None:
    async with nodes() as found:
        await found.store.create("persistentvolumes", persistent_volume("v", "a"))
        await found.store.create("persistentvolumes", persistent_volume("loose", None))
        volumes: Document = {"of": "n1", "namespace": ""}
        assert not found.allows("persistentvolumes", "v", **volumes)
        await found.pod(**volume("persistentVolumeClaim", claimName="a"))
        assert found.allows("persistentvolumeclaims")
        assert found.allows("persistentvolumes", "v", **volumes)
        assert not found.allows("persistentvolumes", "v", of="n2", namespace="")
        assert not found.allows("persistentvolumes", "loose", **volumes)
        await found.remove_volume("v")
        await found.store.delete("pods", "p")
        assert not found.allows("persistentvolumeclaims")
        assert not found.allows("persistentvolumes", "v", **volumes)


async def test_node_gets_the_claim_of_an_ephemeral_volume() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    async with nodes() as found:
        await found.pod(**volume("ephemeral", volumeClaimTemplate=template))
        assert found.allows("persistentvolumeclaims", "p-v")


CEPH = {"monitors": ["m"]}
AZURE = {"shareName": "s", "secretName": "a"}
CSI = {"driver": "d", "volumeHandle": "h"}


@pytest.mark.parametrize(
    ("source", "namespace"),
    [
        ({"cephfs": {**CEPH, "secretRef": {"name": "a"}}}, "default"),
        ({"cephfs": {**CEPH, "secretRef": {"name": "a", "namespace": "x"}}}, "x"),
        ({"azureFile": {**AZURE}}, "default"),
        ({"azureFile": {**AZURE, "secretNamespace": "x"}}, "x"),
        ({"csi": {**CSI, "nodePublishSecretRef": {"name": "a", "namespace": "x"}}}, "x"),
        ({"csi": {**CSI, "nodeStageSecretRef": {"name": "a", "namespace": "x"}}}, "x"),
    ],
)
async def test_node_reads_secrets_of_the_volumes_of_its_pods(source: Document, namespace: str) -> None:
    async with nodes() as found:
        await found.pod(**volume("persistentVolumeClaim", claimName="c"))
        assert not found.allows("secrets", namespace=namespace)
        for name in ("v", "w"):
            await found.store.create("persistentvolumes", persistent_volume(name, "c", **source))
        assert found.allows("secrets", namespace=namespace)
        assert not found.allows("secrets", namespace=namespace, of="n2")
        assert not found.allows("secrets", namespace="y")
        await found.remove_volume("v")
        assert found.allows("secrets", namespace=namespace)
        await found.remove_volume("w")
        assert not found.allows("secrets", namespace=namespace)


async def test_secrets_that_only_controllers_use_stay_hidden_from_nodes() -> None:
    reference = {"name": "a", "namespace": "x"}
    source = {"csi": {**CSI, "controllerPublishSecretRef": reference, "controllerExpandSecretRef": reference}}
    async with nodes() as found:
        await found.pod(**volume("persistentVolumeClaim", claimName="c"))
        await found.store.create("persistentvolumes", persistent_volume("v", "c", **source))
        assert not found.allows("secrets", namespace="x")


async def test_node_gets_volume_attachments_of_its_own() -> None:
    async with nodes() as found:
        spec = {"attacher": "a", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
        await found.store.create("volumeattachments", {"metadata": {"name": "a"}, "spec": spec})
        asked: Document = {"group": STORAGE, "namespace": ""}
        assert found.allows("volumeattachments", **asked)
        assert not found.allows("volumeattachments", of="n2", **asked)
        assert not found.allows("volumeattachments", verb="list", **asked)
        await found.store.delete("volumeattachments", "a")
        assert not found.allows("volumeattachments", **asked)


async def test_node_creates_tokens_of_the_accounts_of_its_pods() -> None:
    async with nodes() as found:
        await found.pod()
        assert found.allows("serviceaccounts/token", "default", verb="create")
        assert not found.allows("serviceaccounts/token", "default", verb="create", of="n2")
        assert not found.allows("serviceaccounts/token", "default", verb="create", namespace="other")
        assert found.decide("serviceaccounts/token", "b", verb="create").reason == NOT_RELATED
        for verb, resource, name, why in (
            ("get", "serviceaccounts/token", "default", "tokens for individual service accounts"),
            ("create", "serviceaccounts/token", "", "tokens for individual service accounts"),
            ("create", "serviceaccounts", "default", "token subresource of serviceaccount"),
        ):
            assert found.decide(resource, name, verb=verb).reason == f"can only create {why}"


async def test_reasons_are_those_of_kubernetes() -> None:
    single, read = "can only get individual resources of this type", "can only read resources of this type"
    own = "can only get, create, update, patch, or delete"
    cases: list[tuple[str, Document, str]] = [
        ("secrets", {"verb": "update"}, read),
        ("configmaps", {"verb": "delete"}, read),
        ("secrets/x", {}, "cannot read subresource"),
        (
            "secrets",
            {"namespace": "", "verb": "list", "name": ""},
            "can only read namespaced object of this type",
        ),
        ("secrets", {"verb": "list", "name": ""}, "No Object name found"),
        ("persistentvolumeclaims", {"verb": "list"}, single),
        ("persistentvolumeclaims/x", {}, "cannot get subresource"),
        ("persistentvolumeclaims/status", {}, "can only get/update/patch this type"),
        ("persistentvolumeclaims/status", {"verb": "patch"}, NOT_RELATED),
        ("persistentvolumes", {"verb": "watch", "namespace": ""}, single),
        ("leases", {"group": "coordination.cluster.io", "verb": "list"}, f"{own} a node lease"),
        (
            "leases",
            {"group": "coordination.cluster.io"},
            'can only access leases in the "cluster-node-lease" system namespace',
        ),
        (
            "leases",
            {"group": "coordination.cluster.io", "namespace": "cluster-node-lease"},
            "can only access node lease with the same name as the requesting node",
        ),
        ("csinodes", {"group": STORAGE, "verb": "list"}, f"{own} a CSINode"),
        ("csinodes/x", {"group": STORAGE, "name": "n1"}, "cannot authorize CSINode subresources"),
        (
            "csinodes",
            {"group": STORAGE},
            "can only access CSINode with the same name as the requesting node",
        ),
        ("secrets", {"of": ""}, 'unknown node for user "system:node:"'),
        ("pods", {"verb": "patch"}, ""),
        ("nodes", {"verb": "delete"}, ""),
    ]
    async with nodes() as found:
        for resource, asked, reason in cases:
            decision = found.decide(resource, **asked)
            assert (decision.allowed, decision.reason) == (False, reason), (resource, asked)


async def test_node_writes_its_own_lease_and_csi_node() -> None:
    async with nodes() as found:
        for verb in ("get", "create", "update", "patch", "delete"):
            lease: Document = {"group": "coordination.cluster.io", "namespace": "cluster-node-lease"}
            assert found.allows("leases", "n1", verb=verb, **lease)
            assert found.allows("csinodes", "n1", verb=verb, group=STORAGE, namespace="")


COMMON_RIGHTS = [
    ("", "pods", "get list watch create delete"),
    ("", "pods/status", "update patch"),
    ("", "pods/eviction", "create"),
    ("", "pods/log", ""),
    ("", "pods/exec", ""),
    ("", "nodes", "get list watch create update patch"),
    ("", "nodes/status", "update patch"),
    ("", "nodes/proxy", ""),
    ("", "services", "get list watch"),
    ("", "endpoints", "get"),
    ("", "events", "create update patch"),
    ("", "namespaces", ""),
    ("authentication.cluster.io", "tokenreviews", "create"),
    ("authorization.cluster.io", "subjectaccessreviews", "create"),
    ("authorization.cluster.io", "localsubjectaccessreviews", "create"),
    ("certificates.cluster.io", "certificatesigningrequests", "get list watch create"),
    (STORAGE, "csidrivers", "get list watch"),
    ("node.cluster.io", "runtimeclasses", "get list watch"),
    ("apps", "deployments", ""),
]


async def test_rights_that_every_node_has() -> None:
    all_verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    async with nodes() as found:
        for group, resource, verbs in COMMON_RIGHTS:
            allowed = [verb for verb in all_verbs if found.allows(resource, group=group, verb=verb)]
            assert sorted(allowed) == sorted(verbs.split()), resource


@pytest.mark.parametrize(
    "user",
    [
        User("system:node:n1", groups=("system:authenticated",)),
        User("n1", groups=("system:nodes",)),
        User("alice", groups=("system:nodes", "system:authenticated")),
    ],
)
async def test_user_without_the_name_and_the_group_is_no_node(user: User) -> None:
    async with nodes() as found:
        await found.pod(**volume("secret", secretName="a"))
        assert found.decide("secrets", user=user).reason == ""
        assert not found.allows("nodes", user=user)


async def test_node_does_not_wait_for_other_modes_and_others_not_for_node() -> None:
    async with nodes() as found:
        await found.pod(**volume("secret", secretName="a"))
        others = AuthorizerChain([AlwaysDeny()])
        chain = NodeUserRouter(AuthorizerChain([found.authorizer, AlwaysDeny()]), others)
        for of, expected in (("n1", True), ("n2", False)):
            decision = chain.authorize(found.attributes("secrets", of=of))
            assert isinstance(decision, Decision)
            assert decision.allowed == expected
        rules = await chain.rules(node("n1"), "default")
        assert rules.incomplete
        assert "node authorizer does not support user rule resolution" in rules.errors
        assert not (await chain.rules(User("alice"), "default")).errors[1:]


# The graph is built for the first question.


async def test_requests_that_need_no_graph_do_not_build_it() -> None:
    async with open_store() as store, trio.open_nursery() as nursery:
        found = Nodes(store, NODE_SELECTORS, POD_CERTIFICATES)
        nursery.start_soon(found.graph.run)
        await found.pod("p")
        for resource, verb in (
            ("pods", "create"),
            ("pods/status", "update"),
            ("nodes", "get"),
            ("podcertificaterequests", "create"),
        ):
            found.decide(resource, verb=verb, group="certificates.cluster.io" if resource[3] == "c" else "")
        await trio.testing.wait_all_tasks_blocked()
        assert not found.graph.current
        pending = found.authorizer.authorize(found.attributes("pods", "p"))
        assert not isinstance(pending, Decision)
        assert (await pending).allowed
        assert found.allows("pods", "p"), "without waiting"
        nursery.cancel_scope.cancel()


async def test_graph_is_read_from_the_journal_and_requests_wait_for_it() -> None:
    async with open_store() as store:
        for number in range(20):
            await store.create("pods", pod(f"p{number}", f"n{number}", **volume("secret", secretName="a")))
        await store.create("persistentvolumes", persistent_volume("v", "c"))
        await store.restart()
        found = Nodes(store)
        pending = found.authorizer.authorize(found.attributes("secrets", of="n19"))
        assert not isinstance(pending, Decision), "the graph is not built yet"
        assert isinstance(found.authorizer.authorize(found.attributes("nodes")), Decision), "needs no graph"
        await store.delete("pods", "p7")  # before its row is read
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.graph.run)
            assert (await pending).allowed
            nursery.cancel_scope.cancel()
        assert found.allows("secrets", of="n0")
        assert not found.allows("secrets", of="n7")
        assert not found.allows("secrets", of="n20")


async def test_large_pod_is_read_in_a_thread_while_requests_wait() -> None:
    names = [f"secret-with-a-long-name-{number}" for number in range(LARGE_BYTES // 60)]
    volumes = [{"name": f"v{number}", "secret": {"secretName": name}} for number, name in enumerate(names)]
    async with nodes() as found:
        await found.pod(volumes=volumes)
        asked = found.attributes("secrets", names[-1])
        pending = found.authorizer.authorize(asked)
        decision = pending if isinstance(pending, Decision) else await pending
        assert decision.allowed
        assert not found.allows("secrets", names[-1], of="n2")
        await found.store.delete("pods", "p")
        assert not found.allows("secrets", names[-1])


async def test_large_pod_that_is_deleted_before_it_is_read_gives_no_right() -> None:
    volumes = [{"name": f"v{number}", "secret": {"secretName": "s" * 40}} for number in range(1200)]
    async with open_store() as store:
        found = Nodes(store)  # nothing reads large pods yet
        await found.pod(volumes=volumes)
        await store.delete("pods", "p")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.graph.run)
            await found.graph.wait()
            nursery.cancel_scope.cancel()
        assert not found.allows("secrets", "s" * 40)


async def test_with_selectors_a_node_reads_only_its_pods_and_itself() -> None:
    async with nodes(NODE_SELECTORS, POD_CERTIFICATES) as cluster:
        await cluster.pod("p")
        assert cluster.allows("pods", "p")
        assert not cluster.allows("pods", "p", of="n2")
        assert cluster.allows("pods", "", verb="list", fields="spec.nodeName=n1")
        assert cluster.allows("pods", "p", verb="watch", fields="metadata.name=p")
        refused = cluster.decide("pods", "", verb="list", fields="spec.nodeName=n2")
        assert refused.reason == "can only list/watch pods with spec.nodeName field selector"
        assert cluster.allows("pods/status", "other", verb="patch")
        assert cluster.allows("nodes", "n1")
        everything = cluster.decide("nodes", "", verb="list")
        assert everything.reason == "node 'n1' cannot read all nodes, only its own Node object"
        other = cluster.decide("nodes", "n2")
        assert other.reason == "node 'n1' cannot read 'n2', only its own Node object"
        requests = {"resource": "podcertificaterequests", "group": "certificates.cluster.io"}
        assert cluster.allows(**requests, verb="create")
        assert cluster.allows(**requests, name="", verb="watch", fields="spec.nodeName=n1")
        assert not cluster.allows(**requests, name="", verb="list")
        assert not cluster.allows(**requests, name="unknown")


async def test_a_node_gets_accounts_of_its_pods_for_credential_providers() -> None:
    async with nodes(NODES_GET_ACCOUNTS) as cluster:
        assert cluster.decide("serviceaccounts", "a").reason == "not allowed to get service accounts"
    async with nodes(NODES_GET_ACCOUNTS, POD_CERTIFICATES) as cluster:
        await cluster.pod("p", serviceAccountName="default")
        assert cluster.allows("serviceaccounts", "default")
        assert not cluster.allows("serviceaccounts", "other")
