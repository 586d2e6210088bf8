"""DefaultTolerationSeconds: by default, pods tolerate a node that is not ready or unreachable for five minutes."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.messages import Object
from rewound.actors.names import Names

PODS: Final = Resource("", "pods")
SECONDS: Final = 300


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"
    thread_safe = True
    mutates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, names: Names) -> None:
        self._taints = (names.key("not-ready", "node"), names.key("unreachable", "node"))

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod = request.object
        assert pod is not None
        tolerations = pod["spec"].get("tolerations", [])
        missing = [taint for taint in self._taints if not _tolerates(tolerations, taint)]
        if not missing:
            return None
        added = [_toleration(taint) for taint in missing]
        spec = POD_SPEC.arranged({**pod["spec"], "tolerations": [*tolerations, *added]})
        return {**pod, "spec": spec}


def _tolerates(tolerations: list[Object], taint: str) -> bool:
    return any(
        one.get("key", "") in ("", taint) and one.get("effect", "") in ("", "NoExecute")
        for one in tolerations
    )


def _toleration(taint: str) -> Object:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
