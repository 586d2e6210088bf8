"""The graph that follows the feed, one built from the journal, and a plain search of all objects agree."""

from __future__ import annotations

import random

import pytest
import trio

from rewound.actors.access.authorization.node_authorizer import CLAIM, NodeGraph
from rewound.actors.names import CLUSTER
from tests.actors.access.authorization.node_store import Nodes, nodes, persistent_volume, pod
from tests.actors.object_store import Document, Store

NODES, NAMES = ("n1", "n2"), ("a", "b", "c")


async def change(found: Nodes, chance: random.Random) -> None:
    """Create a pod or volume, or delete it if it exists."""
    name = chance.choice(("x", "y", "z"))
    if chance.random() < 0.3:
        if any(one["metadata"]["name"] == name for one in await items(found.store, "persistentvolumes")):
            await found.remove_volume(name)
        else:
            secret = {"name": chance.choice(NAMES), "namespace": "default"}
            source = {"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": secret}}
            claim = chance.choice((*NAMES, None))
            await found.store.create("persistentvolumes", persistent_volume(name, claim, **source))
    elif any(one["metadata"]["name"] == name for one in await items(found.store, "pods")):
        await found.store.delete("pods", name)
    else:
        await found.store.create("pods", random_pod(name, chance))


def random_pod(name: str, chance: random.Random) -> Document:
    volumes: list[Document] = []
    for number in range(chance.randrange(3)):
        source = chance.choice(
            (
                {"secret": {"secretName": chance.choice(NAMES)}},
                {"persistentVolumeClaim": {"claimName": chance.choice(NAMES)}},
            )
        )
        volumes.append({"name": f"v{number}", **source})
    return pod(name, chance.choice((*NODES, "")), volumes=volumes)


async def items(store: Store, plural: str) -> list[Document]:
    found: list[Document] = (await store.list(plural, None))["items"]
    return found


async def searched(store: Store) -> set[tuple[str, ...]]:
    """Which node may read which secret and volume, by searching all objects."""
    rights: set[tuple[str, ...]] = set()
    volumes = await items(store, "persistentvolumes")
    for one in await items(store, "pods"):
        node = one["spec"].get("nodeName")
        for volume in one["spec"].get("volumes", ()) if node else ():
            if "secret" in volume:
                rights.add((node, "secret", volume["secret"]["secretName"]))
                continue
            claim = volume["persistentVolumeClaim"]["claimName"]
            rights.add((node, "claim", claim))
            for bound in volumes:
                if bound["spec"].get("claimRef", {}).get("name") == claim:
                    rights.add((node, "volume", bound["metadata"]["name"]))
                    rights.add((node, "secret", bound["spec"]["csi"]["nodePublishSecretRef"]["name"]))
    return rights


def related(graph: NodeGraph) -> set[tuple[str, ...]]:
    rights: set[tuple[str, ...]] = set()
    for node in NODES:
        rights |= {(node, "secret", name) for name in NAMES if graph.reads_secret(node, "default", name)}
        rights |= {
            (node, "claim", name) for name in NAMES if graph.names_in_pod(node, "default", CLAIM + name)
        }
        rights |= {(node, "volume", name) for name in ("x", "y", "z") if graph.mounts_volume(node, name)}
    return rights


@pytest.mark.parametrize("seed", range(3))
async def test_graph_agrees_with_a_search_of_all_objects(seed: int) -> None:
    chance = random.Random(seed)
    seen = 0
    async with nodes() as found:
        for _ in range(40):
            await change(found, chance)
            expected = await searched(found.store)
            seen += len(expected)
            assert related(found.graph) == expected
        rebuilt = NodeGraph(CLUSTER, found.store.journal, found.store.feed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rebuilt.run)
            await rebuilt.wait()
            nursery.cancel_scope.cancel()
        assert related(rebuilt) == expected
    assert seen, "some node had a right"
