"""The policy group: PodDisruptionBudget (v1) and PodSecurityPolicy (v1beta1, deprecated).

PodDisruptionBudget says how many of the selected pods voluntary disruptions may make unavailable at a time, by either
minAvailable or maxUnavailable. Evictions decrement its status, so updates must have a resourceVersion.

PodSecurityPolicy limits what pods may request. Every response has a warning that the kind is deprecated. The admission
plugin of the same name enforces policies where it is enabled.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from typing import Final

from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.pod_template import is_apparmor_profile
from rewound.actors.kinds.core.security_context import (
    LONGEST_SYSCTL,
    SE_LINUX_OPTIONS,
    SYSCTL_PART,
    annotated_profile_rules,
)
from rewound.actors.kinds.core.volume_sources import driver_name_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, Cell, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from rewound.actors.kinds.declaration.meta import (
    CONDITION,
    LABEL_SELECTOR,
    METADATA,
    condition_rules,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.declaration.workloads import (
    at_most_100_percent,
    count_cell,
    int_or_percent_rules,
    not_negative,
)
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    STRINGS,
    TIME,
    Before,
    Field,
    ListOf,
    MapOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.versions.features import PROC_MOUNT

BUDGET_SPEC = Struct(
    "policy.v1.PodDisruptionBudgetSpec",
    Field("minAvailable", INT_OR_STRING, 1, pointer=True),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, patch="replace"),
    Field("maxUnavailable", INT_OR_STRING, 3, pointer=True),
    Field(
        "unhealthyPodEvictionPolicy",
        STRING,
        4,
        pointer=True,
        since="1.26",
        gate="PDBUnhealthyPodEvictionPolicy",
    ),
)
BUDGET_STATUS = Struct(
    "policy.v1.PodDisruptionBudgetStatus",
    Field("observedGeneration", INT64, 1),
    Field("disruptedPods", MapOf(TIME), 2),
    Field("disruptionsAllowed", INT32, 3, always=True, before=(Before("1.36", required=True),)),
    Field("currentHealthy", INT32, 4, always=True, before=(Before("1.36", required=True),)),
    Field("desiredHealthy", INT32, 5, always=True, before=(Before("1.36", required=True),)),
    Field("expectedPods", INT32, 6, always=True, before=(Before("1.36", required=True),)),
    Field(
        "conditions",
        ListOf(CONDITION),
        7,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
POD_DISRUPTION_BUDGET = Struct(
    "policy.v1.PodDisruptionBudget",
    METADATA,
    Field("spec", BUDGET_SPEC, 2),
    Field("status", BUDGET_STATUS, 3),
)


def _int_or_percent_cell(part: str) -> Cell:
    return lambda stored, _: str(stored["spec"].get(part, "N/A"))


BUDGET_COLUMNS: Final = (
    NAME,
    Column("Min Available", "string", "Pods that must stay available.", _int_or_percent_cell("minAvailable")),
    Column(
        "Max Unavailable", "string", "Pods that may be unavailable.", _int_or_percent_cell("maxUnavailable")
    ),
    Column(
        "Allowed Disruptions",
        "integer",
        "Pods that can be evicted now.",
        count_cell("status", "disruptionsAllowed"),
    ),
    AGE,
)


def define_budget(_: Names) -> Definition:
    return Definition(
        group="policy",
        version="v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        names=DiscoveryNames(short_names=("pdb",)),
        namespaced=True,
        check_name=name_is_path_segment,
        fields=POD_DISRUPTION_BUDGET,
        subresources=(Subresource(name="status", prepare=keep_spec, validate=budget_status_update_rules),),
        storage=Storage(announced_since={"1.25": "v1beta1", "1.27": "v1"}),
        table=Table(BUDGET_COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            validates_metadata=True,
            prepare_for_create=lambda new: reset_status_and_generation(BUDGET_STATUS, new),
            prepare_for_update=keep_status_and_bump_generation,
            validate_create=budget_create_rules,
            validate_update=budget_update_rules,
        ),
    )


def budget_update_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    budget_rules(errors, new)


def budget_create_rules(errors: FieldErrors, new: Object) -> None:
    """Validate metadata only if the rest is valid, as Kubernetes does; the name may be any path segment."""
    if not errors.added_by(budget_rules, new):
        metadata_rules(
            errors,
            new["metadata"],
            namespaced=True,
            check_name=name_is_path_segment,
            known_finalizers=False,
        )


EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


def budget_rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        errors.add(invalid("spec", shown(BUDGET_SPEC, spec), text))
    for part in ("minAvailable", "maxUnavailable"):
        if part in spec:
            int_or_percent_rules(errors, spec[part], f"spec.{part}")
            at_most_100_percent(errors, spec[part], f"spec.{part}")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in EVICTION_POLICIES:
        errors.add(not_supported("spec.unhealthyPodEvictionPolicy", policy, EVICTION_POLICIES))
    label_selector_rules(errors, spec.get("selector"), "spec.selector")


def budget_status_update_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    status = new["status"]
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    condition_rules(errors, status.get("conditions", []), "status.conditions")
    not_negative(errors, status, "status", *counts)


_SYSCTL_PATTERN: Final = rf"({SYSCTL_PART}\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_is_sysctl_pattern = re.compile(_SYSCTL_PATTERN).fullmatch


def sysctl_rules(errors: FieldErrors, sysctls: list[str], field: str) -> None:
    for index, one in enumerate(sysctls):
        if not one:
            errors.add(invalid(f"{field}[{index}]", one, "empty sysctl not allowed"))
        elif len(one) > LONGEST_SYSCTL or not _is_sysctl_pattern(one):
            text = f"must have at most {LONGEST_SYSCTL} characters and match regex {_SYSCTL_PATTERN}"
            errors.add(invalid(f"{field}[{index}]", one, text))
    if "*" in sysctls and len(sysctls) > 1:
        errors.add(forbidden(f"{field}.items", "if '*' is present, must not specify other sysctls"))


def sysctl_overlap_rules(errors: FieldErrors, allowed: list[str], forbidden_patterns: list[str]) -> None:
    """No sysctl is both allowed and forbidden; the error names the narrower of two patterns that overlap.

    Patterns that are too long already have an error.
    """
    index = _SysctlPatterns(forbidden_patterns)
    for i, one in enumerate(allowed):
        if len(one) > LONGEST_SYSCTL:
            continue
        wider = set(index.covering(one))
        for j in sorted(wider.union(index.covered_by(one))):
            other = forbidden_patterns[j]
            if j in wider:
                text = f"sysctl overlaps with {other}"
                errors.add(invalid(f"spec.allowedUnsafeSysctls[{i}]", one, text))
            else:
                text = f"sysctl overlaps with {one}"
                errors.add(invalid(f"spec.forbiddenSysctls[{j}]", other, text))


class _SysctlPatterns:
    """Finds the patterns that overlap with another one, without comparing it with each of them.

    One pattern covers another if it matches everything that the other matches.
    """

    def __init__(self, patterns: list[str]) -> None:
        self._names: dict[str, list[int]] = {}  # patterns without '*'
        self._prefixes: dict[str, list[int]] = {}  # patterns that end in '*', without it
        self._sorted: list[tuple[str, int]] = []
        for index, pattern in enumerate(patterns):
            if len(pattern) > LONGEST_SYSCTL:
                continue
            stem = pattern.removesuffix("*")
            (self._names if stem == pattern else self._prefixes).setdefault(stem, []).append(index)
            self._sorted.append((stem, index))
        self._sorted.sort()
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def covering(self, pattern: str) -> Iterator[int]:
        """Return the indices of the patterns that cover this one."""
        stem = pattern.removesuffix("*")
        if stem == pattern:
            yield from self._names.get(pattern, ())
        for length in self._lengths:
            if length > len(stem):
                return
            yield from self._prefixes.get(stem[:length], ())

    def covered_by(self, pattern: str) -> Iterator[int]:
        """Return the indices of the patterns that this one covers."""
        if not pattern.endswith("*"):
            yield from self._names.get(pattern, ())
            return
        prefix = pattern[:-1]
        for position in range(bisect_left(self._sorted, (prefix, -1)), len(self._sorted)):
            stem, index = self._sorted[position]
            if not stem.startswith(prefix):
                return
            yield index


POLICY_DEPRECATED: Final = "policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+, unavailable in v1.25+"
POLICY_WILDCARD: Final = "*"
PROC_MOUNT_TYPES: Final = ("Default", "Unmasked")
POLICY_VOLUMES: Final = (
    *("*", "awsElasticBlockStore", "azureDisk", "azureFile", "cephFS", "cinder", "configMap", "csi"),
    *("downwardAPI", "emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk"),
    *("gitRepo", "glusterfs", "hostPath", "iscsi", "nfs", "persistentVolumeClaim"),
    *("photonPersistentDisk", "portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "secret"),
    *("storageos", "vsphereVolume"),
)
USER_RULES: Final = ("MustRunAs", "MustRunAsNonRoot", "RunAsAny")
GROUP_RULES: Final = ("MayRunAs", "MustRunAs", "RunAsAny")
SE_LINUX_RULES: Final = ("MustRunAs", "RunAsAny")

ID_RANGE = Struct(
    "policy.v1beta1.IDRange",
    Field("min", INT64, 1, required=True, always=True),
    Field("max", INT64, 2, required=True, always=True),
)
HOST_PORT_RANGE = Struct(
    "policy.v1beta1.HostPortRange",
    Field("min", INT32, 1, required=True, always=True),
    Field("max", INT32, 2, required=True, always=True),
)
SE_LINUX = Struct(
    "policy.v1beta1.SELinuxStrategyOptions",
    Field("rule", STRING, 1, required=True, always=True),
    Field("seLinuxOptions", SE_LINUX_OPTIONS, 2, pointer=True),
)
RUN_AS_USER = Struct(
    "policy.v1beta1.RunAsUserStrategyOptions",
    Field("rule", STRING, 1, required=True, always=True),
    Field("ranges", ListOf(ID_RANGE), 2),
)
RUN_AS_GROUP = Struct(
    "policy.v1beta1.RunAsGroupStrategyOptions",
    Field("rule", STRING, 1, required=True, always=True),
    Field("ranges", ListOf(ID_RANGE), 2),
)
SUPPLEMENTAL_GROUPS = Struct(
    "policy.v1beta1.SupplementalGroupsStrategyOptions",
    Field("rule", STRING, 1),
    Field("ranges", ListOf(ID_RANGE), 2),
)
FS_GROUP = Struct(
    "policy.v1beta1.FSGroupStrategyOptions",
    Field("rule", STRING, 1),
    Field("ranges", ListOf(ID_RANGE), 2),
)
ALLOWED_HOST_PATH = Struct(
    "policy.v1beta1.AllowedHostPath", Field("pathPrefix", STRING, 1), Field("readOnly", BOOL, 2)
)
ALLOWED_FLEX_VOLUME = Struct(
    "policy.v1beta1.AllowedFlexVolume", Field("driver", STRING, 1, required=True, always=True)
)
ALLOWED_CSI_DRIVER = Struct(
    "policy.v1beta1.AllowedCSIDriver", Field("name", STRING, 1, required=True, always=True)
)
RUNTIME_CLASS = Struct(
    "policy.v1beta1.RuntimeClassStrategyOptions",
    Field("allowedRuntimeClassNames", STRINGS, 1, required=True, always=True),
    Field("defaultRuntimeClassName", STRING, 2, pointer=True),
)
POLICY_SPEC = Struct(
    "policy.v1beta1.PodSecurityPolicySpec",
    Field("privileged", BOOL, 1),
    Field("defaultAddCapabilities", STRINGS, 2),
    Field("requiredDropCapabilities", STRINGS, 3),
    Field("allowedCapabilities", STRINGS, 4),
    Field("volumes", STRINGS, 5),
    Field("hostNetwork", BOOL, 6),
    Field("hostPorts", ListOf(HOST_PORT_RANGE), 7),
    Field("hostPID", BOOL, 8),
    Field("hostIPC", BOOL, 9),
    Field("seLinux", SE_LINUX, 10, required=True),
    Field("runAsUser", RUN_AS_USER, 11, required=True),
    Field("runAsGroup", RUN_AS_GROUP, 22, pointer=True),
    Field("supplementalGroups", SUPPLEMENTAL_GROUPS, 12, required=True),
    Field("fsGroup", FS_GROUP, 13, required=True),
    Field("readOnlyRootFilesystem", BOOL, 14),
    Field("defaultAllowPrivilegeEscalation", BOOL, 15, pointer=True),
    Field("allowPrivilegeEscalation", BOOL, 16, pointer=True, default=True),
    Field("allowedHostPaths", ListOf(ALLOWED_HOST_PATH), 17),
    Field("allowedFlexVolumes", ListOf(ALLOWED_FLEX_VOLUME), 18),
    Field("allowedCSIDrivers", ListOf(ALLOWED_CSI_DRIVER), 23),
    Field("allowedUnsafeSysctls", STRINGS, 19),
    Field("forbiddenSysctls", STRINGS, 20),
    Field("allowedProcMountTypes", STRINGS, 21),
    Field("runtimeClass", RUNTIME_CLASS, 24, pointer=True),
)
POD_SECURITY_POLICY = Struct("policy.v1beta1.PodSecurityPolicy", METADATA, Field("spec", POLICY_SPEC, 2))


def _list_cell(part: str) -> Cell:
    return lambda stored, _: ",".join(stored["spec"].get(part, ()))


POLICY_COLUMNS: Final = (
    NAME,
    Column(
        "Priv",
        "string",
        "Whether containers may be privileged.",
        lambda stored, _: "true" if stored["spec"].get("privileged") else "false",
    ),
    Column("Caps", "string", "Capabilities that may be added.", _list_cell("allowedCapabilities")),
    Column("SELinux", "string", "Rule for SELinux labels.", at("spec", "seLinux", "rule")),
    Column("RunAsUser", "string", "Rule for users that containers run as.", at("spec", "runAsUser", "rule")),
    Column("FsGroup", "string", "Rule for groups that own volumes.", at("spec", "fsGroup", "rule")),
    Column("SupGroup", "string", "Rule for supplemental groups.", at("spec", "supplementalGroups", "rule")),
    Column(
        "ReadOnlyRootFs",
        "string",
        "Whether root file systems must be read-only.",
        at("spec", "readOnlyRootFilesystem", missing=False),
    ),
    Column("Volumes", "string", "Volume types that pods may use.", _list_cell("volumes")),
)


def define_policy(
    names: Names, features: frozenset[str] = frozenset(), rules: Rules = DOCUMENTED
) -> Definition:
    return Definition(
        group="policy",
        version="v1beta1",
        until="1.25",
        kind="PodSecurityPolicy",
        plural="podsecuritypolicies",
        names=DiscoveryNames(short_names=("psp",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=POD_SECURITY_POLICY,
        deprecation_warning=POLICY_DEPRECATED,
        on_by_default=rules.pod_security_policy == "served",
        deletion=Deletion(returns_object=True),
        table=Table(POLICY_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(drop_disabled_policy_fields, features),
            prepare_for_update=partial(drop_disabled_policy_fields, features),
            validate_create=partial(policy_rules, names=names),
            validate_update=partial(policy_update_rules, names=names),
        ),
    )


def drop_disabled_policy_fields(features: frozenset[str], new: Object, old: Object | None = None) -> None:
    before = {} if old is None else old["spec"]
    if PROC_MOUNT not in features and "allowedProcMountTypes" not in before:
        new["spec"].pop("allowedProcMountTypes", None)


def policy_update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    policy_rules(errors, new, names=names)


def policy_rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    spec = new["spec"]
    allowed, forbidden_ones = spec.get("allowedUnsafeSysctls", []), spec.get("forbiddenSysctls", [])
    _annotation_rules(errors, names, new["metadata"].get("annotations", {}))
    _run_as_rules(errors, spec)
    _volume_type_rules(errors, spec.get("volumes", []))
    _capability_rules(errors, spec)
    _escalation_rules(errors, spec)
    _proc_mount_rules(errors, spec.get("allowedProcMountTypes", []))
    _host_path_rules(errors, spec.get("allowedHostPaths", []))
    _driver_rules(errors, spec)
    sysctl_rules(errors, allowed, "spec.allowedUnsafeSysctls")
    sysctl_rules(errors, forbidden_ones, "spec.forbiddenSysctls")
    sysctl_overlap_rules(errors, allowed, forbidden_ones)
    _runtime_class_rules(errors, spec.get("runtimeClass"))


def _annotation_rules(errors: FieldErrors, names: Names, annotations: dict[str, str]) -> None:
    for module, stage in (("apparmor", "beta"), ("seccomp", "alpha")):
        default = names.key("defaultProfileName", f"{module}.security.{stage}")
        allowed = names.key("allowedProfileNames", f"{module}.security.{stage}")
        profile_rules = _apparmor_rules if module == "apparmor" else _seccomp_rules
        if annotations.get(default):
            profile_rules(
                errors, annotations[default], [annotations[default]], f"metadata.annotations[{default}]"
            )
        if annotations.get(allowed):
            profiles = annotations[allowed].split(",")
            if module == "seccomp":
                profiles = [one for one in profiles if one != POLICY_WILDCARD]
            profile_rules(errors, annotations[allowed], profiles, f"metadata.annotations[{allowed}]")


def _apparmor_rules(errors: FieldErrors, annotation: str, profiles: list[str], field: str) -> None:
    for one in profiles:
        if not is_apparmor_profile(one):
            errors.add(invalid(field, annotation, f"invalid AppArmor profile name: {quoted_start(one)}"))


def _seccomp_rules(errors: FieldErrors, _: str, profiles: list[str], field: str) -> None:
    for one in profiles:
        annotated_profile_rules(errors, one, field)


def _run_as_rules(errors: FieldErrors, spec: Object) -> None:
    user, group, linux = spec["runAsUser"], spec.get("runAsGroup"), spec["seLinux"]
    _strategy_rules(errors, user, USER_RULES, "spec.runAsUser")
    if group is not None:
        _run_as_group_rules(errors, group, "spec.runAsGroup")
    if linux["rule"] not in SE_LINUX_RULES:
        errors.add(not_supported("spec.seLinux.rule", linux["rule"], SE_LINUX_RULES))
    for part in ("supplementalGroups", "fsGroup"):
        _strategy_rules(errors, spec[part], GROUP_RULES, f"spec.{part}")


def _strategy_rules(errors: FieldErrors, strategy: Object, known: tuple[str, ...], field: str) -> None:
    rule = strategy.get("rule", "")
    if rule not in known:
        errors.add(not_supported(f"{field}.rule", rule, known))
    _range_rules(errors, strategy.get("ranges", []), f"{field}.ranges")


def _run_as_group_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    rule, ranges = strategy["rule"], strategy.get("ranges", [])
    if rule not in GROUP_RULES:
        errors.add(not_supported(f"{field}.rule", rule, ("MustRunAs", "RunAsAny", "MayRunAs")))
        return
    if rule == "RunAsAny":
        if ranges:
            errors.add(invalid(f"{field}.ranges", ranges, "Ranges must be empty"))
        return
    if not ranges:
        errors.add(invalid(f"{field}.ranges", ranges, "must provide at least one range"))
    else:
        _range_rules(errors, ranges, f"{field}.ranges")


def _range_rules(errors: FieldErrors, ranges: list[Object], field: str) -> None:
    for index, one in enumerate(ranges):
        here, low, high = f"{field}[{index}]", one["min"], one["max"]
        if low < 0:
            errors.add(invalid(f"{here}.min", low, "min cannot be negative"))
        if high < 0:
            errors.add(invalid(f"{here}.max", high, "max cannot be negative"))
        if low > high:
            errors.add(invalid(f"{here}.min", low, "min cannot be greater than max"))


def _volume_type_rules(errors: FieldErrors, volumes: list[str]) -> None:
    for one in volumes:
        if one not in POLICY_VOLUMES:
            errors.add(not_supported("spec.volumes", one, POLICY_VOLUMES))


def _capability_rules(errors: FieldErrors, spec: Object) -> None:
    """A capability that must be dropped can be neither added nor allowed."""
    dropped = spec.get("requiredDropCapabilities", [])
    all_dropped = set(dropped)
    if dropped and POLICY_WILDCARD in spec.get("allowedCapabilities", []):
        text = "must be empty when all capabilities are allowed by a wildcard"
        errors.add(invalid("requiredDropCapabilities", dropped, text))
    for part in ("defaultAddCapabilities", "allowedCapabilities"):
        text = f"capability is listed in {part} and requiredDropCapabilities"
        for one in spec.get(part, []):
            if one in all_dropped:
                errors.add(invalid(part, one, text))


def _escalation_rules(errors: FieldErrors, spec: Object) -> None:
    if not spec.get("defaultAllowPrivilegeEscalation") or spec["allowPrivilegeEscalation"]:
        return
    text = (
        "Cannot set DefaultAllowPrivilegeEscalation to true without also setting AllowPrivilegeEscalation "
        "to true"
    )
    errors.add(invalid("spec.defaultAllowPrivilegeEscalation", True, text))


def _proc_mount_rules(errors: FieldErrors, types: list[str]) -> None:
    for index, one in enumerate(types):
        if one not in PROC_MOUNT_TYPES:
            errors.add(not_supported(f"spec.allowedProcMountTypes[{index}]", one, PROC_MOUNT_TYPES))


def _host_path_rules(errors: FieldErrors, paths: list[Object]) -> None:
    for index, path in enumerate(paths):
        field, prefix = f"spec.allowedHostPaths[{index}]", path.get("pathPrefix", "")
        if not prefix:
            errors.add(required(field, "is required"))
            return
        if ".." in prefix.split("/"):
            errors.add(invalid(field, prefix, "must not contain '..'"))


def _driver_rules(errors: FieldErrors, spec: Object) -> None:
    """As in Kubernetes, the paths of errors name the list twice."""
    field = "spec.allowedFlexVolumes.allowedFlexVolumes"
    for index, one in enumerate(spec.get("allowedFlexVolumes", [])):
        if not one["driver"]:
            errors.add(required(f"{field}[{index}].driver", "must specify a driver"))
    for index, one in enumerate(spec.get("allowedCSIDrivers", [])):
        driver_name_rules(errors, one["name"], f"spec.allowedCSIDrivers.allowedCSIDriver[{index}].name")


def _runtime_class_rules(errors: FieldErrors, classes: Object | None) -> None:
    if classes is None:
        return
    field, allowed = "spec.runtimeClass.allowedRuntimeClassNames", classes["allowedRuntimeClassNames"] or []
    seen: set[str] = set()
    for index, name in enumerate(allowed):
        if name != POLICY_WILDCARD:
            errors.add_each(f"{field}[{index}]", name, dns_subdomain(name))
        if name in seen:
            errors.add(duplicate(f"{field}[{index}]", name))
        seen.add(name)
    default = classes.get("defaultRuntimeClassName")
    if default is not None:
        errors.add_each("spec.runtimeClass.defaultRuntimeClassName", default, dns_subdomain(default))
        if default not in allowed and POLICY_WILDCARD not in allowed:
            errors.add(required(field, f"default {quoted_start(default)} must be allowed"))
    if POLICY_WILDCARD in allowed and len(allowed) > 1:
        text = "if '*' is present, must not specify other RuntimeClass names"
        errors.add(invalid(field, allowed, text))


def declare(
    names: Names, features: frozenset[str] = frozenset(), rules: Rules = DOCUMENTED
) -> tuple[Definition, ...]:
    return define_budget(names), define_policy(names, features, rules)
