"""Pod: containers that run together on one node; with its status, its binding to a node and its eviction.

Almost nothing of the spec changes after creation, only images, a shorter deadline, more tolerations, and little else
(`spec_update_rules`): the `ephemeralcontainers` subresource adds containers for debugging, `binding` sets the node,
and `status` reports the state. A deleted pod on a node is removed when its grace period is over. In tables, the
Status column is one word that summarizes the states of the containers.

The address is in `podIP` and, as the first of the list, in `podIPs`; the old field takes precedence. The QoS class is
computed from the requests and limits of the containers. A Binding assigns a pod to a node; only the change to the pod
is stored.

An Eviction deletes a pod if the disruption budgets that select it allow that. `may_evict` is a pure function of a pod
and its budgets. The caller reads both, calls it, writes the new status of the budget, and only then deletes the pod;
after that write the budget counts the pod as disrupted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from rewound.actors.errors import Conflict, EvictionRefused, Forbidden, Resource, TooManyBudgets
from rewound.actors.golang.format import Formatted, format_labels, format_value
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.connect_options import connecting
from rewound.actors.kinds.core.containers import (
    CONTAINER,
    EPHEMERAL_CONTAINER,
    image_whitespace_rules,
    set_request_defaults,
)
from rewound.actors.kinds.core.pod_spec import (
    LONGEST_DEADLINE,
    NOTHING_ALLOWED,
    POD_SPEC,
    PREFERRED,
    REQUIRED,
    Allowed,
    PodKeys,
    SpecRules,
    added_toleration_rules,
    allowed_by,
    set_spec_defaults,
)
from rewound.actors.kinds.core.pod_template import (
    PodWarnings,
    apparmor_agreement_rules,
    apparmor_annotations,
    is_cost,
    pod_annotation_rules,
    pod_annotation_update_rules,
    seccomp_agreement_rules,
    tolerate_used_features,
    with_apparmor_profiles,
    with_profiles,
    without_disabled_fields,
)
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.core.resources import (
    RESOURCE_REQUIREMENTS,
    is_sidecar,
    nanos,
    set_pod_resource_defaults,
)
from rewound.actors.kinds.core.security_context import HIGHEST_ID, NOT_ON_WINDOWS
from rewound.actors.kinds.core.volume_sources import tokens_of
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Cell, Column, since
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Storage,
    Strategy,
    Subresource,
    Table,
)
from rewound.actors.kinds.declaration.meta import (
    METADATA,
    OBJECT_META,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    OPTIONAL_BEFORE_1_30,
    QUANTITIES,
    STRING,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import internal_difference
from rewound.actors.kinds.validation import (
    FieldErrors,
    between,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    ip_rules,
    ip_warnings,
    name_is_subdomain,
    not_supported,
    parse_ip,
    qualified_name,
    required,
    size,
    too_long,
    unchanged,
    undecided,
    wording,
)
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ADDRESSES_AND_NETWORKS,
    AFFINITY_LABEL_KEYS,
    APP_ARMOR_ANNOTATIONS,
    APP_ARMOR_FIELDS,
    CLAIMS_OF_STATIC_PODS,
    ENDED_IN_TABLES,
    ERRORS_IN_TABLES,
    EXPANDED_DNS,
    GATED_IN_TABLES,
    GATED_SINCE,
    HOST_NETWORK_SELECTED,
    JSON_IN_TEXTS,
    LIMIT_IN_TEXTS,
    NAMES_FOR_HOSTS,
    NOMINATION_ENDS,
    OBSERVED_GENERATION,
    OWNERS_OF_PARTS,
    POD_GENERATIONS,
    POD_LEVEL_HUGE_PAGES,
    POD_LEVEL_RESOURCES,
    QOS_KEPT,
    QOS_KEPT_IN_STATUS,
    RESIZE,
    RESIZE_BY_UPDATE,
    RESIZE_INIT,
    RESIZE_POD_LEVEL,
    RESIZE_TEXTS,
    RESTART_ALL,
    RESTART_RULES,
    SCHEDULING_WHILE_GATED,
    SECCOMP_FIELDS_ALONE,
    SIDECARS_IN_TABLES,
    SPREAD_LABEL_KEYS,
    SPREAD_SELECTOR_MERGE,
    TOPOLOGY_LABELS,
)

POD_CONDITION = Struct(
    "core.v1.PodCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("observedGeneration", INT64, 7, since="1.33", gate="PodObservedGenerationTracking"),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastProbeTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
POD_IP = Struct(
    "core.v1.PodIP",
    Field("ip", STRING, 1, required=True, always=True, before=OPTIONAL_BEFORE_1_30),
)
CONTAINER_STATE_WAITING = Struct(
    "core.v1.ContainerStateWaiting",
    Field("reason", STRING, 1),
    Field("message", STRING, 2),
)
CONTAINER_STATE_RUNNING = Struct(
    "core.v1.ContainerStateRunning",
    Field("startedAt", TIME, 1),
)
CONTAINER_STATE_TERMINATED = Struct(
    "core.v1.ContainerStateTerminated",
    Field("exitCode", INT32, 1, required=True, always=True),
    Field("signal", INT32, 2),
    Field("reason", STRING, 3),
    Field("message", STRING, 4),
    Field("startedAt", TIME, 5),
    Field("finishedAt", TIME, 6),
    Field("containerID", STRING, 7),
)
CONTAINER_STATE = Struct(
    "core.v1.ContainerState",
    Field("waiting", CONTAINER_STATE_WAITING, 1, pointer=True),
    Field("running", CONTAINER_STATE_RUNNING, 2, pointer=True),
    Field("terminated", CONTAINER_STATE_TERMINATED, 3, pointer=True),
)
RESOURCE_HEALTH = Struct(
    "core.v1.ResourceHealth",
    Field("resourceID", STRING, 1, required=True, always=True),
    Field("health", STRING, 2),
    Field("message", STRING, 6, pointer=True, since="1.36", gate="ResourceHealthStatusMessage"),
)
RESOURCE_STATUS = Struct(
    "core.v1.ResourceStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("resources", ListOf(RESOURCE_HEALTH), 2, list_type="map", list_keys=("resourceID",)),
)
LINUX_CONTAINER_USER = Struct(
    "core.v1.LinuxContainerUser",
    Field("uid", INT64, 1, required=True, always=True),
    Field("gid", INT64, 2, required=True, always=True),
    Field("supplementalGroups", ListOf(INT64), 3, list_type="atomic"),
)
CONTAINER_USER = Struct(
    "core.v1.ContainerUser",
    Field("linux", LINUX_CONTAINER_USER, 1, pointer=True),
)
IMAGE_VOLUME_STATUS = Struct(
    "core.v1.ImageVolumeStatus",
    Field("imageRef", STRING, 1, required=True),
)
VOLUME_STATUS = Struct(
    "core.v1.VolumeStatus",
    Field("image", IMAGE_VOLUME_STATUS, 1, pointer=True, gate="ImageVolumeWithDigest"),
)
VOLUME_MOUNT_STATUS = Struct(
    "core.v1.VolumeMountStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("mountPath", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
    Field("recursiveReadOnly", STRING, 4, pointer=True),
    Field("volumeStatus", VOLUME_STATUS, 5, pointer=True, since="1.36"),
)
CONTAINER_STATUS = Struct(
    "core.v1.ContainerStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("state", CONTAINER_STATE, 2),
    Field("lastState", CONTAINER_STATE, 3),
    Field("ready", BOOL, 4, required=True, always=True),
    Field("restartCount", INT32, 5, required=True, always=True),
    Field("image", STRING, 6, required=True, always=True),
    Field("imageID", STRING, 7, required=True, always=True),
    Field("containerID", STRING, 8),
    Field("started", BOOL, 9, pointer=True),
    Field("allocatedResources", QUANTITIES, 10, since="1.27", gate="InPlacePodVerticalScaling"),
    Field(
        "allocatedResourcesStatus",
        ListOf(RESOURCE_STATUS),
        14,
        patch="merge",
        merge_key="name",
        list_type="map",
        list_keys=("name",),
        since="1.31",
        gate="ResourceHealthStatus",
    ),
    Field(
        "resources", RESOURCE_REQUIREMENTS, 11, pointer=True, since="1.27", gate="InPlacePodVerticalScaling"
    ),
    Field("stopSignal", STRING, 15, pointer=True, since="1.33"),
    Field("user", CONTAINER_USER, 13, pointer=True, since="1.31", gate="SupplementalGroupsPolicy"),
    Field(
        "volumeMounts",
        ListOf(VOLUME_MOUNT_STATUS),
        12,
        patch="merge",
        merge_key="mountPath",
        list_type="map",
        list_keys=("mountPath",),
        since="1.30",
        gate="RecursiveReadOnlyMounts",
    ),
)
POD_RESOURCE_CLAIM_STATUS = Struct(
    "core.v1.PodResourceClaimStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("resourceClaimName", STRING, 2, pointer=True),
)
NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS = Struct(
    "core.v1.NodeAllocatableResourceClaimStatus",
    Field("resourceClaimName", STRING, 1, required=True, always=True),
    Field("containers", STRINGS, 2, list_type="set"),
    Field("resources", QUANTITIES, 3, required=True, always=True),
)
HOST_IP = Struct(
    "core.v1.HostIP",
    Field("ip", STRING, 1, required=True, always=True, before=OPTIONAL_BEFORE_1_30),
)
CONTAINER_EXTENDED_RESOURCE_REQUEST = Struct(
    "core.v1.ContainerExtendedResourceRequest",
    Field("containerName", STRING, 1, required=True, always=True),
    Field("resourceName", STRING, 2, required=True, always=True),
    Field("requestName", STRING, 3, required=True, always=True),
)
POD_EXTENDED_RESOURCE_CLAIM_STATUS = Struct(
    "core.v1.PodExtendedResourceClaimStatus",
    Field(
        "requestMappings",
        ListOf(CONTAINER_EXTENDED_RESOURCE_REQUEST),
        1,
        required=True,
        always=True,
        list_type="atomic",
    ),
    Field("resourceClaimName", STRING, 2, required=True, always=True),
)
POD_STATUS = Struct(
    "core.v1.PodStatus",
    Field("observedGeneration", INT64, 17, since="1.33", gate="PodObservedGenerationTracking"),
    Field("phase", STRING, 1, enum=("Failed", "Pending", "Running", "Succeeded", "Unknown")),
    Field(
        "conditions",
        ListOf(POD_CONDITION),
        2,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("message", STRING, 3),
    Field("reason", STRING, 4),
    Field("nominatedNodeName", STRING, 11),
    Field("hostIP", STRING, 5),
    Field(
        "hostIPs",
        ListOf(HOST_IP),
        16,
        patch="merge",
        merge_key="ip",
        list_type="atomic",
        since="1.28",
        gate="PodHostIPs",
    ),
    Field("podIP", STRING, 6),
    Field(
        "podIPs",
        ListOf(POD_IP),
        12,
        patch="merge",
        merge_key="ip",
        list_keys=("ip",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("startTime", TIME, 7, pointer=True),
    Field(
        "initContainerStatuses",
        ListOf(CONTAINER_STATUS),
        10,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "containerStatuses",
        ListOf(CONTAINER_STATUS),
        8,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("qosClass", STRING, 9, enum=("BestEffort", "Burstable", "Guaranteed")),
    Field(
        "ephemeralContainerStatuses",
        ListOf(CONTAINER_STATUS),
        13,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("allocatedResources", QUANTITIES, 19, since="1.35", gate="InPlacePodLevelResourcesVerticalScaling"),
    Field(
        "extendedResourceClaimStatus",
        POD_EXTENDED_RESOURCE_CLAIM_STATUS,
        18,
        pointer=True,
        since="1.34",
        gate="DRAExtendedResource",
    ),
    Field(
        "nodeAllocatableResourceClaimStatuses",
        ListOf(NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS),
        21,
        list_type="atomic",
        since="1.36",
        gate="DRANodeAllocatableResources",
    ),
    Field("resize", STRING, 14, since="1.27", gate="InPlacePodVerticalScaling"),
    Field(
        "resourceClaimStatuses",
        ListOf(POD_RESOURCE_CLAIM_STATUS),
        15,
        patch="merge,retainKeys",
        merge_key="name",
        list_type="map",
        list_keys=("name",),
        since="1.28",
        gate="DynamicResourceAllocation",
    ),
    Field(
        "resources",
        RESOURCE_REQUIREMENTS,
        20,
        pointer=True,
        since="1.35",
        gate="InPlacePodLevelResourcesVerticalScaling",
    ),
)

_OWN_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "Initialized"))


def set_status_defaults(pod: Object) -> None:
    status = pod["status"]
    first, addresses = status.get("podIP", ""), status.get("podIPs", [])
    if first and (not addresses or addresses[0].get("ip", "") != first):
        addresses = [{"ip": first}]
    if addresses and addresses[0].get("ip", "") != first:
        first = addresses[0].get("ip", "")
    if addresses:
        pod["status"] = POD_STATUS.arranged({**status, "podIP": first, "podIPs": addresses})


def _gated_status(status: Object, now: str | None) -> Object:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    return POD_STATUS.arranged({**status, "conditions": [condition]})


def with_old_generations(status: Object, old: Object) -> Object:
    """Return the status with observed generations of the old one where a client, perhaps an old one, sent none."""
    if "observedGeneration" in old and not status.get("observedGeneration"):
        status = POD_STATUS.arranged({**status, "observedGeneration": old["observedGeneration"]})
    before: dict[str, list[int]] = {}
    for one in old.get("conditions", ()):
        before.setdefault(one["type"], []).append(one.get("observedGeneration", 0))
    if not any(any(found) for found in before.values()) or "conditions" not in status:
        return status
    conditions = []
    for one in status["conditions"]:
        earlier = before.get(one["type"])
        generation = earlier.pop(0) if earlier else 0
        if generation and not one.get("observedGeneration"):
            one = POD_CONDITION.arranged({**one, "observedGeneration": generation})
        conditions.append(one)
    return {**status, "conditions": conditions}


def pod_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    status, before = new["status"], old["status"]
    _condition_rules(errors, status.get("conditions", ()))
    spec = new["spec"]
    if new["spec"].get("nodeName") != old["spec"].get("nodeName"):
        errors.add(forbidden("status.nodeName", "may not be changed directly"))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors.add_each("status.nominatedNodeName", nominated, dns_subdomain(nominated))
        if NOMINATION_ENDS in errors.features and old["spec"].get("nodeName"):
            text = "may not be set on pods that are already bound to a node"
            errors.add(forbidden("status.nominatedNodeName", text))
    if status.get("observedGeneration", 0) < 0:
        generation = status["observedGeneration"]
        errors.add(invalid("status.observedGeneration", generation, NOT_A_GENERATION))
    if QOS_KEPT_IN_STATUS in errors.features:
        unchanged(errors, "status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        _termination_rules(errors, status.get(part, ()), before.get(part, ()), old["spec"], part)
    if "resourceClaimStatuses" in status:
        _claim_status_rules(errors, status["resourceClaimStatuses"], spec.get("resourceClaims", []))
    if "extendedResourceClaimStatus" in status:
        _extended_claim_rules(errors, status["extendedResourceClaimStatus"], spec)
    _address_rules(errors, status, before, "podIPs")
    if status.get("hostIPs"):
        if status.get("hostIP", "") != status["hostIPs"][0]["ip"]:
            errors.add(
                invalid("status.hostIPs[0].ip", status["hostIPs"][0]["ip"], "must be equal to `hostIP`")
            )
        _address_rules(errors, status, before, "hostIPs")
    for part in _STATUSES:
        for index, one in enumerate(status.get(part, ())):
            if "user" in one:
                _user_rules(errors, one["user"], spec.get("os"), f"status.{part}[{index}].user.linux")
    for part, containers in _STATUSES.items():
        if any(one.get("allocatedResourcesStatus") for one in status.get(part, ())):
            named = {one["name"]: one for one in spec.get(containers) or ()} if containers else None
            for index, one in enumerate(status[part]):
                _health_rules(errors, one, named, f"status.{part}[{index}].allocatedResourcesStatus")


NOT_A_GENERATION: Final = "must be a non-negative integer"
# The statuses of containers, and the containers that may have resources.
_STATUSES: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "",
}


def _condition_rules(errors: FieldErrors, conditions: list[Object]) -> None:
    field = "status.conditions" if POD_GENERATIONS in errors.features else "metadata.conditions"
    for index, condition in enumerate(conditions):
        kind = condition["type"]
        if condition.get("observedGeneration", 0) < 0:
            generation = condition["observedGeneration"]
            errors.add(invalid(f"{field}[{index}].observedGeneration", generation, NOT_A_GENERATION))
        if kind not in _OWN_CONDITIONS:
            errors.add_each(f"{field}[{index}].Type", kind, qualified_name(kind))


def _claim_status_rules(errors: FieldErrors, statuses: list[Object], claims: list[Object]) -> None:
    names, seen = {claim["name"] for claim in claims}, set[str]()
    for index, status in enumerate(statuses):
        name, here = status["name"], f"status.resourceClaimStatuses[{index}]"
        if name not in names:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.add(invalid(f"{here}.name", name, text))
        if name in seen:
            errors.add(duplicate(f"{here}.name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors.add_each(f"{here}.resourceClaimName", claim, dns_subdomain(claim))


def _extended_claim_rules(errors: FieldErrors, status: Object, spec: Object) -> None:
    field, mappings = "status.extendedResourceClaimStatus", status["requestMappings"] or []
    containers = {
        one["name"]: one["resources"].get("requests", {})
        for part in ("initContainers", "containers")
        for one in spec.get(part) or ()
    }
    if not mappings:
        errors.add(required(f"{field}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, ...]] = set()
    for index, one in enumerate(mappings):
        here, key = f"{field}.requestMappings[{index}]", tuple(one[part] for part in _MAPPING)
        if one["containerName"] not in containers:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.add(invalid(f"{here}.containerName", one["containerName"], text))
        elif one["resourceName"] not in containers[one["containerName"]]:
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests "
                "or spec.containers.resources.requests"
            )
            errors.add(invalid(f"{here}.resourceName", one["resourceName"], text))
        errors.add_each(f"{field}.requestName", one["requestName"], dns_label(one["requestName"]))
        if key in seen:
            errors.add_all(duplicate(f"{here}.{part}", one[part]) for part in _MAPPING)
        seen.add(key)
    claim = status["resourceClaimName"]
    if claim:
        errors.add_each(f"{field}.resourceClaimName", claim, dns_subdomain(claim))
    else:
        errors.add(required(f"{field}.resourceClaimName"))


_MAPPING: Final = ("containerName", "resourceName", "requestName")


def _user_rules(errors: FieldErrors, user: Object, system: Object | None, field: str) -> None:
    linux = user.get("linux")
    if linux is None:
        return
    name = "linux" if system is None else system["name"]
    if name == "windows":
        errors.add(forbidden(field, NOT_ON_WINDOWS))
    elif name == "linux":
        for path, number in (
            ("uid", linux["uid"]),
            ("gid", linux["gid"]),
            *(
                (f"supplementalGroups[{at}]", one)
                for at, one in enumerate(linux.get("supplementalGroups", ()))
            ),
        ):
            if not 0 <= number <= HIGHEST_ID:
                errors.add(invalid(f"{field}.{path}", number, between(0, HIGHEST_ID)))


def _health_rules(
    errors: FieldErrors, status: Object, containers: dict[str, Object] | None, field: str
) -> None:
    if not status.get("allocatedResourcesStatus"):
        return
    if containers is None:
        errors.add(forbidden(field, "must not be specified in container status"))
        return
    container = containers.get(status["name"])
    for index, resource in enumerate(status["allocatedResourcesStatus"]):
        here, name = f"{field}[{index}]", resource["name"]
        if container is not None:
            _health_name_rules(errors, name, container["resources"], f"{here}.name")
        seen: set[str] = set()
        for place, one in enumerate(resource.get("resources", ())):
            path, health = f"{here}.resources[{place}]", one.get("health", "")
            if health not in HEALTHS:
                errors.add(not_supported(f"{path}.health", health, HEALTHS))
            message = one.get("message")
            if message is not None and not message:
                errors.add(required(f"{path}.message", "must be non-empty if specified"))
            elif message is not None and size(message) > LONGEST_HEALTH_MESSAGE:
                errors.add(too_long(f"{path}.message", LONGEST_HEALTH_MESSAGE))
            if one["resourceID"] in seen:
                errors.add(duplicate(f"{path}.resourceID", one["resourceID"]))
            seen.add(one["resourceID"])


HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
LONGEST_HEALTH_MESSAGE: Final = 1024


def _health_name_rules(errors: FieldErrors, name: str, resources: Object, field: str) -> None:
    if name.startswith("claim:"):
        text = (
            "must match one of the container's resource claims in a format "
            "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
        )
        known = {
            f"claim:{one['name']}/{one['request']}" if one.get("request") else f"claim:{one['name']}"
            for one in resources.get("claims", ())
        }
    else:
        text, known = "must match one of the container's resource requests", {*resources.get("requests", ())}
    if name not in known:
        errors.add(invalid(field, name, text))


def should_restart(container: Object | None, spec: Object, exit_code: int) -> bool:
    """Whether a container restarts after it exits: by its own rules, its own policy, or that of the pod."""
    if container is None:
        return False
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in container.get("restartPolicyRules", ()):
            codes = rule.get("exitCodes", {})
            if (exit_code in codes.get("values", ())) == (codes.get("operator") == "In"):
                return True
    return restarts(policy or spec.get("restartPolicy", "Always"), exit_code)


def restarts(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _termination_rules(
    errors: FieldErrors, new: list[Object], old: list[Object], spec: Object, part: str
) -> None:
    """A terminated container that must not restart stays terminated."""
    ephemeral, field = part == "ephemeralContainerStatuses", f"status.{part}"
    policy = "Never" if ephemeral else spec.get("restartPolicy", "")
    containers = {one["name"]: one for one in spec.get(_STATUSES[part]) or ()} if not ephemeral else {}
    if RESTART_RULES in errors.features and not ephemeral:
        _restart_transition_rules(errors, new, old, spec, containers, field)
        return
    if policy == "Always":
        return
    if part == "initContainerStatuses":
        old = [{**one, "state": {}} if is_sidecar(containers.get(one["name"], {})) else one for one in old]
    running = Counter(after["name"] for after in new if "terminated" not in after["state"])
    text = "may not be transitioned to non-terminated state"
    for index, before in enumerate(old):
        ended = before["state"].get("terminated")
        if ended is None or (ended["exitCode"] and policy == "OnFailure"):
            continue
        for _ in range(running[before["name"]]):
            errors.add(forbidden(f"{field}[{index}].state", text))


def _restart_transition_rules(
    errors: FieldErrors,
    new: list[Object],
    old: list[Object],
    spec: Object,
    containers: dict[str, Object],
    field: str,
) -> None:
    rules = (
        rule
        for part in ("initContainers", "containers")
        for one in spec.get(part) or ()
        for rule in one.get("restartPolicyRules", ())
    )
    if RESTART_ALL in errors.features and any(rule.get("action") == "RestartAllContainers" for rule in rules):
        return
    running = {after["name"] for after in new if "terminated" not in after["state"]}
    for index, before in enumerate(old):
        ended = before["state"].get("terminated")
        if ended is None or before["name"] not in running:
            continue
        if not should_restart(containers.get(before["name"]), spec, ended["exitCode"]):
            text = "may not be transitioned to non-terminated state"
            errors.add(forbidden(f"{field}[{index}].state", text))


def status_warnings(features: frozenset[str], new: Object, _: Object | None) -> list[str]:
    return [
        text
        for part in ("podIPs", "hostIPs")
        for index, one in enumerate(new["status"].get(part, ()))
        for text in ip_warnings(features, f"status.{part}[{index}].ip", one.get("ip", ""))
    ]


def _address_rules(errors: FieldErrors, status: Object, before: Object, part: str) -> None:
    addresses = status.get(part, [])
    field, texts = f"status.{part}", [one.get("ip", "") for one in addresses]
    later = ADDRESSES_AND_NETWORKS in errors.features
    kept = {one.get("ip", "") for one in before.get(part, ())}
    for index, text in enumerate(texts):
        ip_rules(errors, f"{field}[{index}]", text, kept)
    if len(texts) < 2:
        return
    families = {None if address is None else address.version for address in map(parse_ip, texts)}
    if None in families:
        errors.add(undecided(field, "failed to check for dual stack with error:ip <nil> is invalid"))
    if families != {4, 6} or len(texts) > 2:
        shown = Formatted(format_value(addresses), [{"IP": text} for text in texts])
        errors.add(invalid(field, shown, "may specify no more than one IP for each IP family"))
    seen: set[str] = set()
    for index, text in enumerate(() if later else texts):
        if text in seen:
            errors.add(duplicate(f"{field}[{index}]", addresses[index]))
        seen.add(text)


POD = Struct("core.v1.Pod", METADATA, Field("spec", POD_SPEC, 2), Field("status", POD_STATUS, 3))


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    pods = Pods(names, features)
    known = dict(SELECTOR_NAMES)
    selectable: dict[str, Callable[[Object], str]] = dict(SELECTABLE)
    if HOST_NETWORK_SELECTED in features:
        selectable["spec.hostNetwork"] = _host_network
        known["spec.hostNetwork"] = "spec.hostNetwork"
    return Definition(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        names=DiscoveryNames(short_names=("po",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=POD,
        set_defaults=pods.set_defaults,
        subresources=(
            connecting("attach", "PodAttachOptions"),
            binding(names, features),
            Subresource(
                name="ephemeralcontainers",
                prepare=pods.prepare_ephemeral_containers,
                validate=pods.ephemeral_container_rules,
            ),
            eviction(names),
            connecting("exec", "PodExecOptions"),
            Subresource(name="log", kind="Pod", verbs=("get",), forwarded=True),
            connecting("portforward", "PodPortForwardOptions"),
            connecting("proxy", "PodProxyOptions"),
            Subresource(
                name="resize",
                since="1.32",
                gate=RESIZE,
                prepare=pods.prepare_resize,
                validate=pods.resize_rules,
            ),
            Subresource(
                name="status",
                prepare=pods.prepare_status,
                validate=pods.status_rules,
                warnings=partial(status_warnings, features),
                reset_fields=("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
            ),
        ),
        deletion=Deletion(returns_object=True, grace_period=grace_period_seconds),
        selection=Selection(fields=selectable, stored_labels=known, own_label_conversion=True),
        table=Table(columns(features), row_conditions=row_conditions),
        strategy=Strategy(
            prepare_for_create=pods.prepare_create,
            prepare_for_update=pods.prepare_update,
            validate_create=pods.rules,
            validate_update=pods.update_rules,
            warnings=pods.warnings,
        ),
    )


def _text_at(section: str, part: str, stored: Object) -> str:
    return str(stored[section].get(part, ""))


def _host_network(stored: Object) -> str:
    return "true" if stored["spec"].get("hostNetwork") else "false"


_SELECTABLE_FIELDS: Final = (
    *(("spec", part) for part in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")),
    *(("status", part) for part in ("nominatedNodeName", "phase", "podIP")),
)
SELECTABLE: Final = {
    f"{section}.{part}": partial(_text_at, section, part) for section, part in _SELECTABLE_FIELDS
}
# Old clients select by spec.host; status.podIPs is a known label without a stored value.
SELECTOR_NAMES: Final = {
    **{label: label for label in SELECTABLE},
    "spec.host": "spec.nodeName",
    "status.podIPs": "status.podIPs",
}


class Pods:
    """Defaults and rules of pods in one dialect, with the enabled alpha `features`."""

    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        self._keys = PodKeys.of(names)
        self._rules = SpecRules(self._keys)
        self._warnings = PodWarnings(names, features)
        self._features = features

    def set_defaults(self, new: Object) -> None:
        set_own_defaults(new["spec"], self._features)
        if new["status"]:
            set_status_defaults(new)
        annotations = new["metadata"].get("annotations", {})
        for key in self._keys.dropped.intersection(annotations):
            del annotations[key]

    def prepare_create(self, new: Object) -> None:
        spec, features, metadata = new["spec"], self._features, new["metadata"]
        annotations = metadata.get("annotations", {})
        if POD_GENERATIONS in features:
            metadata["generation"] = 1
        new["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        spec = without_disabled_fields(spec, None, features)
        if SECCOMP_FIELDS_ALONE not in features:
            spec = with_profiles(spec, annotations, self._keys)
        elif annotations and APP_ARMOR_FIELDS in features:
            spec = with_apparmor_profiles(spec, annotations, self._keys)
        if APP_ARMOR_ANNOTATIONS in features and APP_ARMOR_FIELDS in features:
            added = apparmor_annotations(spec, annotations, self._keys)
            if added:
                metadata["annotations"] = dict(sorted({**annotations, **added}.items()))
        if spec.get("schedulingGates"):
            since = metadata["creationTimestamp"] if GATED_SINCE in features else None
            new["status"] = _gated_status(new["status"], since)
        new["spec"] = with_merged_label_keys(spec, metadata.get("labels", {}), features)

    def prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = old["status"]
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)
        self._count_generation(new, old)

    def _count_generation(self, new: Object, old: Object) -> None:
        if POD_GENERATIONS in self._features and new["spec"] != old["spec"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_resize(self, new: Object, old: Object) -> None:
        """Keep the old pod except for the resources and resize policies of its containers."""
        spec = _with_resized_containers(old["spec"], new["spec"])
        if spec is not None:
            if RESIZE_POD_LEVEL in self._features:
                spec.pop("resources", None)
                if "resources" in new["spec"]:
                    spec["resources"] = new["spec"]["resources"]
            new["spec"] = POD_SPEC.arranged(spec)
            new["status"] = old["status"]
            new["metadata"] = self._kept_metadata(new, old)
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)
        self._count_generation(new, old)

    def prepare_status(self, new: Object, old: Object) -> None:
        prepare_status(new, old)
        had_class = QOS_KEPT_IN_STATUS in self._features and "qosClass" in old["status"]
        if had_class and not new["status"].get("qosClass"):
            new["status"] = POD_STATUS.arranged({**new["status"], "qosClass": old["status"]["qosClass"]})
        if POD_GENERATIONS in self._features:
            new["status"] = with_old_generations(new["status"], old["status"])

    def prepare_ephemeral_containers(self, new: Object, old: Object) -> None:
        """Keep the old pod except for its ephemeral containers, which the client sent."""
        added = new["spec"].get("ephemeralContainers")
        spec = {part: value for part, value in old["spec"].items() if part != "ephemeralContainers"}
        if added:
            spec["ephemeralContainers"] = added
        metadata = self._kept_metadata(new, old)
        new.clear()
        new.update({**old, "metadata": metadata, "spec": POD_SPEC.arranged(spec)})
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)
        self._count_generation(new, old)

    def _kept_metadata(self, new: Object, old: Object) -> Object:
        """Return the old metadata; in later versions with the owners of what the client changed."""
        metadata = dict(old["metadata"])
        if OWNERS_OF_PARTS in self._features:
            metadata.pop("managedFields", None)
            if "managedFields" in new["metadata"]:
                metadata["managedFields"] = new["metadata"]["managedFields"]
        return metadata

    def rules(self, errors: FieldErrors, new: Object) -> None:
        spec, annotations = new["spec"], new["metadata"].get("annotations", {})
        self._pod_rules(errors, new, self._allowed_on_create())
        if "ephemeralContainers" in spec:
            errors.add(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            text = "cannot be set until all schedulingGates have been cleared"
            errors.add(forbidden("spec.nodeName", text))
        seccomp_agreement_rules(errors, annotations, spec, "spec", self._keys)
        if APP_ARMOR_FIELDS in self._features:
            apparmor_agreement_rules(errors, annotations, spec, "spec", self._keys)

    def update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        self._update_rules(errors, new, old)
        spec_update_rules(errors, new, old)

    def resize_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        tolerate_used_features(errors, new["spec"], old["spec"])
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        self._pod_rules(errors, new, self._allowed_on_update(new, old))
        pod_resize_rules(errors, new, old, self._keys.mirror)

    def ephemeral_container_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        part = "ephemeralContainers"
        self._update_rules(errors, new, old)
        added_container_rules(errors, new["spec"].get(part, []), old["spec"].get(part, []))

    def status_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self._annotation_update_rules(errors, new, old, self._allowed_on_update(new, old))
        pod_status_update_rules(errors, new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Warn on create only: controllers make the later updates, and ignore warnings."""
        if old is not None:
            return []
        wrong = dns_label(new["metadata"]["name"]) if NAMES_FOR_HOSTS in self._features else []
        if not wrong:
            return self._warnings.of(new)
        texts = " ".join(wording(one, self._features) for one in wrong)
        return [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{texts}]",
            *self._warnings.of(new),
        ]

    def _update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        allowed = self._allowed_on_update(new, old)
        tolerate_used_features(errors, new["spec"], old["spec"])
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        self._pod_rules(errors, new, allowed)
        self._annotation_update_rules(errors, new, old, allowed)

    def _pod_rules(self, errors: FieldErrors, pod: Object, allowed: Allowed) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self._annotation_rules(errors, pod, allowed)
        is_static = self._keys.mirror in metadata.get("annotations", ())
        if "resourceClaims" in spec and is_static and CLAIMS_OF_STATIC_PODS in errors.features:
            errors.add(forbidden("", "static pods do not support resource claims"))
        self._rules.validate(errors, spec, "spec", metadata.get("name", ""), allowed, of_pod=True)
        if not spec.get("serviceAccountName"):
            text = "must not be specified when serviceAccountName is not set"
            tokens = tokens_of(spec.get("volumes", []), "spec.volumes")
            for path, _ in tokens:
                errors.add(forbidden(path, text))
        for part in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(part) or ()):
                image = container.get("image", "")
                if image != image.strip():
                    image_whitespace_rules(errors, container, f"spec.{part}[{index}]")

    def _annotation_rules(self, errors: FieldErrors, pod: Object, allowed: Allowed) -> None:
        annotations = pod["metadata"].get("annotations", {})
        pod_annotation_rules(
            errors,
            annotations,
            pod["spec"],
            "metadata.annotations",
            self._keys,
            any_cost=allowed.any_deletion_cost,
        )

    def _annotation_update_rules(
        self, errors: FieldErrors, new: Object, old: Object, allowed: Allowed
    ) -> None:
        now, before = (pod["metadata"].get("annotations", {}) for pod in (new, old))
        pod_annotation_update_rules(errors, now, before, "metadata.annotations", self._keys)
        self._annotation_rules(errors, new, allowed)

    def _allowed_on_create(self) -> Allowed:
        return NOTHING_ALLOWED if EXPANDED_DNS not in self._features else Allowed(expanded_dns=True)

    def _allowed_on_update(self, new: Object, old: Object) -> Allowed:
        """Return the invalid values of the old pod that the update may keep."""
        cost = old["metadata"].get("annotations", {}).get(self._keys.deletion_cost)
        allowed = allowed_by(new["spec"], old["spec"])
        return replace(
            allowed,
            expanded_dns=allowed.expanded_dns or EXPANDED_DNS in self._features,
            any_deletion_cost=cost is not None and not is_cost(cost),
        )


_FIELDS: Final = [field.name for field in POD_SPEC.fields]
_AFTER_SERVICE_LINKS: Final = tuple(_FIELDS[_FIELDS.index("enableServiceLinks") + 1 :])


def set_own_defaults(spec: Object, features: frozenset[str] = frozenset()) -> None:
    """Set the defaults that a pod has in addition to those of a template."""
    if "enableServiceLinks" not in spec:
        _set_in_order(spec, "enableServiceLinks", True)
    set_spec_defaults(spec, features, of_pod=True)
    set_request_defaults(spec["containers"] or [])
    set_request_defaults(spec.get("initContainers", []))
    if "resources" in spec and POD_LEVEL_RESOURCES in features:
        set_pod_resource_defaults(spec, huge_pages=POD_LEVEL_HUGE_PAGES in features)


def _set_in_order(spec: Object, part: str, value: Any) -> None:
    spec[part] = value
    for later in _AFTER_SERVICE_LINKS:
        if later in spec:
            spec[later] = spec.pop(later)


def with_merged_label_keys(spec: Object, labels: dict[str, str], features: frozenset[str]) -> Object:
    """Return the spec with selectors that contain the pod's own labels of matchLabelKeys and mismatchLabelKeys."""
    affinity = spec.get("affinity")
    if affinity and AFFINITY_LABEL_KEYS in features:
        merged = {
            part: _with_merged_terms(value, labels) if part != "nodeAffinity" else value
            for part, value in affinity.items()
        }
        spec = {**spec, "affinity": merged} if merged != affinity else spec
    constraints = spec.get("topologySpreadConstraints")
    if constraints and SPREAD_LABEL_KEYS in features and SPREAD_SELECTOR_MERGE in features:
        spec = {**spec, "topologySpreadConstraints": [_with_merged_keys(one, labels) for one in constraints]}
    return spec


def _with_merged_terms(affinity: Object, labels: dict[str, str]) -> Object:
    merged = dict(affinity)
    if REQUIRED in affinity:
        merged[REQUIRED] = [_with_merged_keys(term, labels) for term in affinity[REQUIRED]]
    if PREFERRED in affinity:
        merged[PREFERRED] = [
            {**one, "podAffinityTerm": _with_merged_keys(one["podAffinityTerm"], labels)}
            for one in affinity[PREFERRED]
        ]
    return merged


def _with_merged_keys(term: Object, labels: dict[str, str]) -> Object:
    selector = term.get("labelSelector")
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for part, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(part, ())
        if key in labels
    ]
    if selector is None or not added:
        return term
    return {
        **term,
        "labelSelector": {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *added]},
    }


def prepare_status(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]
    # Old kubelets send invalid owner references.
    new["metadata"].pop("ownerReferences", None)
    if "ownerReferences" in old["metadata"]:
        new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]


def grace_period_seconds(stored: Object, requested: int | None) -> int:
    """Return the seconds until a deleted pod is removed; 0 for a pod that has no node or has terminated."""
    if not stored["spec"].get("nodeName") or stored["status"].get("phase") in ("Failed", "Succeeded"):
        return 0
    seconds: int = stored["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
    return 1 if seconds < 0 else seconds


MUTABLE_FIELDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "
    "`spec.tolerations` (only additions to existing tolerations) or "
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_CONTAINERS: Final = ("containers", "initContainers")


def spec_update_rules(errors: FieldErrors, new_pod: Object, old_pod: Object) -> None:
    """Validate the change between two specs of one pod."""
    new, old = new_pod["spec"], old_pod["spec"]
    for part in _CONTAINERS:
        now, before, field = new.get(part) or [], old.get(part) or [], f"spec.{part}"
        if len(now) != len(before):
            errors.add(forbidden(field, "pod updates may not add or remove containers"))
            return
        for index, container in enumerate(now):
            if not container.get("image"):
                errors.add(required(f"{field}[{index}].image"))
            image_whitespace_rules(errors, container, f"{field}[{index}]")
    deadline, old_deadline = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if errors.added_by(_deadline_rules, deadline, old_deadline) and "activeDeadlineSeconds" in new:
        return
    added_toleration_rules(errors, new.get("tolerations", []), old.get("tolerations", []), "spec.tolerations")
    gates, gates_before = new.get("schedulingGates", []), old.get("schedulingGates", [])
    removed_gate_rules(errors, gates, gates_before, "spec.schedulingGates")
    if new == old:
        return
    features = errors.features
    if QOS_KEPT in features and qos_class(new) != (old_pod["status"].get("qosClass") or qos_class(old)):
        errors.add(invalid("metadata", new_pod["status"].get("qosClass", ""), "Pod QoS is immutable"))
    wanted = _with_mutable_fields_of(old, new)
    if gates_before and SCHEDULING_WHILE_GATED in features:
        _narrowing_rules(errors, wanted, old)
    if RESIZE in features and RESIZE_BY_UPDATE in features:
        wanted["containers"] = [
            _with_amounts_of(before, after)
            for after, before in zip(wanted["containers"] or (), old["containers"] or (), strict=True)
        ]
    if wanted != old:
        text = _mutable_fields_text(features)
        errors.add(forbidden("spec", text + _difference(features, POD_SPEC, old, wanted, "spec")))


def _mutable_fields_text(features: frozenset[str]) -> str:
    if LIMIT_IN_TEXTS not in features:
        return MUTABLE_FIELDS
    fields = [
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    ]
    if RESIZE in features and RESIZE_BY_UPDATE in features:
        fields.append("`spec.containers[*].resources` (for CPU/memory only)")
    return f"pod updates may not change fields other than {','.join(fields)}\n"


def removed_gate_rules(errors: FieldErrors, new: list[Object], old: list[Object], field: str) -> None:
    """An update may remove scheduling gates, but not add any."""
    before = {gate["name"] for gate in old}
    added = {gate["name"]: index for index, gate in enumerate(new) if gate["name"] not in before}
    for name, index in added.items():
        text = f"only deletion is allowed, but found new scheduling gate '{name}'"
        errors.add(forbidden(f"{field}[{index}].name", text))


def _narrowing_rules(errors: FieldErrors, wanted: Object, old: Object) -> None:
    """Where a gated pod may run can only become less: check that, and set it to the old values in `wanted`."""
    part, selector, before = "nodeSelector", wanted.get("nodeSelector", {}), old.get("nodeSelector", {})
    if selector != before:
        if not before.items() <= selector.items():
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.add(invalid("spec.nodeSelector", format_labels(selector or None), text))
        wanted.pop(part, None)
        if part in old:
            wanted[part] = old[part]
    affinity, old_affinity = wanted.get("affinity"), old.get("affinity")
    after, before = (affinity or {}).get("nodeAffinity"), (old_affinity or {}).get("nodeAffinity")
    if after == before:
        return
    _affinity_narrowing_rules(errors, after or {}, before or {})
    kept = {name: value for name, value in (affinity or {}).items() if name != "nodeAffinity"}
    if before is not None:
        kept = {"nodeAffinity": before, **kept}
    if kept or old_affinity is not None:
        wanted["affinity"] = kept
    else:
        wanted.pop("affinity", None)


def _affinity_narrowing_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    field = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    before = old.get(REQUIRED, {}).get("nodeSelectorTerms") or []
    after = new.get(REQUIRED, {}).get("nodeSelectorTerms") or []
    if before and len(before) != len(after):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.add(invalid(field, after, text))
        return
    for index, (term, earlier) in enumerate(zip(after, before, strict=False)):
        parts = ("matchExpressions", "matchFields")
        if not any(part in earlier for part in parts):
            only_adds = not any(part in term for part in parts)
        else:
            only_adds = all(
                term.get(part, [])[: len(earlier.get(part, []))] == earlier.get(part, []) for part in parts
            )
        if not only_adds:
            text = "only additions are allowed (no mutations or deletions)"
            errors.add(invalid(f"{field}[{index}]", term, text))


def _with_resized_containers(old: Object, new: Object) -> Object | None:
    """Return the old spec with the new resources of its containers; None if other containers were sent."""
    if any(len(new.get(part) or ()) != len(old.get(part) or ()) for part in _CONTAINERS):
        return None
    spec = dict(old)
    for part in _CONTAINERS:
        if not new.get(part):
            continue
        pairs = list(zip(new[part], old[part], strict=True))
        if any(after["name"] != before["name"] for after, before in pairs):
            spec[part] = new[part]
        else:
            spec[part] = [_with_resources_of(after, before) for after, before in pairs]
    return spec


def _with_resources_of(new: Object, old: Object) -> Object:
    kept = {part: value for part, value in old.items() if part not in ("resources", "resizePolicy")}
    return CONTAINER.arranged(
        {**kept, **{part: new[part] for part in ("resources", "resizePolicy") if part in new}}
    )


def pod_resize_rules(errors: FieldErrors, new: Object, old: Object, mirror: str) -> None:
    """Validate the change of resources by a resize; only cpu and memory may change."""
    spec, before = new["spec"], old["spec"]
    if mirror in old["metadata"].get("annotations", ()):
        errors.found[:] = [forbidden("", "static pods cannot be resized")]
        return
    if before.get("os", {}).get("name") == "windows":
        errors.found[:] = [forbidden("", "windows pods cannot be resized")]
        return
    if (old["status"].get("qosClass") or qos_class(before)) != qos_class(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        errors.add(invalid("spec", new["status"].get("qosClass", ""), text))
    if not _node_can_resize(old["status"]):
        errors.add(forbidden("spec", "Pod running on node without support for resize"))
    wanted = dict(spec)
    if _has_pod_resources(before) or _has_pod_resources(spec):
        if RESIZE_POD_LEVEL not in errors.features:
            text = (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
            errors.add(forbidden("", text if RESIZE_TEXTS in errors.features else _NO_POD_LEVEL_RESIZE))
            return
        _pod_level_resize_rules(errors, wanted, before)
    if old["status"].get("nodeAllocatableResourceClaimStatuses"):
        text = "pods with node allocatable resource claims cannot be resized"
        errors.add(forbidden("spec", text))
    if errors.added_by(_same_container_rules, spec, before):
        return
    _resized_container_rules(errors, wanted, before)
    if not errors.found and wanted != before:
        errors.add(forbidden("spec", "only cpu and memory resources are mutable"))


_NO_POD_LEVEL_RESIZE: Final = "pods with pod-level resources cannot be resized"


def _node_can_resize(status: Object) -> bool:
    for one in status.get("containerStatuses", ()):
        if "running" in one["state"]:
            return "resources" in one
    return True


def _has_pod_resources(spec: Object) -> bool:
    resources = spec.get("resources", {})
    return bool(resources.get("requests") or resources.get("limits"))


def _pod_level_resize_rules(errors: FieldErrors, wanted: Object, before: Object) -> None:
    old = before.get("resources")
    if old is not None and "resources" not in wanted:
        errors.add(forbidden("spec.resources", "pod-level resources cannot be removed"))
        return
    for part in ("requests", "limits"):
        if old is not None and not old.get(part, {}).keys() <= wanted["resources"].get(part, {}).keys():
            text = f"pod-level resource {part} cannot be removed"
            errors.add(forbidden(f"spec.resources.{part}", text))
    resources = _amounts_of(old or {}, wanted["resources"])
    if "claims" in wanted["resources"]:
        resources["claims"] = wanted["resources"]["claims"]
    wanted["resources"] = resources
    if old is None and not resources:
        del wanted["resources"]
    if wanted.get("resources") != old:
        errors.add(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))


def _same_container_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    for part in _CONTAINERS:
        after, before = new.get(part) or (), old.get(part) or ()
        if len(after) != len(before):
            errors.add(forbidden(f"spec.{part}", f"{part} may not be added or removed on resize"))
            continue
        for index, (one, other) in enumerate(zip(after, before, strict=True)):
            if one["name"] != other["name"]:
                text = f"{part} may not be renamed or reordered on resize"
                errors.add(forbidden(f"spec.{part}[{index}].name", text))


def _resized_container_rules(errors: FieldErrors, wanted: Object, old: Object) -> None:
    any_init = RESIZE_INIT in errors.features
    for part in ("initContainers", "containers"):
        for index, before in enumerate(old.get(part) or ()):
            if part == "containers" or any_init or is_sidecar(before):
                here = f"spec.{part}[{index}].resources"
                _kept_amount_rules(errors, wanted[part][index]["resources"], before["resources"], here)
    resized = []
    for after, before in zip(wanted["containers"] or (), old["containers"] or (), strict=True):
        resized.append(_with_amounts_of(before, after))
        if resized[-1] != before:
            errors.add(forbidden("spec", "only cpu and memory resources are mutable"))
    wanted["containers"] = resized
    if not wanted.get("initContainers"):
        return
    resized = []
    for index, (after, before) in enumerate(
        zip(wanted["initContainers"], old["initContainers"], strict=True)
    ):
        resized.append(
            _resized_init_container(errors, after, before, f"spec.initContainers[{index}]", any_init)
        )
    wanted["initContainers"] = resized


def _resized_init_container(
    errors: FieldErrors, after: Object, before: Object, field: str, any_init: bool
) -> Object:
    sidecar = is_sidecar(after)
    if not sidecar and not any_init:
        if after != before:
            errors.add(forbidden("spec", "resources for non-sidecar init containers are immutable"))
        return after
    resized = _with_amounts_of(before, after)
    if resized != before:
        if any_init:
            text = "only cpu and memory resources for init or sidecar containers are mutable"
            errors.add(forbidden(field, text))
        else:
            text = "only cpu and memory resources for sidecar containers are mutable"
            errors.add(forbidden("spec", text))
    if after != before and not sidecar:
        for policy in resized.get("resizePolicy", ()):
            if policy["restartPolicy"] == "RestartContainer":
                text = (
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                )
                errors.add(forbidden(field, text))
    return resized


def _kept_amount_rules(errors: FieldErrors, new: Object, old: Object, field: str) -> None:
    for part in ("requests", "limits"):
        if not old.get(part, {}).keys() <= new.get(part, {}).keys():
            errors.add(forbidden(f"{field}.{part}", f"resource {part} cannot be removed"))


def _with_amounts_of(old: Object, new: Object) -> Object:
    """Return the new container with the old amounts of cpu and memory."""
    return {**new, "resources": _amounts_of(old["resources"], new["resources"])}


def _amounts_of(old: Object, new: Object) -> Object:
    resources: Object = {}
    for part in ("limits", "requests"):
        before, after = old.get(part, {}), new.get(part, {})
        amounts = {name: amount for name, amount in after.items() if name not in QOS_RESOURCES}
        amounts |= {name: before[name] for name in QOS_RESOURCES if name in before}
        if amounts:
            resources[part] = dict(sorted(_in_old_units(before, amounts).items()))
    return resources


def _deadline_rules(errors: FieldErrors, new: int | None, old: int | None) -> None:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        text = "must not update from a positive integer to nil value"
        if old is not None:
            errors.add(invalid(field, None, text))
        return
    if not 0 <= new <= LONGEST_DEADLINE:
        errors.add(invalid(field, new, between(0, LONGEST_DEADLINE)))
        return
    if old is not None and new > old:
        errors.add(invalid(field, new, "must be less than or equal to previous value"))


def _with_mutable_fields_of(old: Object, new: Object) -> Object:
    """Return the new spec with every mutable field set to its old value."""
    wanted = dict(new)
    for part in _CONTAINERS:
        if wanted.get(part):
            pairs = zip(wanted[part], old[part], strict=True)
            wanted[part] = [_with_image_of(before, container) for container, before in pairs]
    for part in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        wanted.pop(part, None)
        if part in old:
            wanted[part] = old[part]
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and wanted.get(grace) == 1:
        wanted[grace] = old[grace]
    return wanted


def _with_image_of(old: Object, new: Object) -> Object:
    wanted = {**new, "image": old["image"]} if "image" in old else dict(new)
    if wanted["resources"] != old["resources"]:
        wanted["resources"] = {
            part: amounts if part == "claims" else _in_old_units(old["resources"].get(part, {}), amounts)
            for part, amounts in wanted["resources"].items()
        }
    return wanted


def _in_old_units(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Return the new amounts, in the old units where they are equal."""
    return {
        name: old[name] if name in old and nanos(old[name]) == nanos(amount) else amount
        for name, amount in new.items()
    }


def added_container_rules(errors: FieldErrors, new: list[Object], old: list[Object]) -> None:
    """Ephemeral containers cannot be changed or removed."""
    field, by_name = "spec.ephemeralContainers", {one["name"]: one for one in new}
    for before in old:
        name, after = quoted_start(before["name"]), by_name.get(before["name"])
        if after is None:
            errors.add(forbidden(field, f"existing ephemeral containers {name} may not be removed\n"))
        elif after != before:
            text = f"existing ephemeral containers {name} may not be changed\n"
            text += _difference(errors.features, EPHEMERAL_CONTAINER, before, after, field)
            errors.add(forbidden(field, text))


MAX_LINES: Final = 40  # enough for a message
LONGEST_VALUE: Final = 200


def _difference(features: frozenset[str], struct: Struct, old: Any, new: Any, field: str) -> str:
    later = internal_difference(struct, old, new) if JSON_IN_TEXTS in features else ""
    return later or differences(old, new, field)


def differences(old: Any, new: Any, field: str) -> str:
    lines = list(islice(_difference_lines(old, new, field), MAX_LINES + 1))
    if len(lines) > MAX_LINES:
        lines[-1] = "  ..."
    return "".join(f"{line}\n" for line in lines)


def _difference_lines(old: Any, new: Any, field: str) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _difference_lines(old.get(name), new.get(name), f"{field}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _difference_lines(before, after, f"{field}[{index}]")
    else:
        if old is not None:
            yield f"- {field}: {_encoded_value(old)}"
        if new is not None:
            yield f"+ {field}: {_encoded_value(new)}"


def _encoded_value(value: Any) -> str:
    text = unescaped(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


QOS_RESOURCES: Final = ("cpu", "memory")
_EMPTY: Final[dict[str, str]] = {}


def qos_class(spec: Object) -> str:
    """Guaranteed if all containers have limits equal to requests, BestEffort if none has any, otherwise Burstable."""
    if "resources" in spec:
        return _pod_level_class(spec["resources"])
    has_resources = False
    guaranteed = True
    for container in (*(spec["containers"] or ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if not resources:
            guaranteed = False
            continue
        requests, limits = resources.get("requests", _EMPTY), resources.get("limits", _EMPTY)
        for name in QOS_RESOURCES:
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            has_resources = has_resources or _is_positive(request) or _is_positive(limit)
            if (request != limit and nanos(request) != nanos(limit)) or not _is_positive(limit):
                guaranteed = False
        if has_resources and not guaranteed:
            return "Burstable"  # whatever the other containers have
    if not has_resources:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _pod_level_class(resources: Object) -> str:
    requests, limits = (
        {
            name: amount
            for name, amount in resources.get(part, {}).items()
            if name in QOS_RESOURCES and _is_positive(amount)
        }
        for part in ("requests", "limits")
    )
    if not requests and not limits:
        return "BestEffort"
    if len(limits) < len(QOS_RESOURCES) or requests.keys() != limits.keys():
        return "Burstable"
    equal = all(nanos(requests[name]) == nanos(limits[name]) for name in limits)
    return "Guaranteed" if equal else "Burstable"


def _is_positive(amount: str) -> bool:
    return amount != "0" and amount[0] != "-"


LOST_NODE: Final = "NodeLost"  # the reason in pods whose node has stopped reporting


class Summary(msgspec.Struct, frozen=True):
    """The states of a pod's containers in one word and three figures."""

    reason: str  # the text of the Status column
    ready: int
    restarts: int
    last_termination: str  # when a restarted container last terminated


def summarize(pod: Object, features: frozenset[str] = frozenset()) -> Summary:
    """Summarize the init containers until all of them have succeeded or run on, then the main containers."""
    status = pod["status"]
    counts_sidecars = SIDECARS_IN_TABLES in features
    sidecars = frozenset(_names_of_sidecars(pod) if counts_sidecars else ())
    stopped, begun = _init_summary(pod, sidecars)
    if stopped is not None and not (counts_sidecars and _has_condition(pod, "Initialized")):
        summary = stopped
    else:
        reason = stopped.reason if stopped is not None else _own_reason(pod, features)
        summary = _main_summary(pod, reason, begun, features)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == LOST_NODE:
            return replace(summary, reason="Unknown")
        if ENDED_IN_TABLES not in features or status.get("phase") not in _TERMINATED_MESSAGES:
            return replace(summary, reason="Terminating")
    return summary


def _own_reason(pod: Object, features: frozenset[str]) -> str:
    status = pod["status"]
    if GATED_IN_TABLES in features and any(
        one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in status.get("conditions", ())
    ):
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", ""))


def _names_of_sidecars(pod: Object) -> Iterator[str]:
    """Yield the names of init containers that run on beside the main containers."""
    for one in pod["spec"].get("initContainers", ()):
        if one.get("restartPolicy") == "Always":
            yield one["name"]


def _init_summary(pod: Object, sidecars: frozenset[str]) -> tuple[Summary | None, Summary]:
    """Return the summary by the first init container that neither succeeded nor runs on, None if there is none; and
    the summary of the sidecars before it.
    """
    statuses = pod["status"].get("initContainerStatuses", ())
    restarts, last_termination, begun = 0, "", Summary("", 0, 0, "")
    for index, status in enumerate(statuses):
        restarts += status["restartCount"]
        last_termination = max(last_termination, _last_termination(status))
        is_sidecar = status["name"] in sidecars
        if is_sidecar:
            begun = Summary(
                "",
                begun.ready,
                begun.restarts + status["restartCount"],
                max(begun.last_termination, _last_termination(status)),
            )
        terminated = status["state"].get("terminated")
        if terminated is not None and not terminated["exitCode"]:
            continue
        if is_sidecar and status.get("started"):
            begun = replace(begun, ready=begun.ready + bool(status["ready"]))
            continue
        waiting_reason = status["state"].get("waiting", {}).get("reason", "")
        if terminated is not None:
            reason = _termination_reason(terminated)
        elif waiting_reason and waiting_reason != "PodInitializing":
            reason = waiting_reason
        else:
            reason = f"{index}/{len(pod['spec'].get('initContainers', ()))}"
        return Summary(f"Init:{reason}", begun.ready, restarts, last_termination), begun
    return None, begun


def _main_summary(pod: Object, reason: str, begun: Summary, features: frozenset[str]) -> Summary:
    """Summarize the main containers, with the reason of the first one that is waiting or has terminated."""
    ready, restarts, last_termination = 0, begun.restarts, begun.last_termination
    if SIDECARS_IN_TABLES not in features:
        ended = (_last_termination(one) for one in pod["status"].get("initContainerStatuses", ()))
        last_termination = max(ended, default="")
    error = ""
    for status in reversed(pod["status"].get("containerStatuses", ())):
        state = status["state"]
        restarts += status["restartCount"]
        last_termination = max(last_termination, _last_termination(status))
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _termination_reason(state["terminated"])
            if state["terminated"]["exitCode"]:
                error = reason
        elif status["ready"] and "running" in state:
            ready += 1
    if reason == "Completed":
        if ready and _has_condition(pod, "Ready"):
            reason = "Running"
        elif error and ERRORS_IN_TABLES in features:
            reason = error
        elif ready:
            reason = "NotReady"
    return Summary(reason, begun.ready + ready, restarts, last_termination)


def _termination_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return (
        f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated['exitCode']}"
    )


def _last_termination(status: Object) -> str:
    return status["lastState"].get("terminated", {}).get("finishedAt") or ""


def _has_condition(pod: Object, kind: str) -> bool:
    first: Object = next((one for one in pod["status"].get("conditions", ()) if one["type"] == kind), {})
    return first.get("status") == "True"


def _ready_cell(features: frozenset[str]) -> Cell:
    def cell(pod: Object, _: int) -> str:
        sidecars = len(list(_names_of_sidecars(pod))) if SIDECARS_IN_TABLES in features else 0
        return f"{summarize(pod, features).ready}/{len(pod['spec']['containers'] or ()) + sidecars}"

    return cell


def _restarts_cell(features: frozenset[str]) -> Cell:
    def cell(pod: Object, now: int) -> str:
        summary = summarize(pod, features)
        shows_time = summary.restarts or SIDECARS_IN_TABLES not in features
        if not summary.last_termination or not shows_time:
            return str(summary.restarts)
        return f"{summary.restarts} ({since(summary.last_termination, now)} ago)"

    return cell


def _gates(pod: Object, _: int) -> str:
    gates = pod["spec"].get("readinessGates", ())
    first: dict[str, str] = {}
    for condition in pod["status"].get("conditions", ()) if gates else ():
        first.setdefault(condition["type"], condition.get("status", ""))
    met = sum(first.get(gate["conditionType"]) == "True" for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def _text_or_none(section: str, part: str) -> Any:
    return lambda pod, _: pod[section].get(part) or NONE


def columns(features: frozenset[str]) -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Ready", "string", "Ready containers and the number of all containers.", _ready_cell(features)
        ),
        Column(
            "Status",
            "string",
            "Phase of the pod, or the reason it is not running.",
            lambda pod, _: summarize(pod, features).reason,
        ),
        Column(
            "Restarts",
            "string",
            "Container restarts and the time since the last one.",
            _restarts_cell(features),
        ),
        AGE,
        Column("IP", "string", "Address of the pod.", _text_or_none("status", "podIP"), priority=1),
        Column("Node", "string", "Node that the pod runs on.", _text_or_none("spec", "nodeName"), priority=1),
        Column(
            "Nominated Node",
            "string",
            "Node on which others make room for the pod.",
            _text_or_none("status", "nominatedNodeName"),
            priority=1,
        ),
        Column(
            "Readiness Gates",
            "string",
            "Readiness gates whose condition is True and the number of all gates.",
            _gates,
            priority=1,
        ),
    )


_TERMINATED_MESSAGES: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def row_conditions(pod: Object) -> list[Object]:
    """Return a condition that marks rows of terminated pods, so that clients can hide them."""
    phase = pod["status"].get("phase", "")
    if phase not in _TERMINATED_MESSAGES:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _TERMINATED_MESSAGES[phase]}]


BINDING = Struct(
    "core.v1.Binding",
    METADATA,
    Field("target", OBJECT_REFERENCE, 2, required=True),
)
POD_BINDING = Resource("", "pods/binding")


def define_binding(_: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="Binding",
        plural="bindings",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=BINDING,
        verbs=("create",),
        storage=Storage(submits_to=("pods", "binding")),
        strategy=Strategy(validate_create=binding_rules),
    )


def binding(names: Names, features: frozenset[str] = frozenset()) -> Subresource:
    """Return the subresource that assigns a pod to a node."""
    return Subresource(
        name="binding",
        verbs=("create",),
        kind="Binding",
        view=define_binding(names),
        submit=partial(assign_node, features),
    )


def binding_rules(errors: FieldErrors, sent: Object) -> None:
    kind = sent["target"].get("kind", "")
    if kind not in ("", "Node"):
        errors.add(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not sent["target"].get("name"):
        errors.add(required("target.name"))


def assign_node(features: frozenset[str], sent: Object, pod: Object, now: int) -> Object:
    metadata, name = pod["metadata"], pod["metadata"]["name"]
    if "deletionTimestamp" in metadata:
        raise Conflict(POD_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    node = pod["spec"].get("nodeName")
    if node:
        raise Conflict(POD_BINDING, name, f"pod {name} is already assigned to node {quoted_start(node)}")
    if pod["spec"].get("schedulingGates"):
        raise Conflict(POD_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    annotations = {**metadata.get("annotations", {}), **sent["metadata"].get("annotations", {})}
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    if TOPOLOGY_LABELS in features and sent["metadata"].get("labels"):
        labels = {**metadata.get("labels", {}), **sent["metadata"]["labels"]}
        metadata = OBJECT_META.arranged({**metadata, "labels": dict(sorted(labels.items()))})
    spec = POD_SPEC.arranged({**pod["spec"], "nodeName": sent["target"]["name"]})
    status = _scheduled(pod["status"], now)
    if NOMINATION_ENDS in features:
        status.pop("nominatedNodeName", None)
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _scheduled(status: Object, now: int) -> Object:
    kind = "PodScheduled"
    conditions = status.get("conditions", [])
    before: Object = next((one for one in conditions if one["type"] == kind), {})
    since = before["lastTransitionTime"] if before.get("status") == "True" else seconds_text(now)
    scheduled = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    updated = [scheduled if one is before else one for one in conditions]
    return POD_STATUS.arranged({**status, "conditions": updated if before else [*updated, scheduled]})


DISRUPTION_TARGET: Final = "DisruptionTarget"
MAX_DISRUPTED_PODS: Final = 2000  # pods in status.disruptedPods that the controller has not seen deleted
RETRY_AFTER: Final = 10  # seconds, while the controller has not observed the latest generation
BUDGET: Final = Resource("policy", "poddisruptionbudget")

PRECONDITIONS = Struct(
    "meta.v1.Preconditions",
    Field("uid", STRING, 1, pointer=True),
    Field("resourceVersion", STRING, 2, pointer=True),
)
DELETE_OPTIONS = Struct(
    "meta.v1.DeleteOptions",
    Field("kind", STRING, 0),
    Field("apiVersion", STRING, 0),
    Field("gracePeriodSeconds", INT64, 1, pointer=True),
    Field("preconditions", PRECONDITIONS, 2, pointer=True),
    Field("orphanDependents", BOOL, 3, pointer=True),
    Field("propagationPolicy", STRING, 4, pointer=True),
    Field("dryRun", STRINGS, 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("ignoreStoreReadErrorWithClusterBreakingPotential", BOOL, 6, pointer=True, since="1.32"),
)
EVICTION = Struct("policy.v1.Eviction", METADATA, Field("deleteOptions", DELETE_OPTIONS, 2, pointer=True))


def eviction(_: Names) -> Subresource:
    view = Definition(
        group="policy",
        version="v1",
        kind="Eviction",
        plural="evictions",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=EVICTION,
        storage=Storage(also_accepts="policy/v1beta1"),
    )
    return Subresource(
        name="eviction",
        verbs=("create",),
        kind="Eviction",
        group="policy",
        version="v1",
        view=view,
        submit=announce_eviction,
        evicts=True,
    )


def announce_eviction(_: Object, pod: Object, now: int) -> Object:
    """The pod with the condition that an eviction sets before it deletes the pod."""
    reason, message = "EvictionByEvictionAPI", "Eviction API: evicting"
    condition = disruption_target(pod, reason, message, seconds_text(now))
    if condition is None:
        return pod
    others = [one for one in pod["status"].get("conditions", ()) if one["type"] != DISRUPTION_TARGET]
    return {**pod, "status": POD_STATUS.arranged({**pod["status"], "conditions": [*others, condition]})}


def disruption_target(
    pod: Object, reason: str, message: str, now: str, features: frozenset[str] = frozenset()
) -> Object | None:
    """The condition that announces that a pod will be deleted, and why; None if the pod has it."""
    conditions = pod["status"].get("conditions", ())
    known: Object = next((one for one in conditions if one["type"] == DISRUPTION_TARGET), {})
    announced = known.get("status") == "True"
    if announced and (known.get("reason"), known.get("message")) == (reason, message):
        return None
    generation = pod["metadata"].get("generation") if OBSERVED_GENERATION in features else None
    return {
        "type": DISRUPTION_TARGET,
        **({} if generation is None else {"observedGeneration": generation}),
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": known["lastTransitionTime"] if announced else now,
    }


class AllowedEviction(msgspec.Struct, frozen=True):
    """The pod may be deleted after the budget gets `budget_status`; with `if_unchanged`, only in this version."""

    budget_status: Object | None = None
    if_unchanged: bool = False


def may_evict(pod: Object, budgets: Sequence[Object], now: int, *, explains: bool = False) -> AllowedEviction:
    """Decide an eviction. `budgets` are those whose selectors match the pod. Raises an API error if they refuse it.

    `explains`: the error says what the condition of the budget says, if that is why.
    """
    if is_exempt_from_budgets(pod):
        return AllowedEviction(
            if_unchanged=pod["status"].get("phase") == "Pending" and not _is_being_deleted(pod)
        )
    if not budgets:
        return AllowedEviction()
    if len(budgets) > 1:
        raise TooManyBudgets
    budget = budgets[0]
    status = budget["status"]
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if not is_ready(pod) and (always or healthy >= wanted > 0):
        return AllowedEviction(if_unchanged=True)
    return AllowedEviction(
        budget_status=_with_disruption(budget, pod["metadata"]["name"], now, explains=explains)
    )


def is_exempt_from_budgets(pod: Object) -> bool:
    """Whether the pod has terminated, has not started or is being deleted: evicting it disrupts nothing."""
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending") or _is_being_deleted(pod)


def _is_being_deleted(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Object) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", ())
    )


def _why_refused(name: str, status: Object, *, explains: bool) -> str:
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    conditions = status.get("conditions", ()) if explains else ()
    denied: Object = next(
        (one for one in conditions if (one["type"], one["status"]) == ("DisruptionAllowed", "False")), {}
    )
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    if denied.get("message") and denied["reason"] == "SyncFailed":
        return f"{refused} because it failed sync: {denied['message']}"
    if not explains or healthy <= wanted:
        return f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
    return f"{refused} ({denied['reason']}): {denied['message']}" if denied.get("message") else refused


def _with_disruption(budget: Object, pod: str, now: int, *, explains: bool) -> Object:
    """Return the budget's status with one allowed disruption less."""
    metadata, status = budget["metadata"], budget["status"]
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise EvictionRefused(why, RETRY_AFTER)
    if allowed < 0:
        raise Forbidden(BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", ())) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise Forbidden(BUDGET, name, why)
    if not allowed:
        raise EvictionRefused(_why_refused(name, status, explains=explains))
    disrupted = {**status.get("disruptedPods", {}), pod: seconds_text(now)}
    budget_status = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": dict(sorted(disrupted.items())),
    }
    if allowed == 1:
        budget_status["conditions"] = _exhausted_conditions(status, now)
    return budget_status


def _exhausted_conditions(status: Object, now: int) -> list[Object]:
    """Return the conditions of an exhausted budget, with DisruptionAllowed set to False."""
    conditions: list[Object] = list(status.get("conditions", ()))
    places = (place for place, one in enumerate(conditions) if one["type"] == "DisruptionAllowed")
    place = next(places, len(conditions))
    current = conditions[place] if place < len(conditions) else {}
    since = current["lastTransitionTime"] if current.get("status") == "False" else seconds_text(now)
    seen = {"observedGeneration": status["observedGeneration"]} if "observedGeneration" in status else {}
    exhausted = {"type": "DisruptionAllowed", "status": "False", **seen, "lastTransitionTime": since}
    conditions[place : place + 1] = [{**exhausted, "reason": "InsufficientPods", "message": ""}]
    return conditions
