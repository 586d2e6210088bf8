"""PodSecurity for namespaces: refuses labels that are not a policy, and warns when an exempt namespace has a policy.

Labels that were wrong before stay allowed: an update that is about something else must not fail because of them.
"""

from __future__ import annotations

from actors.admission.plugin import Plugin, rule
from actors.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from actors.admission.plugins.pod_security.namespace_policies import NAMESPACES
from actors.admission.plugins.pod_security.policy import NamespacePolicy, PolicyLabels, is_tightened
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import Invalid
from actors.messages import Object


class PodSecurityOfNamespaces(Plugin):
    name = "PodSecurity"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=(NAMESPACES,)),)

    def __init__(self, labels: PolicyLabels, configuration: PodSecurityConfiguration) -> None:
        self._labels = labels
        self._configuration = configuration

    def validate(self, request: AdmissionRequest) -> None:
        assert request.object is not None
        new = policy_of(self._labels, request.object)
        old = None if request.old is None else policy_of(self._labels, request.old)
        if new.errors and (old is None or new.errors != old.errors):
            raise Invalid("", "Namespace", request.name, [one.cause() for one in new.errors])
        name = request.object["metadata"].get("name", "")
        changed = old is None or is_tightened(new.policy.enforce, old.policy.enforce)
        if changed and name in self._configuration.exempt_namespaces:
            self._warn_exempt(request, name, new)

    def _warn_exempt(self, request: AdmissionRequest, name: str, found: NamespacePolicy) -> None:
        policy = found.policy
        if policy.fully_privileged or policy.equivalent(self._labels.defaults):
            return
        request.warnings += (
            f'namespace "{name}" is exempt from Pod Security, and the policy ({policy}) will be ignored',
        )


def policy_of(labels: PolicyLabels, namespace: Object) -> NamespacePolicy:
    return labels.policy_of(namespace["metadata"].get("labels"))
