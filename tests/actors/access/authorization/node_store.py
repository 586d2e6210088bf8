"""A store with the Node authorizer, and documents that relate nodes to objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from rewound.actors.access.authorization.node_authorizer import NodeAuthorizer, NodeGraph
from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from tests.actors.object_store import Document, Store, open_store


def node(name: str) -> User:
    return User(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))


class Nodes:
    """A store with the Node authorizer."""

    def __init__(self, store: Store, *features: str) -> None:
        self.store = store
        self.graph = NodeGraph(CLUSTER, store.journal, store.feed)
        self.authorizer = NodeAuthorizer(CLUSTER, self.graph, frozenset(features))

    def decide(self, resource: str, name: str = "a", **more: Any) -> Decision:
        attributes = self.attributes(resource, name, **more)
        decision = self.authorizer.authorize(attributes)
        assert isinstance(decision, Decision), "what is known needs no coroutine"
        return decision

    def attributes(
        self,
        resource: str,
        name: str = "a",
        *,
        verb: str = "get",
        of: str = "n1",
        group: str = "",
        namespace: str = "default",
        user: User | None = None,
        fields: str = "",
    ) -> Attributes:
        resource, _, subresource = resource.partition("/")
        return Attributes(
            *(user or node(of), verb, group, "v1", resource, subresource, namespace, name),
            field_selector=fields,
        )

    def allows(self, resource: str, name: str = "a", **more: Any) -> bool:
        return self.decide(resource, name, **more).allowed

    async def pod(self, name: str = "p", on: str = "n1", **spec: Any) -> Document:
        return await self.store.create("pods", pod(name, on, **spec))

    async def remove_volume(self, name: str) -> None:
        """Remove the finalizer that protects volumes in use, as a controller would, and delete the volume."""
        stored = await self.store.get("persistentvolumes", name)
        stored["metadata"].pop("finalizers")
        await self.store.replace("persistentvolumes", stored)
        await self.store.delete("persistentvolumes", name)


@asynccontextmanager
async def nodes(*features: str) -> AsyncIterator[Nodes]:
    async with open_store() as store, trio.open_nursery() as nursery:
        found = Nodes(store, *features)
        nursery.start_soon(found.graph.run)
        await found.graph.wait()
        yield found
        nursery.cancel_scope.cancel()


def pod(name: str = "p", on: str = "n1", **spec: Any) -> Document:
    body: Document = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i"}],
        **spec,
    }
    if on:
        body["nodeName"] = on
    return {"metadata": {"name": name}, "spec": body}


def container(**more: Any) -> Document:
    return {"name": "c", "image": "i", **more}


def volume(source: str, **content: Any) -> Document:
    return {"volumes": [{"name": "v", source: content}]}


def persistent_volume(name: str, claim: str | None, **source: Any) -> Document:
    spec: Document = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        **(source or {"hostPath": {"path": "/x"}}),
    }
    if claim is not None:
        spec["claimRef"] = {"namespace": "default", "name": claim}
    return {"metadata": {"name": name}, "spec": spec}
