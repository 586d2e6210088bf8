"""NodeRestriction: the rules that can be checked without a server, in both dialects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rewound.actors.admission.chain import Admission, admit_ephemeral
from rewound.actors.admission.plugins.node_restriction import NodeLabels, NodeRestriction
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.errors import Forbidden, NotFound
from rewound.actors.identity import User
from rewound.actors.messages import WriteContext
from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.actors.runtime.coroutines import without_waiting
from tests.actors.admission.admitted import admitted
from tests.actors.object_store import Store, open_store

POD = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}


def written_by(node: str) -> WriteContext:
    user = User(f"system:node:{node}", groups=("system:nodes",))
    return WriteContext(0, user.name, "m", "u", "", user)


class Restricted:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.plugin = NodeRestriction(CLUSTER, store.journal)

    def why_not(
        self,
        plural: str,
        operation: str,
        new: Any,
        old: Any = None,
        *,
        node: str = "n1",
        subresource: str = "",
    ) -> str:
        """The reason for the refusal; the object is named `a`."""
        definition = self.store.definition(plural)
        try:
            admitted(
                self.plugin,
                definition,
                operation,
                new,
                old,
                subresource=subresource,
                context=written_by(node),
            )
        except Forbidden as error:
            return str(error).partition("is forbidden: ")[2]
        return ""

    def why_no_token(self, bound: Any, *, node: str = "n1") -> str:
        spec = {"audiences": []} if bound is None else {"audiences": [], "boundObjectRef": bound}
        accounts = self.store.definition("serviceaccounts")
        chain = Admission([self.plugin]).chain(accounts, "CREATE", "token")
        by, sent = written_by(node), {"metadata": {}, "spec": spec}
        request = AdmissionRequest(
            "CREATE", accounts, "default", "default", "token", sent, None, by.user, False, by
        )
        try:
            without_waiting(admit_ephemeral(chain, request))
        except (Forbidden, NotFound) as error:
            return str(error)
        return ""


@asynccontextmanager
async def restricted() -> AsyncIterator[Restricted]:
    async with open_store() as store:
        yield Restricted(store)


async def test_node_gets_tokens_only_for_its_own_pods_as_they_are_now() -> None:
    async with restricted() as found:
        pod = await found.store.create("pods", {"metadata": {"name": "p"}, "spec": POD})
        bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
        assert found.why_no_token(bound) == ""
        refused = 'serviceaccounts "default" is forbidden: '
        no_pod = f"{refused}node requested token not bound to a pod"
        for other in (None, {**bound, "kind": "Secret"}, {**bound, "apiVersion": ""}, {**bound, "name": ""}):
            assert found.why_no_token(other) == no_pod
        assert found.why_no_token({**bound, "uid": ""}).endswith("a pod binding without a uid")
        why = found.why_no_token({**bound, "uid": "x"})
        assert "(x) does not match the UID in record. The object might have been deleted and then" in why
        why = f"{refused}node requested token bound to a pod scheduled on a different node"
        assert found.why_no_token(bound, node="n2") == why
        assert found.why_no_token({**bound, "name": "q"}) == 'pods "q" not found'


async def test_pod_of_a_node_has_that_node_as_its_only_owner() -> None:
    async with restricted() as found:
        node = await found.store.create("nodes", {"metadata": {"name": "n1"}, "spec": {}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"]}
        good = {**owner, "controller": True}

        def why(*owners: Any) -> str:
            annotations = {"cluster.io/config.mirror": "x"}
            metadata = {"name": "a", "annotations": annotations, "ownerReferences": list(owners)}
            return found.why_not("pods", "CREATE", {"metadata": metadata, "spec": POD})

        only = 'node "n1" can only create pods with'
        assert why(good) == ""
        assert why() == why({**good, "name": "n2"}) == f"{only} an owner reference set to itself"
        assert why({**good, "kind": "Pod"}) == f"{only} an owner reference set to itself"
        assert why(good, {**good, "name": "n2"}) == f"{only} a single owner reference set to itself"
        assert why(owner) == f"{only} a controller owner reference set to itself"
        blocking = why({**good, "blockOwnerDeletion": True})
        assert blocking == 'node "n1" must not set blockOwnerDeletion on an owner reference'
        assert why({**good, "uid": "x"}) == f"node n1 UID mismatch: expected x got {owner['uid']}"
        other = {**good, "name": "n2"}
        metadata = {"annotations": {"cluster.io/config.mirror": "x"}, "ownerReferences": [other]}
        pod = {"metadata": metadata, "spec": {**POD, "nodeName": "n2"}}
        with pytest.raises(NotFound):
            found.why_not("pods", "CREATE", pod, node="n2")


async def test_node_has_no_other_way_to_write_pods() -> None:
    async with restricted() as found:
        pod = {"metadata": {"name": "a"}, "spec": POD}
        updates = found.why_not("pods", "UPDATE", pod, pod)
        assert updates == 'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods'
        for subresource, operation in (("binding", "CREATE"), ("ephemeralcontainers", "UPDATE")):
            why = found.why_not("pods", operation, pod, pod, subresource=subresource)
            assert why == (
                f"unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are allowed"
            )


async def test_user_with_the_prefix_alone_is_no_node_that_may_write() -> None:
    async with restricted() as found:
        pod = {"metadata": {"name": "a"}, "spec": POD}
        why = found.why_not("pods", "CREATE", pod, node="")
        assert why == 'could not determine node from user "system:node:"'


async def test_node_does_not_choose_the_source_of_its_configuration() -> None:
    async with restricted() as found:
        node = {"metadata": {"name": "a"}, "spec": {}}
        source = {**node, "spec": {"configSource": {"configMap": {"name": "x", "namespace": "y"}}}}
        assert found.why_not("nodes", "CREATE", node, node="a") == ""
        created = found.why_not("nodes", "CREATE", source, node="a")
        assert created == 'node "a" is not allowed to create pods with a non-nil configSource'
        updated = found.why_not("nodes", "UPDATE", source, node, node="a")
        assert updated == 'node "a" is not allowed to update configSource to a new non-nil configSource'
        assert found.why_not("nodes", "UPDATE", source, source, node="a") == ""
        assert found.why_not("nodes", "UPDATE", node, source, node="a") == ""


async def test_new_node_does_not_register_with_restricted_labels() -> None:
    async with restricted() as found:
        labels = {"x.cluster.io/b": "1", "example.com/a": "1", "node-restriction.cluster.io/c": "1"}
        node = {"metadata": {"name": "a", "labels": labels}, "spec": {}}
        why = found.why_not("nodes", "CREATE", node, node="a")
        assert why == (
            'node "a" is not allowed to set the following labels: node-restriction.cluster.io/c, x.cluster.io/b'
        )


@pytest.mark.parametrize("names", [CLUSTER, KUBERNETES])
def test_labels_that_a_node_may_change(names: Any) -> None:
    domain = names.key_domain
    labels = NodeLabels(names)
    for key in (
        "a",
        "example.com/a",
        f"{domain}/hostname",
        f"{domain}/os",
        f"{domain}/arch",
        f"beta.{domain}/os",
        f"beta.{domain}/instance-type",
        f"node.{domain}/instance-type",
        f"topology.{domain}/zone",
        f"failure-domain.beta.{domain}/region",
        f"kubelet.{domain}/x",
        f"node.{domain}/x",
        f"a.node.{domain}/x",
        f"x{domain}/a",
    ):
        assert labels.forbidden({key: "1"}, None) == "", key
    for key in (
        f"{domain}/role",
        f"node-role.{domain}/master",
        f"node-restriction.{domain}/x",
        f"a.node-restriction.{domain}/x",
        f"topology.{domain}/other",
        f"x.{names.group_domain}/a",
    ):
        for new, old in (({key: "1"}, None), (None, {key: "1"}), ({key: "1"}, {key: "2"})):
            assert labels.forbidden(new, old) == key
        assert labels.forbidden({key: "1"}, {key: "1"}) == ""
