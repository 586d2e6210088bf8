"""The spec of pods: containers, volumes, and where and how they run.

Templates of workloads have the same spec as pods. A few defaults and rules are for pods alone; those are in
`core/pod`. An update may keep values of the old object that would be invalid in a new one: `Allowed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.kinds.core.pods.affinity import AFFINITY, affinity_rules
from actors.kinds.core.pods.containers import (
    CONTAINER,
    EPHEMERAL_CONTAINER,
    ContainerRules,
    set_container_defaults,
)
from actors.kinds.core.pods.dns import (
    HOST_ALIAS,
    POD_DNS_CONFIG,
    dns_config_rules,
    dns_policy_rules,
    host_alias_rules,
    is_expanded,
)
from actors.kinds.core.pods.keys import PodKeys
from actors.kinds.core.pods.placement import (
    POD_READINESS_GATE,
    TOLERATION,
    TOPOLOGY_SPREAD_CONSTRAINT,
    readiness_gate_rules,
    spread_rules,
    toleration_rules,
)
from actors.kinds.core.pods.ports import host_network_rules, set_host_port_defaults
from actors.kinds.core.pods.security import POD_SECURITY_CONTEXT, pod_context_rules
from actors.kinds.core.pods.volumes import VOLUME, VolumeRules, set_volume_defaults
from actors.kinds.core.pods.windows import (
    containers_of,
    host_process_rules,
    linux_rules,
    windows_rules,
)
from actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from actors.kinds.core.resources import HUGE_PAGES, is_multiple_of_page_size, requirement_rules, round_up
from actors.kinds.declaration.meta import label_rules
from actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    QUANTITIES,
    STRING,
    STRING_MAP,
    Field,
    ListOf,
    Struct,
)
from actors.kinds.validation import (
    FieldErrors,
    between,
    dns_label,
    dns_subdomain,
    forbidden,
    invalid,
    not_supported,
    required,
)
from actors.messages import Object

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
OPERATING_SYSTEMS: Final = ("linux", "windows")
LONGEST_DEADLINE: Final = 2**31 - 1
NOT_IN_USER_NAMESPACE: Final = "when `pod.Spec.HostUsers` is false"

POD_OS = Struct(
    "core.v1.PodOS",
    Field("name", STRING, 1, required=True, always=True),
)
POD_SPEC = Struct(
    "core.v1.PodSpec",
    Field("volumes", ListOf(VOLUME), 1, patch="merge,retainKeys", merge_key="name"),
    Field("initContainers", ListOf(CONTAINER), 20, patch="merge", merge_key="name"),
    Field("containers", ListOf(CONTAINER), 2, required=True, always=True, patch="merge", merge_key="name"),
    Field("ephemeralContainers", ListOf(EPHEMERAL_CONTAINER), 34, patch="merge", merge_key="name"),
    Field("restartPolicy", STRING, 3, enum=("Always", "Never", "OnFailure"), default="Always"),
    Field("terminationGracePeriodSeconds", INT64, 4, pointer=True, default=30),
    Field("activeDeadlineSeconds", INT64, 5, pointer=True),
    Field(
        "dnsPolicy",
        STRING,
        6,
        enum=("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        default="ClusterFirst",
    ),
    Field("nodeSelector", STRING_MAP, 7, map_type="atomic"),
    Field("serviceAccountName", STRING, 8),
    Field("serviceAccount", STRING, 9),
    Field("automountServiceAccountToken", BOOL, 21, pointer=True),
    Field("nodeName", STRING, 10),
    Field("hostNetwork", BOOL, 11),
    Field("hostPID", BOOL, 12),
    Field("hostIPC", BOOL, 13),
    Field("shareProcessNamespace", BOOL, 27, pointer=True),
    Field("securityContext", POD_SECURITY_CONTEXT, 14, pointer=True, default=dict),
    Field("imagePullSecrets", ListOf(LOCAL_OBJECT_REFERENCE), 15, patch="merge", merge_key="name"),
    Field("hostname", STRING, 16),
    Field("subdomain", STRING, 17),
    Field("affinity", AFFINITY, 18, pointer=True),
    Field("schedulerName", STRING, 19, default="default-scheduler"),
    Field("tolerations", ListOf(TOLERATION), 22),
    Field("hostAliases", ListOf(HOST_ALIAS), 23, patch="merge", merge_key="ip"),
    Field("priorityClassName", STRING, 24),
    Field("priority", INT32, 25, pointer=True),
    Field("dnsConfig", POD_DNS_CONFIG, 26, pointer=True),
    Field("readinessGates", ListOf(POD_READINESS_GATE), 28),
    Field("runtimeClassName", STRING, 29, pointer=True),
    Field("enableServiceLinks", BOOL, 30, pointer=True),
    Field("preemptionPolicy", STRING, 31, pointer=True),
    Field("overhead", QUANTITIES, 32),
    Field(
        "topologySpreadConstraints",
        ListOf(TOPOLOGY_SPREAD_CONSTRAINT),
        33,
        patch="merge",
        merge_key="topologyKey",
        list_type="map",
        list_keys=("topologyKey", "whenUnsatisfiable"),
    ),
    Field("setHostnameAsFQDN", BOOL, 35, pointer=True),
    Field("os", POD_OS, 36, pointer=True),
    Field("hostUsers", BOOL, 37, pointer=True),
)

_USER_NAMESPACE_VOLUMES: Final = frozenset(("emptyDir", "secret", "downwardAPI", "configMap", "projected"))
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Invalid values that validation tolerates because the old object has them already."""

    indivisible_huge_pages: bool = False
    expanded_dns: bool = False
    any_deletion_cost: bool = False


def set_spec_defaults(spec: Object) -> None:
    if "volumes" in spec:
        set_volume_defaults(spec["volumes"])
    for part in _CONTAINERS:
        if spec.get(part):
            set_container_defaults(spec[part])
    if spec.get("hostNetwork"):
        set_host_port_defaults(spec["containers"] or [])
        set_host_port_defaults(spec.get("initContainers", []))
    if "overhead" in spec:
        round_up(spec["overhead"])
    _sync_service_account_fields(spec)


def _sync_service_account_fields(spec: Object) -> None:
    """The service account has an old and a new field name, and objects have both; the new one takes precedence."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name and (spec.get("serviceAccountName") != name or spec.get("serviceAccount") != name):
        filled = POD_SPEC.arranged({**spec, "serviceAccountName": name, "serviceAccount": name})
        spec.clear()
        spec.update(filled)


NOTHING_ALLOWED: Final = Allowed()


class SpecRules:
    """Rules of pod specs in one dialect."""

    def __init__(self, keys: PodKeys) -> None:
        self._api_domain = keys.api_domain
        self._volumes = VolumeRules(keys.domains)

    def validate(
        self,
        errors: FieldErrors,
        spec: Object,
        field: str,
        pod: str = "",
        allowed: Allowed = NOTHING_ALLOWED,
    ) -> None:
        """`pod` is the name of the pod, empty for the spec of a template."""
        volumes = self._volumes.validate(errors, spec.get("volumes", []), f"{field}.volumes", pod)
        main, init = spec["containers"] or [], spec.get("initContainers", [])
        rules = ContainerRules(volumes, self._api_domain, allowed.indivisible_huge_pages)
        rules.validate_main(errors, main, f"{field}.containers")
        rules.validate_init(errors, init, main, f"{field}.initContainers")
        if "ephemeralContainers" in spec:
            ephemeral = spec["ephemeralContainers"]
            rules.validate_ephemeral(errors, ephemeral, [*main, *init], f"{field}.ephemeralContainers")
        _policy_rules(errors, spec, field)
        if spec.get("hostNetwork"):
            host_network_rules(errors, main, f"{field}.containers")
        pod_context_rules(errors, spec, f"{field}.securityContext")
        _placement_rules(errors, spec, field, allowed)
        host_process_rules(errors, spec, field)
        _user_namespace_rules(errors, spec, field)
        _name_rules(errors, spec, field)
        _list_rules(errors, spec, field)
        self._class_rules(errors, spec, field, allowed)
        _os_rules(errors, spec, field)

    def _class_rules(self, errors: FieldErrors, spec: Object, field: str, allowed: Allowed) -> None:
        for part in ("priorityClassName", "runtimeClassName"):
            name = spec.get(part)
            if name is not None:
                errors.add_each(f"{field}.{part}", name, dns_subdomain(name))
        policy = spec.get("preemptionPolicy")
        if policy is not None and policy not in PREEMPTION_POLICIES:
            _unsupported_or_missing(errors, policy, PREEMPTION_POLICIES, f"{field}.preemptionPolicy")
        if "overhead" in spec:
            limits = {"limits": spec["overhead"]}
            requirement_rules(
                errors,
                limits,
                f"{field}.overhead",
                self._api_domain,
                indivisible_huge_pages=allowed.indivisible_huge_pages,
            )


def _policy_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    policy = spec.get("restartPolicy", "")
    if policy not in RESTART_POLICIES:
        _unsupported_or_missing(errors, policy, RESTART_POLICIES, f"{field}.restartPolicy")
    dns_policy_rules(errors, spec.get("dnsPolicy", ""), f"{field}.dnsPolicy")
    if "nodeSelector" in spec:
        label_rules(errors, spec["nodeSelector"], f"{field}.nodeSelector")


def _placement_rules(errors: FieldErrors, spec: Object, field: str, allowed: Allowed) -> None:
    if "affinity" in spec:
        affinity_rules(errors, spec["affinity"], f"{field}.affinity")
    dns_config_rules(
        errors,
        spec.get("dnsConfig"),
        spec.get("dnsPolicy", ""),
        f"{field}.dnsConfig",
        expanded=allowed.expanded_dns,
    )
    if "readinessGates" in spec:
        readiness_gate_rules(errors, spec["readinessGates"], f"{field}.readinessGates")
    if "topologySpreadConstraints" in spec:
        here = f"{field}.topologySpreadConstraints"
        spread_rules(errors, spec["topologySpreadConstraints"], here)


def _user_namespace_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    """A user namespace (hostUsers false) excludes most volume types and all host namespaces."""
    if spec.get("hostUsers") is not False:
        return
    for index, volume in enumerate(spec.get("volumes", ())):
        if _USER_NAMESPACE_VOLUMES.isdisjoint(volume):
            errors.add(
                forbidden(
                    f"{field}.volumes[{index}]",
                    "volume type not supported when `pod.Spec.HostUsers` is false",
                )
            )
    for part, name in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if part in spec:
            errors.add(forbidden(f"{field}.{name}", NOT_IN_USER_NAMESPACE))


def _name_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    for part in ("serviceAccountName", "nodeName"):
        if part in spec:
            errors.add_each(f"{field}.{part}", spec[part], dns_subdomain(spec[part]))
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= deadline <= LONGEST_DEADLINE:
        errors.add(invalid(f"{field}.activeDeadlineSeconds", deadline, between(1, LONGEST_DEADLINE)))
    for part in ("hostname", "subdomain"):
        if part in spec:
            errors.add_each(f"{field}.{part}", spec[part], dns_label(spec[part]))


def _list_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    if "tolerations" in spec:
        toleration_rules(errors, spec["tolerations"], f"{field}.tolerations")
    if "hostAliases" in spec:
        host_alias_rules(errors, spec["hostAliases"], f"{field}.hostAliases")


def _os_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    if "os" not in spec:
        return
    name = spec["os"]["name"]
    if not name:
        errors.add(required(f"{field}.os.name", "cannot be empty"))
        return
    if name not in OPERATING_SYSTEMS:
        errors.add(not_supported(f"{field}.os", name, OPERATING_SYSTEMS))
    elif name == "linux":
        linux_rules(errors, spec, field)
    else:
        windows_rules(errors, spec, field)


def _unsupported_or_missing(errors: FieldErrors, value: str, supported: tuple[str, ...], field: str) -> None:
    errors.add(not_supported(field, value, supported) if value else required(field))


def allowed_by(spec: Object, old: Object) -> Allowed:
    """The values of the old spec that would be invalid in a new one."""
    before, after = old.get("dnsConfig", {}), spec.get("dnsConfig", {})
    expanded = is_expanded(before) and before.get("searches") == after.get("searches")
    return Allowed(indivisible_huge_pages=_has_indivisible_huge_pages(old), expanded_dns=expanded)


def _has_indivisible_huge_pages(spec: Object) -> bool:
    lists = [spec.get("overhead", {})]
    for container, _ in containers_of(spec, ""):
        lists += container["resources"].values()
    return any(
        name.startswith(HUGE_PAGES) and not is_multiple_of_page_size(name, amount)
        for amounts in lists
        for name, amount in amounts.items()
    )
