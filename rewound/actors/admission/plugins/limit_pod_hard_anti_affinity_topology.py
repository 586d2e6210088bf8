"""LimitPodHardAntiAffinityTopology: required anti-affinity may exclude pods from a node, but not from a whole zone."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.names import Names

PODS: Final = Resource("", "pods")


class LimitPodHardAntiAffinityTopology(Plugin):
    name = "LimitPodHardAntiAffinityTopology"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, names: Names) -> None:
        self._hostname = names.key("hostname")

    def validate(self, request: AdmissionRequest) -> None:
        pod = request.object
        assert pod is not None
        affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey", "")
            if key != self._hostname:
                why = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                    f"but only key {self._hostname} is allowed"
                )
                raise Forbidden(PODS, pod["metadata"].get("name", ""), why)
