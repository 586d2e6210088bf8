"""Node: a machine that runs pods. The status holds its condition, the spec its desired state.

The addresses for its pods are in `podCIDR` and, as the first of the list, in `podCIDRs`; the old field takes
precedence. `configSource` and its status belong to a removed feature: the API still describes them but drops them.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

import orjson
from msgspec.structs import replace

from rewound.actors.golang.format import Repeated
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.connect_options import connecting
from rewound.actors.kinds.core.resources import INTEGER_RESOURCES, round_up
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, UNKNOWN, Cell, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Selection,
    Strategy,
    Subresource,
    Table,
)
from rewound.actors.kinds.declaration.meta import (
    METADATA,
    metadata_rules,
    metadata_update_rules,
    value_at_path,
)
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    QUANTITIES,
    STRING,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldError,
    FieldErrors,
    cidr_rules,
    cidr_warnings,
    duplicate,
    forbidden,
    invalid,
    label_value,
    name_is_subdomain,
    not_supported,
    parse_network,
    qualified_name,
    required,
    undecided,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import is_count, nanos_of
from rewound.actors.versions.features import (
    ADDRESSES_AND_NETWORKS,
    ADDRESSES_CHECKED_ALIKE,
    DECLARED_FEATURES,
    EXTERNAL_IDS_DEPRECATED,
    GROUPS_POLICY,
    READ_ONLY_MOUNTS,
    USER_NAMESPACES_SUPPORT,
)

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

CONFIG_MAP_SOURCE = Struct(
    "core.v1.ConfigMapNodeConfigSource",
    Field("namespace", STRING, 1, required=True, always=True),
    Field("name", STRING, 2, required=True, always=True),
    Field("uid", STRING, 3),
    Field("resourceVersion", STRING, 4),
    Field("kubeletConfigKey", STRING, 5, required=True, always=True),
)
CONFIG_SOURCE = Struct("core.v1.NodeConfigSource", Field("configMap", CONFIG_MAP_SOURCE, 2, pointer=True))
TAINT = Struct(
    "core.v1.Taint",
    Field("key", STRING, 1, required=True, always=True),
    Field("value", STRING, 2),
    Field(
        "effect", STRING, 3, required=True, always=True, enum=("NoExecute", "NoSchedule", "PreferNoSchedule")
    ),
    Field("timeAdded", TIME, 4, pointer=True),
)
SPEC = Struct(
    "core.v1.NodeSpec",
    Field("podCIDR", STRING, 1),
    Field("podCIDRs", STRINGS, 7, patch="merge", list_type="set", before=UNTYPED_BEFORE_1_30),
    Field("providerID", STRING, 3),
    Field("unschedulable", BOOL, 4),
    Field("taints", ListOf(TAINT), 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("configSource", CONFIG_SOURCE, 6, pointer=True),
    Field("externalID", STRING, 2),
)
CONDITION = Struct(
    "core.v1.NodeCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastHeartbeatTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
ADDRESS = Struct(
    "core.v1.NodeAddress",
    Field("type", STRING, 1, required=True, always=True),
    Field("address", STRING, 2, required=True, always=True),
)
DAEMON_ENDPOINT = Struct("core.v1.DaemonEndpoint", Field("Port", INT32, 1, required=True, always=True))
DAEMON_ENDPOINTS = Struct("core.v1.NodeDaemonEndpoints", Field("kubeletEndpoint", DAEMON_ENDPOINT, 1))
NODE_SWAP_STATUS = Struct(
    "core.v1.NodeSwapStatus",
    Field("capacity", INT64, 1, pointer=True),
)
SYSTEM_INFO = Struct(
    "core.v1.NodeSystemInfo",
    *(
        Field(name, STRING, number, required=True, always=True)
        for number, name in enumerate(
            (
                "machineID",
                "systemUUID",
                "bootID",
                "kernelVersion",
                "osImage",
                "containerRuntimeVersion",
                "kubeletVersion",
                "kubeProxyVersion",
                "operatingSystem",
                "architecture",
            ),
            start=1,
        )
    ),
    Field("swap", NODE_SWAP_STATUS, 11, pointer=True, since="1.33"),
)
IMAGE = Struct(
    "core.v1.ContainerImage",
    Field("names", STRINGS, 1, always=True, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("sizeBytes", INT64, 2),
)
ATTACHED_VOLUME = Struct(
    "core.v1.AttachedVolume",
    Field("name", STRING, 1, required=True, always=True),
    Field("devicePath", STRING, 2, required=True, always=True),
)
CONFIG_STATUS = Struct(
    "core.v1.NodeConfigStatus",
    Field("assigned", CONFIG_SOURCE, 1, pointer=True),
    Field("active", CONFIG_SOURCE, 2, pointer=True),
    Field("lastKnownGood", CONFIG_SOURCE, 3, pointer=True),
    Field("error", STRING, 4),
)
NODE_RUNTIME_HANDLER_FEATURES = Struct(
    "core.v1.NodeRuntimeHandlerFeatures",
    Field("recursiveReadOnlyMounts", BOOL, 1, pointer=True),
    Field("userNamespaces", BOOL, 2, pointer=True, since="1.31"),
)
NODE_RUNTIME_HANDLER = Struct(
    "core.v1.NodeRuntimeHandler",
    Field("name", STRING, 1, always=True),
    Field("features", NODE_RUNTIME_HANDLER_FEATURES, 2, pointer=True),
)
NODE_FEATURES = Struct(
    "core.v1.NodeFeatures",
    Field("supplementalGroupsPolicy", BOOL, 1, pointer=True),
)
STATUS = Struct(
    "core.v1.NodeStatus",
    Field("capacity", QUANTITIES, 1),
    Field("allocatable", QUANTITIES, 2),
    Field("phase", STRING, 3, enum=("Pending", "Running", "Terminated")),
    Field(
        "conditions",
        ListOf(CONDITION),
        4,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "addresses",
        ListOf(ADDRESS),
        5,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("daemonEndpoints", DAEMON_ENDPOINTS, 6),
    Field("nodeInfo", SYSTEM_INFO, 7),
    Field("images", ListOf(IMAGE), 8, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("volumesInUse", STRINGS, 9, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field(
        "volumesAttached",
        ListOf(ATTACHED_VOLUME),
        10,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("config", CONFIG_STATUS, 11, pointer=True),
    Field("declaredFeatures", STRINGS, 14, list_type="atomic", since="1.35"),
    Field("features", NODE_FEATURES, 13, pointer=True, since="1.31"),
    Field("runtimeHandlers", ListOf(NODE_RUNTIME_HANDLER), 12, list_type="atomic", since="1.30"),
)
NODE = Struct("core.v1.Node", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    rules = NodeRules(names)
    return Definition(
        group="",
        version="v1",
        kind="Node",
        plural="nodes",
        names=DiscoveryNames(short_names=("no",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=NODE,
        set_defaults=set_defaults,
        subresources=(
            connecting("proxy", "NodeProxyOptions"),
            Subresource(name="status", prepare=prepare_status, validate=rules.validate_change),
        ),
        selection=Selection(fields={"spec.unschedulable": _unschedulable}, own_label_conversion=True),
        table=Table(node_columns(names)),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=rules.validate,
            validate_update=rules.validate_update,
            warnings=partial(node_warnings, features),
        ),
    )


def _unschedulable(stored: Object) -> str:
    return "true" if value_at_path(stored, "spec", "unschedulable") else "false"


def set_defaults(new: Object) -> None:
    """Allocatable resources default to the capacity."""
    _sync_pod_cidrs(new)
    status = new["status"]
    if "capacity" in status and "allocatable" not in status:
        status = new["status"] = STATUS.arranged({**status, "allocatable": dict(status["capacity"])})
    for part in ("capacity", "allocatable"):
        round_up(status.get(part, {}))


def _sync_pod_cidrs(new: Object) -> None:
    spec = new["spec"]
    first, networks = spec.get("podCIDR", ""), spec.get("podCIDRs", [])
    if first and (not networks or networks[0] != first):
        networks = [first]
    if networks:
        new["spec"] = SPEC.arranged({**spec, "podCIDR": networks[0], "podCIDRs": networks})


def prepare_create(features: frozenset[str], new: Object) -> None:
    new["spec"].pop("configSource", None)
    new["status"].pop("config", None)
    for part, gates in _GATED_PARTS.items():
        if features.isdisjoint(gates):
            new["status"].pop(part, None)


# Parts of the status that a node lacks while these gates are off, until its kubelet sends them.
_GATED_PARTS: Final = {
    "runtimeHandlers": (READ_ONLY_MOUNTS, USER_NAMESPACES_SUPPORT),
    "features": (GROUPS_POLICY,),
    "declaredFeatures": (DECLARED_FEATURES,),
}


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    new["spec"].pop("configSource", None)
    new["status"] = old["status"]
    if "runtimeHandlers" in old["status"] and features.isdisjoint(_GATED_PARTS["runtimeHandlers"]):
        new["status"] = {part: one for part, one in old["status"].items() if part != "runtimeHandlers"}


def node_warnings(features: frozenset[str], new: Object, _: Object | None) -> list[str]:
    warnings, spec = [], new["spec"]
    if spec.get("externalID") and EXTERNAL_IDS_DEPRECATED in features:
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, network in enumerate(spec.get("podCIDRs", ())):
        warnings += cidr_warnings(features, f"spec.podCIDRs[{index}]", network)
    return warnings


def prepare_status(new: Object, old: Object) -> None:
    new["status"].pop("config", None)
    new["spec"] = old["spec"]


class NodeRules:
    """The rules of nodes; the keys of old annotations depend on the dialect."""

    def __init__(self, names: Names) -> None:
        self._taints_key = names.key("taints", "scheduler.alpha")
        self._avoid_key = names.key("preferAvoidPods", "scheduler.alpha")
        self._api_domain = names.key("")

    def validate(self, errors: FieldErrors, new: Object) -> None:
        spec = new["spec"]
        self._annotation_rules(errors, new["metadata"].get("annotations", {}))
        _taint_rules(errors, spec.get("taints", []), "metadata.taints")
        self._resource_rules(errors, new["status"])
        _declared_feature_rules(errors, new["status"].get("declaredFeatures", []))
        _pod_cidr_rules(errors, spec.get("podCIDRs", []))

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        self.validate(errors, new)
        self.validate_change(errors, new, old)

    def validate_change(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self._annotation_rules(errors, new["metadata"].get("annotations", {}))
        self._resource_rules(errors, new["status"])
        _declared_feature_rules(errors, new["status"].get("declaredFeatures", []))
        _address_rules(errors, new["status"].get("addresses", []))
        _set_once_rules(errors, new["spec"], old["spec"])
        _taint_rules(errors, new["spec"].get("taints", []), "metadata.taints")
        _external_id_rules(errors, new["spec"], old["spec"])

    def _annotation_rules(self, errors: FieldErrors, annotations: Object) -> None:
        if annotations.get(self._taints_key):
            self._annotated_taint_rules(errors, annotations[self._taints_key])
        if annotations.get(self._avoid_key):
            self._avoided_pod_rules(errors, annotations[self._avoid_key])

    def _annotated_taint_rules(self, errors: FieldErrors, text: str) -> None:
        taints = _json(text)
        if not isinstance(taints, list) or not all(isinstance(one, dict) for one in taints):
            errors.add(invalid("metadata.annotations", self._taints_key, "must be a JSON list of taints"))
        else:
            _taint_rules(errors, taints, f"metadata.annotations.{self._taints_key}")

    def _avoided_pod_rules(self, errors: FieldErrors, text: str) -> None:
        avoided = _json(text)
        if not isinstance(avoided, dict):
            detail = "must be a JSON object with preferAvoidPods"
            errors.add(invalid("metadata.annotations.AvoidPods", self._avoid_key, detail))
            return
        for index, entry in enumerate(avoided.get("preferAvoidPods") or ()):
            field = f"metadata.annotations.{self._avoid_key}[{index}].PodSignature"
            controller = value_at_path(entry, "podSignature", "podController")
            if controller is None:
                errors.add(required(field))
            elif not value_at_path(controller, "controller"):
                errors.add(invalid(f"{field}.PodController.Controller", False, "must point to a controller"))

    def _resource_rules(self, errors: FieldErrors, status: Object) -> None:
        for part in ("capacity", "allocatable"):
            for name, amount in status.get(part, {}).items():
                self._amount_rules(errors, name, amount, f"status.{part}.{name}")

    def _amount_rules(self, errors: FieldErrors, name: str, amount: str, field: str) -> None:
        if nanos_of(amount) < 0:
            errors.add(invalid(field, amount, NEGATIVE))
        if self._is_integer_resource(name) and not is_count(amount):
            errors.add(invalid(field, amount, "must be an integer"))

    def _is_integer_resource(self, name: str) -> bool:
        """Whether a resource is counted in whole units: some of the API's own, and all extended resources."""
        if name in INTEGER_RESOURCES:
            return True
        own = "/" not in name or self._api_domain in name or name.startswith("requests.")
        return not own and not qualified_name(f"requests.{name}")


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _taint_rules(errors: FieldErrors, taints: list[Object], field: str) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here = f"{field}[{index}]"
        key, value, effect = (str(taint.get(part, "")) for part in ("key", "value", "effect"))
        errors.add_each(f"{here}.key", key, qualified_name(key))
        wrong = label_value(value)
        if wrong:
            errors.add(invalid(f"{here}.value", value, ";".join(wrong)))
        if not effect:
            errors.add(required(f"{here}.effect"))
        elif effect not in EFFECTS:
            errors.add(not_supported(f"{here}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            errors.add(duplicate(here, shown(TAINT, taint), "taints must be unique by key and effect pair"))
        seen.add((key, effect))


_is_feature = re.compile("[A-Z][a-zA-Z0-9]*(?:/[a-zA-Z][a-zA-Z0-9]*)*").fullmatch


def _declared_feature_rules(errors: FieldErrors, declared: list[str]) -> None:
    """Names must be sorted, and each once in the list."""
    field, before = "status.declaredFeatures", ""
    for index, name in enumerate(declared):
        if index and name == before:
            errors.add(duplicate(f"{field}[{index}]", name))
        elif index and name < before:
            errors.add(invalid(f"{field}[{index}]", name, "list must be sorted alphabetically"))
        if not _is_feature(name):
            text = (
                f"invalid feature name {quoted_start(name)}: must start with an UpperCamelCase segment, with "
                "subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain "
                "only alphanumeric characters and slashes"
            )
            errors.add(invalid(f"{field}[{index}]", name, text))
        before = name


def _pod_cidr_rules(errors: FieldErrors, networks: list[str]) -> None:
    field = "spec.podCIDRs"
    parsed, all_networks = [parse_network(text) for text in networks], Repeated(lambda: networks)
    for index, network in enumerate(parsed):
        if ADDRESSES_CHECKED_ALIKE in errors.features:
            cidr_rules(errors, f"{field}[{index}]", networks[index])
        elif network is None:
            errors.add(invalid(f"{field}[{index}]", all_networks, "must be valid CIDR"))
    if len(networks) < 2:
        return
    families = {None if network is None else network.version for network in parsed}
    if None in families:
        errors.add(_unparsable_cidr(networks[parsed.index(None)]))
    if families != {4, 6} or len(networks) > 2:
        errors.add(invalid(field, networks, "may specify no more than one CIDR for each IP family"))
    seen: set[str] = set()
    for index, text in enumerate(() if ADDRESSES_AND_NETWORKS in errors.features else networks):
        if text in seen:
            errors.add(duplicate(f"{field}[{index}]", text))
        seen.add(text)


def _unparsable_cidr(text: str) -> FieldError:
    why = f"failed to parse cidr value:{quoted_start(text)} with error:invalid CIDR address: {text}"
    return undecided("spec.podCIDRs", f"invalid PodCIDRs. failed to check with dual stack with error:{why}")


def _address_rules(errors: FieldErrors, addresses: list[Object]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(addresses):
        key = (address["type"], address["address"])
        if key in seen:
            errors.add(duplicate(f"status.addresses[{index}]", address))
        seen.add(key)


def _set_once_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """podCIDRs and providerID may be set once, and not changed afterwards."""
    before, after = old.get("podCIDRs", []), new.get("podCIDRs", [])
    text = 'node updates may not change podCIDR except from "" to valid'
    if before and len(before) != len(after):
        errors.add(forbidden("spec.podCIDRs", text))
    elif before:
        changed = [1 for one, other in zip(before, after, strict=True) if one != other]
        for _ in changed:
            errors.add(forbidden("spec.podCIDRs", text))
    if old.get("providerID") and old["providerID"] != new.get("providerID"):
        text = 'node updates may not change providerID except from "" to valid'
        errors.add(forbidden("spec.providerID", text))


def _external_id_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    if new.get("externalID", "") != old.get("externalID", ""):
        errors.add(forbidden("spec.externalID", "may not be updated"))


def _status_cell(stored: Object, _: int) -> str:
    conditions = {one["type"]: one.get("status") for one in stored.get("status", {}).get("conditions", ())}
    ready = conditions.get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if stored.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles_cell(names: Names) -> Cell:
    prefix, role = names.key("", prefix="node-role"), names.key("role")

    def cell(stored: Object, _: int) -> str:
        labels = stored["metadata"].get("labels", {})
        roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} | {
            labels.get(role, "")
        }
        return ",".join(sorted(roles - {""})) or NONE

    return cell


def _address_column(kind: str) -> Column:
    def cell(stored: Object, _: int) -> str:
        for address in stored.get("status", {}).get("addresses", ()):
            if address["type"] == kind.replace("-", ""):
                return str(address["address"])
        return NONE

    return Column(kind, "string", f"{kind} address of the node.", cell, priority=1)


def _reported_column(name: str, field: str, description: str) -> Column:
    value = at("status", "nodeInfo", field)
    return Column(name, "string", description, lambda stored, now: value(stored, now) or UNKNOWN, priority=1)


_KERNEL: Final = _reported_column("Kernel-Version", "kernelVersion", "Kernel it reports.")


def _kernel_and_architecture(stored: Object, now: int) -> str:
    architecture = at("status", "nodeInfo", "architecture")(stored, now)
    kernel = str(_KERNEL.cell(stored, now))
    return f"{kernel} ({architecture})" if architecture else kernel


def node_columns(names: Names) -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Status", "string", "Ready, NotReady or Unknown; whether pods may be placed there.", _status_cell
        ),
        Column("Roles", "string", "Roles named by the labels of the node.", _roles_cell(names)),
        AGE,
        Column("Version", "string", "Version of the kubelet.", at("status", "nodeInfo", "kubeletVersion")),
        _address_column("Internal-IP"),
        _address_column("External-IP"),
        _reported_column("OS-Image", "osImage", "Operating system it reports."),
        replace(_KERNEL, until="1.35"),
        replace(_KERNEL, cell=_kernel_and_architecture, since="1.36"),
        _reported_column("Container-Runtime", "containerRuntimeVersion", "Container runtime it reports."),
    )
