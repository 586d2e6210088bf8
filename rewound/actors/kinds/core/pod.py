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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from rewound.actors.errors import Conflict, EvictionRefused, Forbidden, Resource, TooManyBudgets
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.connect_options import connecting
from rewound.actors.kinds.core.containers import image_whitespace_rules, set_request_defaults
from rewound.actors.kinds.core.pod_spec import (
    LONGEST_DEADLINE,
    NOTHING_ALLOWED,
    POD_SPEC,
    Allowed,
    PodKeys,
    SpecRules,
    added_toleration_rules,
    allowed_by,
    set_spec_defaults,
)
from rewound.actors.kinds.core.pod_template import (
    PodWarnings,
    is_cost,
    pod_annotation_rules,
    pod_annotation_update_rules,
    seccomp_agreement_rules,
    with_profiles,
    without_disabled_fields,
)
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.core.resources import RESOURCE_REQUIREMENTS, nanos
from rewound.actors.kinds.core.volume_sources import tokens_of
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, since
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
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
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
from rewound.actors.kinds.validation import (
    FieldErrors,
    between,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    ip_address,
    name_is_subdomain,
    not_supported,
    parse_ip,
    qualified_name,
    required,
    undecided,
)
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import EXPANDED_DNS

POD_CONDITION = Struct(
    "core.v1.PodCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("observedGeneration", INT64, 7, since="1.33"),
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
    Field("allocatedResources", QUANTITIES, 0, since="1.27"),
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
    Field("stopSignal", STRING, 15, pointer=True, since="1.33", gate="ContainerStopSignals"),
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
    Field("resources", QUANTITIES, 0, required=True, always=True),
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
    Field("observedGeneration", INT64, 17, since="1.33"),
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
    Field("hostIPs", ListOf(HOST_IP), 16, patch="merge", merge_key="ip", list_type="atomic", since="1.28"),
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
    Field("allocatedResources", QUANTITIES, 0, since="1.35", gate="InPlacePodLevelResourcesVerticalScaling"),
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


def pod_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    status, before = new["status"], old["status"]
    _condition_rules(errors, status.get("conditions", ()))
    if new["spec"].get("nodeName") != old["spec"].get("nodeName"):
        errors.add(forbidden("status.nodeName", "may not be changed directly"))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors.add_each("status.nominatedNodeName", nominated, dns_subdomain(nominated))
    restart = old["spec"].get("restartPolicy", "")
    for part, policy in (
        ("containerStatuses", restart),
        ("initContainerStatuses", restart),
        ("ephemeralContainerStatuses", "Never"),
    ):
        _termination_rules(errors, status.get(part, ()), before.get(part, ()), policy, f"status.{part}")
    _address_rules(errors, status.get("podIPs", []))


def _condition_rules(errors: FieldErrors, conditions: list[Object]) -> None:
    for index, condition in enumerate(conditions):
        kind = condition["type"]
        if kind not in _OWN_CONDITIONS:
            errors.add_each(f"metadata.conditions[{index}].Type", kind, qualified_name(kind))


def _termination_rules(
    errors: FieldErrors, new: list[Object], old: list[Object], policy: str, field: str
) -> None:
    """A terminated container that must not restart stays terminated."""
    if policy == "Always":
        return
    running = Counter(after["name"] for after in new if "terminated" not in after["state"])
    text = "may not be transitioned to non-terminated state"
    for index, before in enumerate(old):
        ended = before["state"].get("terminated")
        if ended is None or (ended["exitCode"] and policy == "OnFailure"):
            continue
        for _ in range(running[before["name"]]):
            errors.add(forbidden(f"{field}[{index}].state", text))


def _address_rules(errors: FieldErrors, addresses: list[Object]) -> None:
    field, texts = "status.podIPs", [one.get("ip", "") for one in addresses]
    for index, text in enumerate(texts):
        errors.add_each(f"{field}[{index}]", text, ip_address(text))
    if len(texts) < 2:
        return
    families = {None if address is None else address.version for address in map(parse_ip, texts)}
    if None in families:
        errors.add(undecided(field, "failed to check for dual stack with error:ip <nil> is invalid"))
    if families != {4, 6} or len(texts) > 2:
        errors.add(invalid(field, addresses, "may specify no more than one IP for each IP family"))
    seen: set[str] = set()
    for index, text in enumerate(texts):
        if text in seen:
            errors.add(duplicate(f"{field}[{index}]", addresses[index]))
        seen.add(text)


POD = Struct("core.v1.Pod", METADATA, Field("spec", POD_SPEC, 2), Field("status", POD_STATUS, 3))


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    pods = Pods(names, features)
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
            binding(names),
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
                name="status",
                prepare=prepare_status,
                validate=pods.status_rules,
                reset_fields=("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
            ),
        ),
        deletion=Deletion(returns_object=True, grace_period=grace_period_seconds),
        selection=Selection(fields=SELECTABLE, stored_labels=SELECTOR_NAMES, own_label_conversion=True),
        table=Table(COLUMNS, row_conditions=row_conditions),
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
        self._warnings = PodWarnings(names)
        self._features = features

    def set_defaults(self, new: Object) -> None:
        set_own_defaults(new["spec"])
        if new["status"]:
            set_status_defaults(new)
        annotations = new["metadata"].get("annotations", {})
        for key in self._keys.dropped.intersection(annotations):
            del annotations[key]

    def prepare_create(self, new: Object) -> None:
        spec = new["spec"]
        new["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        spec = without_disabled_fields(spec, None, self._features)
        new["spec"] = with_profiles(spec, new["metadata"].get("annotations", {}), self._keys)

    def prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = old["status"]
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)

    def prepare_ephemeral_containers(self, new: Object, old: Object) -> None:
        """Keep the old pod except for its ephemeral containers, which the client sent."""
        added = new["spec"].get("ephemeralContainers")
        spec = {part: value for part, value in old["spec"].items() if part != "ephemeralContainers"}
        if added:
            spec["ephemeralContainers"] = added
        new.clear()
        new.update({**old, "metadata": dict(old["metadata"]), "spec": POD_SPEC.arranged(spec)})
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)

    def rules(self, errors: FieldErrors, new: Object) -> None:
        spec, annotations = new["spec"], new["metadata"].get("annotations", {})
        self._pod_rules(errors, new, self._allowed_on_create())
        if "ephemeralContainers" in spec:
            errors.add(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        seccomp_agreement_rules(errors, annotations, spec, "spec", self._keys)

    def update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        self._update_rules(errors, new, old)
        spec_update_rules(errors, new["spec"], old["spec"])

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
        return self._warnings.of(new) if old is None else []

    def _update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        allowed = self._allowed_on_update(new, old)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        self._pod_rules(errors, new, allowed)
        self._annotation_update_rules(errors, new, old, allowed)

    def _pod_rules(self, errors: FieldErrors, pod: Object, allowed: Allowed) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self._annotation_rules(errors, pod, allowed)
        self._rules.validate(errors, spec, "spec", metadata.get("name", ""), allowed)
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


_AFTER_SERVICE_LINKS: Final = (
    *("preemptionPolicy", "overhead", "topologySpreadConstraints", "setHostnameAsFQDN", "os", "hostUsers"),
)


def set_own_defaults(spec: Object) -> None:
    """Set the defaults that a pod has in addition to those of a template."""
    if "enableServiceLinks" not in spec:
        _set_in_order(spec, "enableServiceLinks", True)
    set_spec_defaults(spec)
    set_request_defaults(spec["containers"] or [])
    set_request_defaults(spec.get("initContainers", []))


def _set_in_order(spec: Object, part: str, value: Any) -> None:
    spec[part] = value
    for later in _AFTER_SERVICE_LINKS:
        if later in spec:
            spec[later] = spec.pop(later)


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


def spec_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """Validate the change between two specs of one pod."""
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
    wanted = _with_mutable_fields_of(old, new)
    if wanted != old:
        errors.add(forbidden("spec", MUTABLE_FIELDS + differences(old, wanted, "spec")))


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
    for part in ("activeDeadlineSeconds", "tolerations"):
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
            part: _in_old_units(old["resources"].get(part, {}), amounts)
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
            errors.add(forbidden(field, text + differences(before, after, field)))


MAX_LINES: Final = 40  # enough for a message
LONGEST_VALUE: Final = 200


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


def _is_positive(amount: str) -> bool:
    return amount != "0" and amount[0] != "-"


LOST_NODE: Final = "NodeLost"  # the reason in pods whose node has stopped reporting


@dataclass(frozen=True, slots=True)
class Summary:
    """The states of a pod's containers in one word and three figures."""

    reason: str  # the text of the Status column
    ready: int
    restarts: int
    last_termination: str  # when a restarted container last terminated


def summarize(pod: Object) -> Summary:
    """Summarize the init containers until all of them have succeeded, then the main containers."""
    status = pod["status"]
    reason = status.get("reason") or status.get("phase", "")
    summary = _init_summary(pod) or _main_summary(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        reason = "Unknown" if status.get("reason") == LOST_NODE else "Terminating"
        return Summary(reason, summary.ready, summary.restarts, summary.last_termination)
    return summary


def _init_summary(pod: Object) -> Summary | None:
    """Return the summary by the first init container that has not succeeded, or None if all have."""
    statuses = pod["status"].get("initContainerStatuses", ())
    restarts, last_termination = 0, ""
    for index, status in enumerate(statuses):
        restarts += status["restartCount"]
        last_termination = max(last_termination, _last_termination(status))
        terminated = status["state"].get("terminated")
        if terminated is not None and not terminated["exitCode"]:
            continue
        waiting_reason = status["state"].get("waiting", {}).get("reason", "")
        if terminated is not None:
            reason = _termination_reason(terminated)
        elif waiting_reason and waiting_reason != "PodInitializing":
            reason = waiting_reason
        else:
            reason = f"{index}/{len(pod['spec'].get('initContainers', ()))}"
        return Summary(f"Init:{reason}", 0, restarts, last_termination)
    return None


def _main_summary(pod: Object, reason: str) -> Summary:
    """Summarize the main containers, with the reason of the first one that is waiting or has terminated."""
    ready, restarts = 0, 0
    last_termination = max(
        (_last_termination(one) for one in pod["status"].get("initContainerStatuses", ())), default=""
    )
    for status in reversed(pod["status"].get("containerStatuses", ())):
        state = status["state"]
        restarts += status["restartCount"]
        last_termination = max(last_termination, _last_termination(status))
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _termination_reason(state["terminated"])
        elif status["ready"] and "running" in state:
            ready += 1
    if reason == "Completed" and ready:
        reason = "Running" if _has_condition(pod, "Ready") else "NotReady"
    return Summary(reason, ready, restarts, last_termination)


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


def _ready(pod: Object, _: int) -> str:
    return f"{summarize(pod).ready}/{len(pod['spec']['containers'] or ())}"


def _restarts(pod: Object, now: int) -> str:
    summary = summarize(pod)
    if not summary.last_termination:
        return str(summary.restarts)
    return f"{summary.restarts} ({since(summary.last_termination, now)} ago)"


def _gates(pod: Object, _: int) -> str:
    gates = pod["spec"].get("readinessGates", ())
    first: dict[str, str] = {}
    for condition in pod["status"].get("conditions", ()) if gates else ():
        first.setdefault(condition["type"], condition.get("status", ""))
    met = sum(first.get(gate["conditionType"]) == "True" for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def _text_or_none(section: str, part: str) -> Any:
    return lambda pod, _: pod[section].get(part) or NONE


COLUMNS: Final = (
    NAME,
    Column("Ready", "string", "Ready containers and the number of all containers.", _ready),
    Column(
        "Status",
        "string",
        "Phase of the pod, or the reason it is not running.",
        lambda pod, _: summarize(pod).reason,
    ),
    Column("Restarts", "string", "Container restarts and the time since the last one.", _restarts),
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


def binding(names: Names) -> Subresource:
    """Return the subresource that assigns a pod to a node."""
    return Subresource(
        name="binding", verbs=("create",), kind="Binding", view=define_binding(names), submit=assign_node
    )


def binding_rules(errors: FieldErrors, sent: Object) -> None:
    kind = sent["target"].get("kind", "")
    if kind not in ("", "Node"):
        errors.add(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not sent["target"].get("name"):
        errors.add(required("target.name"))


def assign_node(sent: Object, pod: Object, now: int) -> Object:
    metadata, name = pod["metadata"], pod["metadata"]["name"]
    if "deletionTimestamp" in metadata:
        raise Conflict(POD_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    node = pod["spec"].get("nodeName")
    if node:
        raise Conflict(POD_BINDING, name, f"pod {name} is already assigned to node {quoted_start(node)}")
    annotations = {**metadata.get("annotations", {}), **sent["metadata"].get("annotations", {})}
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    spec = POD_SPEC.arranged({**pod["spec"], "nodeName": sent["target"]["name"]})
    return {**pod, "metadata": metadata, "spec": spec, "status": _scheduled(pod["status"], now)}


def _scheduled(status: Object, now: int) -> Object:
    kind = "PodScheduled"
    conditions = status.get("conditions", [])
    before: Object = next((one for one in conditions if one["type"] == kind), {})
    since = before["lastTransitionTime"] if before.get("status") == "True" else seconds_text(now)
    scheduled = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    updated = [scheduled if one is before else one for one in conditions]
    return POD_STATUS.arranged({**status, "conditions": updated if before else [*updated, scheduled]})


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
        name="eviction", verbs=("create",), kind="Eviction", group="policy", version="v1", view=view
    )


@dataclass(frozen=True, slots=True)
class AllowedEviction:
    """The pod may be deleted after the budget gets `budget_status`; with `if_unchanged`, only in this version."""

    budget_status: Object | None = None
    if_unchanged: bool = False


def may_evict(pod: Object, budgets: Sequence[Object], now: int) -> AllowedEviction:
    """Decide an eviction. `budgets` are those whose selectors match the pod. Raises an API error if they refuse it."""
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
    if not is_ready(pod) and healthy >= wanted > 0:
        return AllowedEviction(if_unchanged=True)
    return AllowedEviction(budget_status=_with_disruption(budget, pod["metadata"]["name"], now))


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


def _with_disruption(budget: Object, pod: str, now: int) -> Object:
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
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        why = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise EvictionRefused(why)
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
