"""ExtendedResourceToleration: a pod that requests an extended resource tolerates taints with the resource's name."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.core.resources import is_extended
from rewound.actors.messages import Object
from rewound.actors.names import Names

PODS: Final = Resource("", "pods")
EFFECT: Final = "NoSchedule"


class ExtendedResourceToleration(Plugin):
    name = "ExtendedResourceToleration"
    thread_safe = True
    mutates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, names: Names) -> None:
        self._api_domain = names.key("")

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod = request.object
        assert pod is not None
        own = tolerations = pod["spec"].get("tolerations", [])
        for resource in sorted(self._requested(pod["spec"])):
            tolerations = _with_toleration(tolerations, resource)
        if tolerations == own:
            return None
        return {**pod, "spec": POD_SPEC.arranged({**pod["spec"], "tolerations": tolerations})}

    def _requested(self, spec: Object) -> set[str]:
        return {
            name
            for part in ("initContainers", "containers")
            for container in spec.get(part) or ()
            for name in container.get("resources", {}).get("requests", ())
            if is_extended(name, self._api_domain)
        }


def _with_toleration(tolerations: list[Object], resource: str) -> list[Object]:
    """Replace a toleration of the same taint, which may be limited in time, or add one."""
    wanted = {"key": resource, "operator": "Exists", "effect": EFFECT}
    replaced = [wanted if _same_taint(one, resource) else one for one in tolerations]
    return replaced if wanted in replaced else [*replaced, wanted]


def _same_taint(one: Object, resource: str) -> bool:
    compared = one.get("key"), one.get("operator"), one.get("effect"), one.get("value", "")
    return compared == (resource, "Exists", EFFECT, "")
