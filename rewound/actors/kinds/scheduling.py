"""The scheduling group: PriorityClass, which maps a name to the priority of pods; PodGroup, pods that are scheduled
together, and Workload, the templates of such groups.

The Workload of 1.35 (v1alpha1) has its groups inside, and no conversion to that of v1alpha2: it is a type of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Storage,
    Strategy,
    Table,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import CONDITION, METADATA, condition_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import BOOL, INT32, STRING, Before, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    too_many,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import GROUP_PREEMPTION

MAX_USER_PRIORITY: Final = 1_000_000_000
SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
POLICIES: Final = ("PreemptLowerPriority", "Never")

PRIORITY_CLASS = Struct(
    "scheduling.v1.PriorityClass",
    METADATA,
    Field("value", INT32, 2, always=True, before=(Before("1.36", required=True),)),
    Field("globalDefault", BOOL, 3),
    Field("description", STRING, 4),
    Field("preemptionPolicy", STRING, 5, pointer=True, default="PreemptLowerPriority"),
)


def declare(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    priority_class = Definition(
        group=names.group("scheduling"),
        version="v1",
        kind="PriorityClass",
        plural="priorityclasses",
        names=DiscoveryNames(short_names=("pc",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=PRIORITY_CLASS,
        deletion=Deletion(
            undeletable=dict.fromkeys(SYSTEM, "this is a system priority class and cannot be deleted")
        ),
        table=Table(
            (
                NAME,
                Column("Value", "integer", "Priority of pods of this class.", at("value", missing=0)),
                Column(
                    "Global-Default",
                    "boolean",
                    "Whether pods without a class get this one.",
                    at("globalDefault", missing=False),
                ),
                AGE,
                Column(
                    "PreemptionPolicy",
                    "string",
                    "Whether its pods may preempt others.",
                    at("preemptionPolicy"),
                    since="1.32",
                ),
            )
        ),
        strategy=Strategy(
            prepare_for_create=prepare_create,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )
    return (priority_class, *_workloads(names, features))


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1  # never increases, because value and preemptionPolicy are immutable


def rules(errors: FieldErrors, new: Object) -> None:
    if new["metadata"].get("name", "").startswith("system-"):
        why = _system_class_error(new)
        if why:
            text = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            )
            errors.add(forbidden("metadata.name", text))
    elif new["value"] > MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        errors.add(forbidden("value", text))
    _preemption_policy(errors, new.get("preemptionPolicy"))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    if new["value"] != old["value"]:
        errors.add(forbidden("value", "may not be changed in an update."))
    unchanged(errors, "preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def _system_class_error(new: Object) -> str:
    name = new["metadata"]["name"]
    if name not in SYSTEM:
        return f"{name} is not a known system priority class"
    if new["value"] != SYSTEM[name]:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if new.get("globalDefault") else ""


def _preemption_policy(errors: FieldErrors, policy: str | None) -> None:
    if policy is not None and policy not in POLICIES:
        errors.add(
            not_supported("preemptionPolicy", policy, POLICIES) if policy else required("preemptionPolicy")
        )


MAX_GROUPS, MAX_CLAIMS = 8, 4

GANG_POLICY = Struct(
    "scheduling.v1alpha2.GangSchedulingPolicy", Field("minCount", INT32, 1, required=True, always=True)
)
POLICY = Struct(
    "scheduling.v1alpha2.PodGroupSchedulingPolicy",
    Field("basic", Struct("scheduling.v1alpha2.BasicSchedulingPolicy"), 1, pointer=True),
    Field("gang", GANG_POLICY, 2, pointer=True),
)
CONTROLLER = Struct(
    "scheduling.v1alpha2.TypedLocalObjectReference",
    Field("apiGroup", STRING, 1),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
)
CONSTRAINTS = Struct(
    "scheduling.v1alpha2.PodGroupSchedulingConstraints",
    Field(
        "topology",
        ListOf(
            Struct(
                "scheduling.v1alpha2.TopologyConstraint", Field("key", STRING, 1, required=True, always=True)
            )
        ),
        1,
        list_type="atomic",
    ),
)
GROUP_CLAIM = Struct(
    "scheduling.v1alpha2.PodGroupResourceClaim",
    Field("name", STRING, 1, required=True, always=True),
    Field("resourceClaimName", STRING, 2, pointer=True),
    Field("resourceClaimTemplateName", STRING, 3, pointer=True),
)
_BY_NAME: Final[dict[str, Any]] = {
    "patch": "merge,retainKeys",
    "merge_key": "name",
    "list_type": "map",
    "list_keys": ("name",),
}
_CONSTRAINTS: Final = Field(
    "schedulingConstraints", CONSTRAINTS, 3, pointer=True, gate="TopologyAwareWorkloadScheduling"
)
_DISRUPTION: Final = Field("disruptionMode", STRING, 5, pointer=True, gate=GROUP_PREEMPTION)
_SCHEDULING: Final = Field("schedulingPolicy", POLICY, 2, required=True)
_GROUP_FIELDS: Final = (
    Field("resourceClaims", ListOf(GROUP_CLAIM), 4, gate="DRAWorkloadResourceClaims", **_BY_NAME),
    _DISRUPTION,
    Field("priorityClassName", STRING, 6, gate=GROUP_PREEMPTION),
    Field("priority", INT32, 7, pointer=True, gate=GROUP_PREEMPTION),
)
GROUP_TEMPLATE = Struct(
    "scheduling.v1alpha2.PodGroupTemplate",
    Field("name", STRING, 1, required=True, always=True),
    _SCHEDULING,
    replace(_CONSTRAINTS, always=True),
    *_GROUP_FIELDS,
)
WORKLOAD = Struct(
    "scheduling.v1alpha2.Workload",
    METADATA,
    Field(
        "spec",
        Struct(
            "scheduling.v1alpha2.WorkloadSpec",
            Field("controllerRef", CONTROLLER, 1, pointer=True),
            Field(
                "podGroupTemplates",
                ListOf(GROUP_TEMPLATE),
                2,
                required=True,
                always=True,
                list_type="map",
                list_keys=("name",),
            ),
        ),
        2,
        required=True,
    ),
)
TEMPLATE_REFERENCE = Struct(
    "scheduling.v1alpha2.PodGroupTemplateReference",
    Field(
        "workload",
        Struct(
            "scheduling.v1alpha2.WorkloadPodGroupTemplateReference",
            Field("workloadName", STRING, 1, required=True, always=True),
            Field("podGroupTemplateName", STRING, 2, required=True, always=True),
        ),
        1,
        pointer=True,
        always=True,
    ),
)
CLAIM_STATUS = Struct(
    "scheduling.v1alpha2.PodGroupResourceClaimStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("resourceClaimName", STRING, 2, pointer=True),
)
POD_GROUP_SPEC = Struct(
    "scheduling.v1alpha2.PodGroupSpec",
    Field("podGroupTemplateRef", TEMPLATE_REFERENCE, 1, pointer=True, always=True),
    _SCHEDULING,
    _CONSTRAINTS,
    *(replace(one, default="Pod", gate="") if one is _DISRUPTION else one for one in _GROUP_FIELDS),
)
POD_GROUP = Struct(
    "scheduling.v1alpha2.PodGroup",
    METADATA,
    Field("spec", POD_GROUP_SPEC, 2, required=True),
    Field(
        "status",
        Struct(
            "scheduling.v1alpha2.PodGroupStatus",
            Field(
                "conditions",
                ListOf(CONDITION),
                1,
                patch="merge",
                merge_key="type",
                list_type="map",
                list_keys=("type",),
            ),
            Field(
                "resourceClaimStatuses", ListOf(CLAIM_STATUS), 2, gate="DRAWorkloadResourceClaims", **_BY_NAME
            ),
        ),
        3,
    ),
)
OLD_GROUP = Struct(
    "scheduling.v1alpha1.PodGroup",
    Field("name", STRING, 1, required=True, always=True),
    Field(
        "policy",
        Struct(
            "scheduling.v1alpha1.PodGroupPolicy",
            Field("basic", Struct("scheduling.v1alpha1.BasicSchedulingPolicy"), 2, pointer=True),
            Field(
                "gang",
                Struct("scheduling.v1alpha1.GangSchedulingPolicy", *GANG_POLICY.fields),
                3,
                pointer=True,
            ),
        ),
        3,
        required=True,
    ),
)
OLD_WORKLOAD = Struct(
    "scheduling.v1alpha1.Workload",
    METADATA,
    Field(
        "spec",
        Struct(
            "scheduling.v1alpha1.WorkloadSpec",
            Field(
                "controllerRef",
                Struct("scheduling.v1alpha1.TypedLocalObjectReference", *CONTROLLER.fields),
                1,
                pointer=True,
            ),
            Field(
                "podGroups",
                ListOf(OLD_GROUP),
                2,
                required=True,
                always=True,
                list_type="map",
                list_keys=("name",),
            ),
        ),
        2,
        required=True,
    ),
)


def _workloads(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    group = names.group("scheduling")
    make = partial(
        Definition,
        group=group,
        namespaced=True,
        check_name=name_is_subdomain,
        gate="GenericWorkload",
        on_by_default=False,
    )
    workload = make(
        version="v1alpha2",
        kind="Workload",
        plural="workloads",
        fields=WORKLOAD,
        table=Table((NAME, AGE)),
        strategy=Strategy(validate_create=_workload_rules, validate_update=_workload_update_rules),
        since="1.36",
    )
    pod_group = make(
        version="v1alpha2",
        kind="PodGroup",
        plural="podgroups",
        fields=POD_GROUP,
        subresources=(status_subresource(_group_status_rules),),
        table=Table(
            (
                NAME,
                Column("Policy", "string", "How the pods of the group are scheduled.", _policy_cell),
                Column("Workload", "string", "Name of the referenced Workload object", _workload_cell),
                Column("Status", "string", "Status of the PodGroup", _group_state_cell),
                AGE,
            )
        ),
        strategy=Strategy(
            prepare_for_create=partial(_prepare_group, features),
            prepare_for_update=partial(_prepare_group_update, features),
            validate_create=_group_rules,
            validate_update=_group_update_rules,
        ),
        since="1.36",
    )
    old_workload = make(
        version="v1alpha1",
        kind="Workload",
        plural="workloads",
        fields=OLD_WORKLOAD,
        table=Table((NAME, AGE)),
        storage=Storage(type_name=f"workloads.v1alpha1.{group}", error_group=group),
        strategy=Strategy(validate_create=_old_rules, validate_update=_old_update_rules),
        since="1.35",
        until="1.35",
    )
    return workload, pod_group, old_workload


def _prepare_group(features: frozenset[str], new: Object) -> None:
    new["status"] = {}
    if GROUP_PREEMPTION not in features:
        new["spec"]["disruptionMode"] = "Pod"


def _prepare_group_update(features: frozenset[str], new: Object, old: Object) -> None:
    keep_status(new, old)
    if GROUP_PREEMPTION not in features:
        new["spec"] = {**new["spec"], "disruptionMode": old["spec"]["disruptionMode"]}


def _controller_rules(errors: FieldErrors, reference: Object | None) -> None:
    if reference is None:
        return
    group, field = reference.get("apiGroup", ""), "spec.controllerRef"
    if group:
        errors.add_each(f"{field}.apiGroup", group, dns_subdomain(group))
    for name in ("kind", "name"):
        value = reference[name]
        if not value:
            errors.add(required(f"{field}.{name}"))
        errors.add_each(f"{field}.{name}", value, name_is_path_segment(value, False))


def _name_rules(errors: FieldErrors, name: str, field: str, *, is_label: bool = True) -> None:
    if name:
        errors.add_each(field, name, (dns_label if is_label else dns_subdomain)(name))
    else:
        errors.add(required(field))


def _policy_rules(errors: FieldErrors, policy: Object, field: str) -> None:
    given = [name for name in ("basic", "gang") if name in policy]
    if not given:
        errors.add(invalid(field, "", "must specify one of: `basic`, `gang`"))
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        errors.add(invalid(field, shown, "must specify exactly one of: `basic`, `gang`"))
    count = policy.get("gang", {}).get("minCount")
    if count == 0:
        errors.add(required(f"{field}.gang.minCount"))
    elif count is not None and count < 1:
        errors.add(invalid(f"{field}.gang.minCount", count, "must be greater than or equal to 1"))


def _common_group_rules(errors: FieldErrors, group: Object, field: str) -> None:
    _policy_rules(errors, group["schedulingPolicy"], f"{field}.schedulingPolicy")
    topology = (group.get("schedulingConstraints") or {}).get("topology", ())
    if len(topology) > 1:
        errors.add(too_many(f"{field}.schedulingConstraints.topology", len(topology), 1))
    for index, one in enumerate(topology[:1]):
        errors.add_each(
            f"{field}.schedulingConstraints.topology[{index}].key", one["key"], qualified_name(one["key"])
        )
    _claim_rules(errors, group.get("resourceClaims", ()), f"{field}.resourceClaims")
    mode, priority_class = group.get("disruptionMode"), group.get("priorityClassName", "")
    if mode is not None and mode not in ("Pod", "PodGroup"):
        errors.add(not_supported(f"{field}.disruptionMode", mode, ("Pod", "PodGroup")))
    if priority_class:
        errors.add_each(f"{field}.priorityClassName", priority_class, dns_subdomain(priority_class))
    if group.get("priority", 0) > MAX_USER_PRIORITY:
        text = f"must be less than or equal to {MAX_USER_PRIORITY}"
        errors.add(invalid(f"{field}.priority", group["priority"], text))


def _claim_rules(errors: FieldErrors, claims: Sequence[Object], field: str) -> None:
    if len(claims) > MAX_CLAIMS:
        errors.add(too_many(field, len(claims), MAX_CLAIMS))
        return
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        here = f"{field}[{index}]"
        given = [name for name in sources if name in claim]
        if not given:
            errors.add(invalid(here, "", f"must specify one of: `{sources[0]}`, `{sources[1]}`"))
        elif len(given) > 1:
            text = f"must specify exactly one of: `{sources[0]}`, `{sources[1]}`"
            errors.add(invalid(here, f"{{{', '.join(given)}}}", text))
        _name_rules(errors, claim["name"], f"{here}.name")
        for name in sources:
            if name in claim:
                errors.add_each(f"{here}.{name}", claim[name], dns_subdomain(claim[name]))


def _workload_rules(errors: FieldErrors, new: Object) -> None:
    spec, field = new["spec"], "spec.podGroupTemplates"
    _controller_rules(errors, spec.get("controllerRef"))
    templates = spec["podGroupTemplates"] or ()
    if not templates:
        errors.add(required(field))
    elif len(templates) > MAX_GROUPS:
        errors.add(too_many(field, len(templates), MAX_GROUPS))
        return
    seen: set[str] = set()
    for index, one in enumerate(templates):
        if one["name"] in seen:
            errors.add(duplicate(f"{field}[{index}]", one))
        seen.add(one["name"])
    for index, one in enumerate(templates):
        _name_rules(errors, one["name"], f"{field}[{index}].name")
        _common_group_rules(errors, one, f"{field}[{index}]")


def _workload_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    spec, before = new["spec"], old["spec"]
    for name in ("controllerRef", "podGroupTemplates"):
        if spec.get(name) != before.get(name):
            errors.add(invalid(f"spec.{name}", None, IMMUTABLE))


def _group_rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    reference, field = spec.get("podGroupTemplateRef"), "spec.podGroupTemplateRef"
    if reference is not None:
        workload = reference.get("workload")
        if workload is None:
            errors.add(invalid(field, "", "must specify one of: `workload`"))
        else:
            _name_rules(errors, workload["workloadName"], f"{field}.workload.workloadName", is_label=False)
            _name_rules(errors, workload["podGroupTemplateName"], f"{field}.workload.podGroupTemplateName")
    _common_group_rules(errors, spec, "spec")


def _group_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for name in POD_GROUP_SPEC.by_name:
        if new["spec"].get(name) != old["spec"].get(name):
            errors.add(invalid(f"spec.{name}", None, IMMUTABLE))


def _group_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    condition_rules(errors, new["status"].get("conditions", ()), "status.conditions")
    known = {one["name"] for one in new["spec"].get("resourceClaims", ())}
    for index, one in enumerate(new["status"].get("resourceClaimStatuses", ())):
        if one["name"] not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.add(invalid(f"status.resourceClaimStatuses[{index}].name", one["name"], text))


def _old_rules(errors: FieldErrors, new: Object) -> None:
    spec, field = new["spec"], "spec.podGroups"
    _controller_rules(errors, spec.get("controllerRef"))
    groups = spec["podGroups"] or ()
    if not groups:
        errors.add(required(field, "must have at least one item"))
    elif len(groups) > MAX_GROUPS:
        errors.add(too_many(field, len(groups), MAX_GROUPS))
        return
    seen: set[str] = set()
    for index, one in enumerate(groups):
        here = f"{field}[{index}]"
        errors.add_each(f"{here}.name", one["name"], dns_label(one["name"]))
        if one["name"] in seen:
            errors.add(duplicate(f"{here}.name", one["name"]))
        seen.add(one["name"])
        _old_policy_rules(errors, one["policy"], f"{here}.policy")


def _old_policy_rules(errors: FieldErrors, policy: Object, field: str) -> None:
    text = "exactly one of `basic`, `gang` is required"
    if not policy:
        errors.add(required(field, text))
    elif len(policy) > 1:
        errors.add(invalid(field, "{`basic`, `gang`}", f"{text}, but multiple fields are set"))
    elif policy.get("gang", {"minCount": 1})["minCount"] <= 0:
        count = policy["gang"]["minCount"]
        errors.add(invalid(f"{field}.gang.minCount", count, "must be greater than zero"))


def _old_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    _old_rules(errors, new)
    spec, before = new["spec"], old["spec"]
    if "controllerRef" in before:
        unchanged(errors, "controllerRef", spec.get("controllerRef"), before["controllerRef"])
    unchanged(errors, "podGroups", spec["podGroups"], before["podGroups"])


def _policy_cell(group: Object, _: int) -> str:
    return "Gang" if "gang" in group["spec"]["schedulingPolicy"] else "Basic"


def _workload_cell(group: Object, _: int) -> str:
    workload = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    return str(workload["workloadName"]) if workload else NONE


def _group_state_cell(group: Object, _: int) -> str:
    conditions = {one["type"]: one for one in group["status"].get("conditions", ())}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"]["reason"])
    if "PodGroupScheduled" in conditions:
        return "Scheduled" if conditions["PodGroupScheduled"]["status"] == "True" else "Unschedulable"
    return "Pending"
