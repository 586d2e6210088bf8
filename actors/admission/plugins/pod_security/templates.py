"""PodSecurity for objects with a pod template: warns about templates whose pods would violate a level.

Never refuses: the enforced level concerns the pods that a controller creates from the template.
"""

from __future__ import annotations

from typing import Final

from actors.admission.plugin import Plugin, rule
from actors.admission.plugins.pod_security.evaluated_pod import EvaluatedPod
from actors.admission.plugins.pod_security.evaluations import Evaluations
from actors.admission.plugins.pod_security.namespace_policies import NamespacePolicies
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import Resource
from actors.messages import Object

_PATHS: Final = {
    Resource("", "podtemplates"): ("template",),
    Resource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        (
            Resource("", "replicationcontrollers"),
            Resource("apps", "daemonsets"),
            Resource("apps", "deployments"),
            Resource("apps", "replicasets"),
            Resource("apps", "statefulsets"),
            Resource("batch", "jobs"),
        ),
        ("spec", "template"),
    ),
}


class PodSecurityOfTemplates(Plugin):
    name = "PodSecurity"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=_PATHS),)

    def __init__(self, policies: NamespacePolicies, evaluations: Evaluations) -> None:
        self._policies = policies
        self._evaluations = evaluations

    def validate(self, request: AdmissionRequest) -> None:
        if self._evaluations.is_exempt(request):
            return
        found = self._policies.of(request.namespace)
        if found is None or found.admits_every_template:
            return
        template = _template(request)
        if template is not None:
            evaluated = EvaluatedPod(template.get("metadata"), template.get("spec") or {})
            self._evaluations.evaluate(request, found, evaluated, enforced=False)


def _template(request: AdmissionRequest) -> Object | None:
    """None for a ReplicationController without one."""
    found = request.object
    for member in _PATHS[request.definition.resource]:
        if found is None:
            return None
        found = found.get(member)
    return found
