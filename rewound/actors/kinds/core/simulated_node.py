"""Which Node objects are simulated: no kubelet runs on them, and no program in their pods.

Whoever connects to a pod or a node has to know (`actors/admission/webhooks/services.py`, `gateway/proxy/locations.py`).
"""

from __future__ import annotations

from typing import Final

from rewound.actors.messages import Object

SIMULATED: Final = "sim/node"  # an annotation of Node objects; its value is "true"
KWOK_NODE: Final = ("kwok.x-k8s.io/node", "fake")  # the equivalent of users of kwok


def is_simulated(node: Object) -> bool:
    annotations = node["metadata"].get("annotations") or {}
    key, value = KWOK_NODE
    return annotations.get(SIMULATED) == "true" or annotations.get(key) == value
