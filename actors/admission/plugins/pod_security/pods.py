"""PodSecurity for pods: refuses those that violate the enforced level of their namespace.

Of the updates, only those are evaluated that change what a check reads and an update can change: the image of a
container, the seccomp annotation of a container, or a new ephemeral container. So a pod that was admitted before its
namespace became stricter can still get labels, finalizers and a status.
"""

from __future__ import annotations

from typing import Final

from actors.admission.plugin import Plugin, rule
from actors.admission.plugins.pod_security.evaluated_pod import EvaluatedPod
from actors.admission.plugins.pod_security.evaluations import Evaluations
from actors.admission.plugins.pod_security.namespace_policies import NAMESPACES, NamespacePolicies
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import NotFound, Resource
from actors.messages import Object
from actors.names import Names

PODS: Final = Resource("", "pods")


class PodSecurity(Plugin):
    name = "PodSecurity"
    thread_safe = True
    validates = (rule(CREATE, of=(PODS,)), rule(UPDATE, of=(PODS,), subresources=("", "ephemeralcontainers")))

    def __init__(self, names: Names, policies: NamespacePolicies, evaluations: Evaluations) -> None:
        self._policies = policies
        self.evaluations = evaluations
        self._seccomp = names.key("", "container.seccomp.security.alpha")

    def validate(self, request: AdmissionRequest) -> None:
        if self.evaluations.is_exempt(request):
            return
        found = self._policies.of(request.namespace)
        if found is None:  # possible while NamespaceLifecycle is disabled
            raise NotFound(NAMESPACES, request.namespace)
        if found.admits_every_pod:
            self.evaluations.admit_privileged(request)
            return
        pod, old = request.object, request.old
        assert pod is not None
        if old is None or self._is_significant(pod, old):
            evaluated = EvaluatedPod(pod["metadata"], pod["spec"])
            self.evaluations.evaluate(request, found, evaluated, enforced=True)

    def _is_significant(self, pod: Object, old: Object) -> bool:
        for part in ("containers", "initContainers"):
            containers, before = pod["spec"].get(part) or (), old["spec"].get(part) or ()
            if len(containers) != len(before):
                return True
            for one, was in zip(containers, before, strict=True):
                if self._has_changed(one, was, pod, old):
                    return True
        known = {one["name"]: one for one in old["spec"].get("ephemeralContainers") or ()}
        return any(
            one["name"] not in known or self._has_changed(one, known[one["name"]], pod, old)
            for one in pod["spec"].get("ephemeralContainers") or ()
        )

    def _has_changed(self, container: Object, before: Object, pod: Object, old: Object) -> bool:
        if container.get("image") != before.get("image"):
            return True
        key = f"{self._seccomp}{container.get('name', '')}"
        return _annotation(pod, key) != _annotation(old, key)


def _annotation(pod: Object, key: str) -> str:
    value: str = (pod["metadata"].get("annotations") or {}).get(key, "")
    return value
