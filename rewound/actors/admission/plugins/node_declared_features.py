"""NodeDeclaredFeatureValidator: a running pod may change only as its node declares that it can."""

from __future__ import annotations

from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.core.declared_features import needed_to_change
from rewound.actors.messages import Object
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import DECLARED_FEATURES
from rewound.journal.log import Journal

PODS = Resource("", "pods")
NODES = Resource("", "nodes")


class NodeDeclaredFeatureValidator(Plugin):
    name = "NodeDeclaredFeatureValidator"

    def __init__(self, journal: Journal, feed: Feed, features: frozenset[str]) -> None:
        if DECLARED_FEATURES in features:
            self.validates = (rule(UPDATE, of=(PODS,), subresources=("", "resize")),)
        self._features = features
        self._declared = CachedObjects(NODES, journal, feed, _declared)

    def validate(self, request: AdmissionRequest) -> None:
        new, old = request.object, request.old
        assert new is not None and old is not None
        node = new["spec"].get("nodeName")
        if not node or new["spec"] == old["spec"]:
            return
        needed = needed_to_change(old, new, self._features)
        if not needed:
            return
        declared = self._declared.all().get(node)
        if declared is None:
            raise Forbidden(PODS, request.name, f"node {quoted(node)} not found")
        if lacking := [one for one in needed if one not in declared]:
            text = f"pod update requires features {', '.join(lacking)} which are not available on node {quoted(node)}"
            raise Forbidden(PODS, request.name, text)


def _declared(node: Object) -> frozenset[str]:
    return frozenset(node.get("status", {}).get("declaredFeatures") or ())
