"""PodTopologyLabels: a pod that has a node, or is bound to one, gets the labels of the node's zone and region."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.declaration.meta import OBJECT_META
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import TOPOLOGY_LABELS
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
NODES: Final = Resource("", "nodes")
BINDING: Final = "binding"


class PodTopologyLabels(Plugin):
    name = "PodTopologyLabels"

    def __init__(self, names: Names, journal: Journal, feed: Feed, features: frozenset[str]) -> None:
        if TOPOLOGY_LABELS in features:
            self.mutates = (rule(CREATE, of=(PODS,), subresources=("", BINDING)),)
        self._keys = names.key("zone", "topology"), names.key("region", "topology")
        self._labels = CachedObjects(NODES, journal, feed, self._copied)

    def _copied(self, node: Object) -> dict[str, str] | None:
        labels = node["metadata"].get("labels", {})
        return {key: labels[key] for key in self._keys if key in labels} or None

    def mutate(self, request: AdmissionRequest) -> Object | None:
        sent = request.object
        assert sent is not None
        if request.subresource:
            target = sent["target"]
            node = target.get("name") if target.get("kind") == "Node" else None
        else:
            node = sent["spec"].get("nodeName")
        found = self._labels.all().get(node) if node else None
        if not found:
            return None
        labels = dict(sorted({**sent["metadata"].get("labels", {}), **found}.items()))
        return {**sent, "metadata": OBJECT_META.arranged({**sent["metadata"], "labels": labels})}
