"""SecurityContextDeny: rejects pods that set users, groups or SELinux options themselves."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.messages import Object

PODS: Final = Resource("", "pods")
# The name of the Go field is in the message.
OF_PODS: Final = {
    "supplementalGroups": "SupplementalGroups",
    "seLinuxOptions": "SELinuxOptions",
    "runAsUser": "RunAsUser",
    "fsGroup": "FSGroup",
}
OF_CONTAINERS: Final = {"seLinuxOptions": "SELinuxOptions", "runAsUser": "RunAsUser"}


class SecurityContextDeny(Plugin):
    name = "SecurityContextDeny"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def validate(self, request: AdmissionRequest) -> None:
        pod = request.object
        assert pod is not None
        field = next(_denied(pod["spec"], request.sent_empty), "")
        if field:
            raise Forbidden(PODS, pod["metadata"].get("name", ""), f"{field} is forbidden")


def _denied(spec: Object, sent_empty: Set[str]) -> Iterator[str]:
    context = spec.get("securityContext") or {}
    for field, shown in OF_PODS.items():
        if context.get(field) is not None or f"spec.securityContext.{field}" in sent_empty:
            yield f"pod.Spec.SecurityContext.{shown}"
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            context = container.get("securityContext") or {}
            for field, shown in OF_CONTAINERS.items():
                if context.get(field) is not None:
                    yield f"SecurityContext.{shown}"
