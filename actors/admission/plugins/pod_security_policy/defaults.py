"""Fills in what a policy requires and a pod leaves open."""

from __future__ import annotations

from typing import Final

from actors.admission.plugins.pod_security_policy.policy import NON_ROOT, Policy
from actors.kinds.core.pods.containers import CONTAINER, EPHEMERAL_CONTAINER
from actors.kinds.core.pods.security import POD_SECURITY_CONTEXT, SECURITY_CONTEXT
from actors.kinds.core.pods.spec import POD_SPEC
from actors.messages import Object

CONTAINERS: Final = {
    "initContainers": CONTAINER,
    "containers": CONTAINER,
    "ephemeralContainers": EPHEMERAL_CONTAINER,
}


def filled(policy: Policy, pod: Object) -> Object:
    """A copy that shares its unchanged parts with the pod, and is equal to it if nothing is missing."""
    spec, metadata = dict(pod["spec"]), dict(pod["metadata"])
    annotations = dict(metadata.get("annotations", {}))
    context = spec["securityContext"] = _pod_context(policy, spec.get("securityContext") or {})
    policy.seccomp.fill(annotations, context)
    runtime_class = (policy.spec.get("runtimeClass") or {}).get("defaultRuntimeClassName")
    if runtime_class is not None:
        spec.setdefault("runtimeClassName", runtime_class)
    for part, struct in CONTAINERS.items():
        if spec.get(part):
            filled_in = [_container(policy, context, one) for one in spec[part]]
            spec[part] = [struct.arranged(one) for one in filled_in]
            for one in spec[part]:
                policy.app_armor.fill(annotations, one.get("name", ""))
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    return {**pod, "metadata": metadata, "spec": POD_SPEC.arranged(spec)}


def _pod_context(policy: Policy, own: Object) -> Object:
    context = dict(own)
    group = policy.supplemental_groups.default
    if context.get("supplementalGroups") is None and group is not None:
        context["supplementalGroups"] = [group]
    if context.get("fsGroup") is None and policy.fs_groups.default is not None:
        context["fsGroup"] = policy.fs_groups.default
    if context.get("seLinuxOptions") is None and policy.se_linux is not None:
        context["seLinuxOptions"] = policy.se_linux
    return POD_SECURITY_CONTEXT.arranged(context)


def _container(policy: Policy, of_pod: Object, container: Object) -> Object:
    own = container.get("securityContext")
    context = dict(own or {})

    def missing(field: str) -> bool:
        return context.get(field) is None and of_pod.get(field) is None

    if missing("runAsUser") and policy.users.default is not None:
        context["runAsUser"] = policy.users.default
    if missing("runAsGroup") and policy.groups.default is not None:
        context["runAsGroup"] = policy.groups.default
    if policy.users.rule == NON_ROOT and missing("runAsNonRoot") and missing("runAsUser"):
        context["runAsNonRoot"] = True
    _fill_capabilities(policy, context)
    _fill_switches(policy, context)
    if context == (own or {}):
        return container
    return {**container, "securityContext": SECURITY_CONTEXT.arranged(context)}


def _fill_capabilities(policy: Policy, context: Object) -> None:
    own = context.get("capabilities") or {}
    own_add, own_drop = set(own.get("add") or ()), set(own.get("drop") or ())
    add = own_add | (set(policy.spec.get("defaultAddCapabilities") or ()) - own_drop)
    drop = own_drop | set(policy.spec.get("requiredDropCapabilities") or ())
    if add == own_add and drop == own_drop:
        return
    capabilities = {"add": sorted(add), "drop": sorted(drop)}
    context["capabilities"] = {name: value for name, value in capabilities.items() if value}


def _fill_switches(policy: Policy, context: Object) -> None:
    spec = policy.spec
    if spec.get("readOnlyRootFilesystem") and context.get("readOnlyRootFilesystem") is None:
        context["readOnlyRootFilesystem"] = True
    if context.get("allowPrivilegeEscalation") is None:
        default = spec.get("defaultAllowPrivilegeEscalation")
        if default is None and not spec.get("allowPrivilegeEscalation", True):
            default = False
        if default is not None:
            context["allowPrivilegeEscalation"] = default
