"""Pods get the zone and region of their node, whether they are created with it or bound to it."""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.plugins.pod_topology_labels import PodTopologyLabels
from rewound.actors.admission.request import CREATE
from rewound.actors.names import CLUSTER
from rewound.actors.versions.features import TOPOLOGY_LABELS
from tests.actors.admission.admitted import admitted
from tests.actors.object_store import open_store

ZONE, REGION = (CLUSTER.key(one, "topology") for one in ("zone", "region"))
EXPECTED = {REGION: "r", ZONE: "z"}
BOUND = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
ELSEWHERE = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "other"}}


async def test_labels_are_those_of_the_node() -> None:
    async with open_store() as store:
        labels = {ZONE: "z", REGION: "r", "other": "x"}
        await store.create("nodes", {"metadata": {"name": "n", "labels": labels}})
        plugin = PodTopologyLabels(CLUSTER, store.journal, store.feed, frozenset({TOPOLOGY_LABELS}))
        definition = store.definition("pods")

        def admit(sent: dict[str, Any], subresource: str = "") -> Any:
            return admitted(plugin, definition, CREATE, sent, subresource=subresource)

        placed = {"metadata": {"name": "a", "labels": {ZONE: "y"}}, "spec": {"nodeName": "n"}}
        assert admit(placed)["metadata"]["labels"] == EXPECTED
        assert admit(BOUND, "binding")["metadata"]["labels"] == EXPECTED
        assert admit(ELSEWHERE, "binding") is ELSEWHERE
        waiting = {"metadata": {"name": "a"}, "spec": {}}
        assert admit(waiting) is waiting
        without = PodTopologyLabels(CLUSTER, store.journal, store.feed, frozenset())
        assert plugin.mutates and not without.mutates
