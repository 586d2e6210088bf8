"""The storage group: storage classes, CSI drivers with their nodes and capacities, and volume attachments.

CSIDriver says how the cluster uses a CSI driver; most of its fields are immutable, and `seLinuxMount` belongs to the
feature SELinuxMountReadWriteOncePod. CSINode lists the CSI drivers of the node of the same name; entries can be added
and removed, but not changed. CSIStorageCapacity is how much capacity a driver has for a storage class in a topology
segment, served in two versions with the same fields; nodeTopology and storageClassName are immutable. StorageClass has
the parameters for the dynamic provisioning of volumes. VolumeAttachment is a request to attach a volume to a node, and
its outcome; the spec is immutable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from rewound.actors.kinds.core.node_selector import (
    DeprecatedLabels,
    deprecated_labels,
    label_warnings,
    requirement_warnings,
)
from rewound.actors.kinds.core.persistent_volumes import VOLUME_SPEC as PERSISTENT_VOLUME_SPEC
from rewound.actors.kinds.core.persistent_volumes import VolumeRules
from rewound.actors.kinds.core.volume_sources import driver_name_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Cell, Column, at
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Deletion,
    DiscoveryNames,
    Storage,
    Strategy,
    Table,
    clear_status,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldErrors,
    between,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    reworded,
    size,
    too_long,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ATTACHERS_ARE_DRIVERS,
    CAPACITIES_VALIDATED_ONCE,
    CLASSES_IMMUTABLE,
    CLASSES_STABLE,
    CLASSES_VALIDATED_TWICE,
    DRIVERS_OF_NODES,
    MUTABLE_DRIVERS,
    MUTABLE_LIMITS,
    SE_LINUX_MOUNT,
    STORAGE_VALIDATED_ONCE,
    TOKENS_IN_SECRETS,
    VOLUME_LIMITS,
)

GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
MIN_TOKEN_SECONDS: Final = 10 * 60
MAX_TOKEN_SECONDS: Final = 1 << 32

TOKEN_REQUEST = Struct(
    "storage.v1.TokenRequest",
    Field("audience", STRING, 1, required=True, always=True),
    Field("expirationSeconds", INT64, 2, pointer=True),
)
CSI_DRIVER_SPEC = Struct(
    "storage.v1.CSIDriverSpec",
    Field("attachRequired", BOOL, 1, pointer=True, default=True),
    Field("podInfoOnMount", BOOL, 2, pointer=True, default=False),
    Field("volumeLifecycleModes", STRINGS, 3, list_type="set", default=lambda: ["Persistent"]),
    Field("storageCapacity", BOOL, 4, pointer=True, default=False),
    Field("fsGroupPolicy", STRING, 5, pointer=True, default="ReadWriteOnceWithFSType"),
    Field("tokenRequests", ListOf(TOKEN_REQUEST), 6, list_type="atomic"),
    Field("requiresRepublish", BOOL, 7, pointer=True, default=False),
    Field("seLinuxMount", BOOL, 8, pointer=True, gate=SE_LINUX_MOUNT),
    Field(
        "nodeAllocatableUpdatePeriodSeconds",
        INT64,
        9,
        pointer=True,
        since="1.33",
        gate=MUTABLE_LIMITS,
    ),
    Field("preventPodSchedulingIfMissing", BOOL, 11, pointer=True, since="1.36", gate=VOLUME_LIMITS),
    Field(
        "serviceAccountTokenInSecrets",
        BOOL,
        10,
        pointer=True,
        since="1.35",
        gate=TOKENS_IN_SECRETS,
    ),
)
CSI_DRIVER = Struct("storage.v1.CSIDriver", METADATA, Field("spec", CSI_DRIVER_SPEC, 2, required=True))

# Immutable fields, and their paths in errors as Kubernetes writes them (one is misspelled there).
_IMMUTABLE: Final = {
    "attachRequired": "spec.attachedRequired",
    "fsGroupPolicy": "spec.fsGroupPolicy",
    "podInfoOnMount": "spec.podInfoOnMount",
    "volumeLifecycleModes": "spec.volumeLifecycleModes",
}
_MUTABLE_LATER: Final = frozenset(("fsGroupPolicy", "podInfoOnMount"))
SHORTEST_UPDATE_PERIOD: Final = 10  # seconds
TOKENS_WARNING: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
    "set to true to prevent possible logging of tokens in volume attributes"
)


def _boolean_column(name: str, part: str, description: str, *, default: bool) -> Column:
    return Column(name, "boolean", description, at("spec", part, missing=default))


def _audiences_cell(stored: Object, _: int) -> str:
    requests = stored["spec"].get("tokenRequests")
    return "<unset>" if requests is None else ",".join(one["audience"] for one in requests)


CSI_DRIVER_COLUMNS: Final = (
    NAME,
    _boolean_column(
        "AttachRequired",
        "attachRequired",
        "Whether volumes are attached before they are mounted.",
        default=True,
    ),
    _boolean_column(
        "PodInfoOnMount",
        "podInfoOnMount",
        "Whether mount calls contain information about the pod.",
        default=False,
    ),
    _boolean_column(
        "StorageCapacity",
        "storageCapacity",
        "Whether it publishes CSIStorageCapacity objects.",
        default=False,
    ),
    Column("TokenRequests", "string", "Audiences of the service account tokens it gets.", _audiences_cell),
    _boolean_column(
        "RequiresRepublish",
        "requiresRepublish",
        "Whether mounted volumes are republished periodically.",
        default=False,
    ),
    Column(
        "Modes",
        "string",
        "Volume lifecycle modes that it supports.",
        lambda stored, _: ",".join(stored["spec"].get("volumeLifecycleModes", ())) or NONE,
    ),
    AGE,
)


def define_csi_driver(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    defaults = {
        part: False
        for part, gate in (("seLinuxMount", SE_LINUX_MOUNT), ("preventPodSchedulingIfMissing", VOLUME_LIMITS))
        if gate in features
    }
    counted = () if MUTABLE_DRIVERS in features else ("tokenRequests", "requiresRepublish", "seLinuxMount")
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSIDriver",
        plural="csidrivers",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=CSI_DRIVER,
        set_defaults=partial(set_csi_driver_defaults, defaults) if defaults else None,
        deletion=Deletion(returns_object=True),
        table=Table(CSI_DRIVER_COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_update=partial(prepare_update_csi_driver, counted),
            validate_create=csi_driver_rules,
            validate_update=csi_driver_update_rules,
            warnings=csi_driver_warnings if TOKENS_IN_SECRETS in features else None,
        ),
    )


def set_csi_driver_defaults(defaults: Object, new: Object) -> None:
    new["spec"] = CSI_DRIVER_SPEC.arranged({**defaults, **new["spec"]})


def prepare_update_csi_driver(counted: tuple[str, ...], new: Object, old: Object) -> None:
    """The generation counts changes of some fields, or of all; it is absent until the first such change."""
    spec, before = new["spec"], old["spec"]
    if any(spec.get(part) != before.get(part) for part in counted or (*spec, *before)):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def csi_driver_warnings(new: Object, old: Object | None) -> list[str]:
    tokens = new["spec"].get("tokenRequests")
    if not tokens or "serviceAccountTokenInSecrets" in new["spec"]:
        return []
    return [] if old is not None and old["spec"].get("tokenRequests") == tokens else [TOKENS_WARNING]


def csi_driver_rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    if spec["fsGroupPolicy"] not in GROUP_POLICIES:
        errors.add(not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], GROUP_POLICIES))
    _tokens(errors, spec)
    for mode in spec["volumeLifecycleModes"]:
        if mode not in LIFECYCLE_MODES:
            errors.add(not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < SHORTEST_UPDATE_PERIOD:
        text = "must be greater than or equal to 10 seconds"
        errors.add(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.add(invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))


def csi_driver_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    csi_driver_rules(errors, new)
    mutable = MUTABLE_DRIVERS in errors.features
    for part, field in _IMMUTABLE.items():
        if not (mutable and part in _MUTABLE_LATER):
            unchanged(errors, field, new["spec"][part], old["spec"][part])
    if not mutable:
        _tokens(errors, new["spec"])


def _tokens(errors: FieldErrors, spec: Object) -> None:
    seen: set[str] = set()
    for index, token in enumerate(spec.get("tokenRequests", ())):
        field = f"spec.tokenRequests[{index}]"
        if token["audience"] in seen:
            errors.add(duplicate(f"{field}.audience", token["audience"]))
        else:
            _lifetime(errors, token.get("expirationSeconds"), f"{field}.expirationSeconds")
        seen.add(token["audience"])


def _lifetime(errors: FieldErrors, seconds: int | None, field: str) -> None:
    if seconds is None or MIN_TOKEN_SECONDS <= seconds <= MAX_TOKEN_SECONDS:
        return
    limit = "less than 10 minutes" if seconds < MIN_TOKEN_SECONDS else "larger than 2^32 seconds"
    errors.add(invalid(field, seconds, f"may not specify a duration {limit}"))


LONGEST_NODE_ID: Final = 256

VOLUME_RESOURCES = Struct("storage.v1.VolumeNodeResources", Field("count", INT32, 1, pointer=True))
CSI_NODE_DRIVER = Struct(
    "storage.v1.CSINodeDriver",
    Field("name", STRING, 1, required=True, always=True),
    Field("nodeID", STRING, 2, required=True, always=True),
    Field("topologyKeys", STRINGS, 3, always=True, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("allocatable", VOLUME_RESOURCES, 4, pointer=True),
)
CSI_NODE_SPEC = Struct(
    "storage.v1.CSINodeSpec",
    Field(
        "drivers",
        ListOf(CSI_NODE_DRIVER),
        1,
        required=True,
        always=True,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
)
CSI_NODE = Struct("storage.v1.CSINode", METADATA, Field("spec", CSI_NODE_SPEC, 2, required=True))


def define_csi_node(names: Names) -> Definition:
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSINode",
        plural="csinodes",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=CSI_NODE,
        deletion=Deletion(returns_object=True),
        table=Table(
            (
                NAME,
                Column(
                    "Drivers",
                    "integer",
                    "Number of drivers.",
                    lambda stored, _: len(stored["spec"]["drivers"] or ()),
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            allow_unconditional_update=False,
            validate_create=csi_node_rules,
            validate_update=csi_node_update_rules,
        ),
    )


def csi_node_rules(errors: FieldErrors, new: Object) -> None:
    seen: set[str] = set()
    for index, driver in enumerate(new["spec"]["drivers"] or ()):
        _driver(errors, driver, f"spec.drivers[{index}]", repeated=driver["name"] in seen)
        seen.add(driver["name"])


def csi_node_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    own = errors.added_by(metadata_rules, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    own += errors.added_by(csi_node_rules, new)
    if ATTACHERS_ARE_DRIVERS not in errors.features:
        errors.add_all(own)
    _immutable_drivers(errors, new, old)


def _immutable_drivers(errors: FieldErrors, new: Object, old: Object) -> None:
    field = "spec.drivers" if DRIVERS_OF_NODES in errors.features else "CSINodeDriver"
    mutable = ("allocatable",) if MUTABLE_LIMITS in errors.features else ()
    by_name: dict[str, list[Object]] = {}
    for driver in new["spec"]["drivers"] or ():
        by_name.setdefault(driver["name"], []).append(driver)
    for one in old["spec"]["drivers"] or ():
        # Stored names are unique: each driver is compared once.
        for sent in by_name.pop(one["name"], ()):
            before, after = ({k: v for k, v in each.items() if k not in mutable} for each in (one, sent))
            if after != before:
                errors.add(invalid(field, shown(CSI_NODE_DRIVER, after), IMMUTABLE))


def _driver(errors: FieldErrors, driver: Object, field: str, *, repeated: bool) -> None:
    driver_name_rules(errors, driver["name"], f"{field}.name")
    _node_id(errors, driver["nodeID"], f"{field}.nodeID")
    count = driver.get("allocatable", {}).get("count", 0)
    if count < 0:
        errors.add(invalid(f"{field}.allocatable.count", count, NEGATIVE))
    if repeated:
        errors.add(duplicate(f"{field}.name", driver["name"]))
    _topology(errors, driver["topologyKeys"] or [], field)


def _node_id(errors: FieldErrors, node_id: str, field: str) -> None:
    if not node_id:
        errors.add(required(field))
        return
    if size(node_id) > LONGEST_NODE_ID:
        errors.add(invalid(field, node_id, f"must be {LONGEST_NODE_ID} characters or less"))


def _topology(errors: FieldErrors, keys: list[str], field: str) -> None:
    """As in Kubernetes, errors name the path of the driver instead of the key."""
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.add(required(field))
        if key in seen:
            errors.add(duplicate(field, key))
        seen.add(key)
        errors.add_each(field, key, qualified_name(key))


CSI_STORAGE_CAPACITY = Struct(
    "storage.v1.CSIStorageCapacity",
    METADATA,
    Field("nodeTopology", LABEL_SELECTOR, 2, pointer=True),
    Field("storageClassName", STRING, 3, required=True, always=True),
    Field("capacity", QUANTITY, 4, pointer=True),
    Field("maximumVolumeSize", QUANTITY, 5, pointer=True),
)
CAPACITY_BETA = Struct("storage.v1beta1.CSIStorageCapacity", *CSI_STORAGE_CAPACITY.fields)


def define_capacity(names: Names) -> Definition:
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSIStorageCapacity",
        plural="csistoragecapacities",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CSI_STORAGE_CAPACITY,
        strategy=Strategy(
            allow_unconditional_update=False,
            validate_create=capacity_create_rules,
            validate_update=capacity_update_rules,
            warnings=partial(capacity_warnings, deprecated_labels(names)),
        ),
    )


def define_beta_capacity(names: Names) -> Definition:
    stored, group = define_capacity(names), names.group("storage")
    return replace(
        stored,
        version="v1beta1",
        fields=CAPACITY_BETA,
        until="1.26",
        storage=Storage(
            stored_as=stored.type_name, conversion=Conversion(to_storage=dict, from_storage=dict)
        ),
        deprecation_warning=f"{group}/v1beta1 CSIStorageCapacity is deprecated in v1.24+, unavailable in v1.27+; "
        f"use {group}/v1 CSIStorageCapacity",
    )


def capacity_rules(errors: FieldErrors, new: Object) -> None:
    label_selector_rules(errors, new.get("nodeTopology"), "nodeTopology")
    errors.add_each("storageClassName", new["storageClassName"], dns_subdomain(new["storageClassName"]))
    if new.get("capacity", "").startswith("-"):
        errors.add(invalid("capacity", new["capacity"], NEGATIVE))


def capacity_create_rules(errors: FieldErrors, new: Object) -> None:
    """Before 1.28, Kubernetes reports every error of a create twice, including those of metadata."""
    own = errors.added_by(capacity_rules, new)
    if CAPACITIES_VALIDATED_ONCE in errors.features:
        return
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    errors.add_all(own)


def capacity_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    capacity_rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for part in ("nodeTopology", "storageClassName"):
        if new.get(part) != old.get(part):
            errors.add(invalid(part, new.get(part), IMMUTABLE))


def capacity_warnings(known: DeprecatedLabels, new: Object, _: Object | None) -> list[str]:
    topology = new.get("nodeTopology", {})
    requirements = topology.get("matchExpressions", ())
    found = requirement_warnings(known, requirements, "nodeTopology.matchExpressions")
    for key in topology.get("matchLabels", ()):
        found += label_warnings(known, (key,), f"nodeTopology.matchLabels.{key}")
    return found


MAX_PARAMETERS: Final = 512
MAX_PARAMETER_BYTES: Final = 256 * 1024
RECLAIM_POLICIES: Final = ("Delete", "Retain")
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")

STORAGE_CLASS_REQUIREMENT = Struct(
    "core.v1.TopologySelectorLabelRequirement",
    Field("key", STRING, 1, required=True, always=True),
    Field(
        "values",
        STRINGS,
        2,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
STORAGE_CLASS_TERM = Struct(
    "core.v1.TopologySelectorTerm",
    Field(
        "matchLabelExpressions",
        ListOf(STORAGE_CLASS_REQUIREMENT),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    atomic=True,
)
STORAGE_CLASS = Struct(
    "storage.v1.StorageClass",
    METADATA,
    Field("provisioner", STRING, 2, required=True, always=True),
    Field("parameters", STRING_MAP, 3),
    Field("reclaimPolicy", STRING, 4, pointer=True, default="Delete"),
    Field("mountOptions", STRINGS, 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("allowVolumeExpansion", BOOL, 6, pointer=True),
    Field("volumeBindingMode", STRING, 7, pointer=True, default="Immediate"),
    Field("allowedTopologies", ListOf(STORAGE_CLASS_TERM), 8, list_type="atomic"),
)


def define_storage_class(names: Names) -> Definition:
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="StorageClass",
        plural="storageclasses",
        names=DiscoveryNames(short_names=("sc",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=STORAGE_CLASS,
        deletion=Deletion(returns_object=True),
        table=Table(
            (
                Column("Name", "string", NAME.description, _name_cell(names), format="name"),
                Column("Provisioner", "string", "Provisioner of the volumes.", at("provisioner")),
                Column(
                    "ReclaimPolicy",
                    "string",
                    "What happens to a released volume.",
                    at("reclaimPolicy", missing="Delete"),
                ),
                Column(
                    "VolumeBindingMode",
                    "string",
                    "When volumes are bound and provisioned.",
                    at("volumeBindingMode", missing="<unset>"),
                ),
                Column(
                    "AllowVolumeExpansion",
                    "string",
                    "Whether claims can be expanded.",
                    at("allowVolumeExpansion", missing=False),
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            validate_create=storage_class_rules,
            validate_update=storage_class_update_rules,
            warnings=partial(storage_class_warnings, deprecated_labels(names)),
        ),
    )


class DefaultClassMarks:
    """The annotations that make a StorageClass the default one."""

    def __init__(self, names: Names) -> None:
        self._keys = tuple(
            names.key("is-default-class", prefix) for prefix in ("storageclass", "storageclass.beta")
        )

    def are_on(self, stored: Object) -> bool:
        annotations = stored["metadata"].get("annotations") or {}
        return any(annotations.get(key) == "true" for key in self._keys)


def _name_cell(names: Names) -> Cell:
    """The name, with " (default)" for the default class."""
    marks = DefaultClassMarks(names)

    def cell(stored: Object, _: int) -> str:
        return str(stored["metadata"].get("name", "")) + (" (default)" if marks.are_on(stored) else "")

    return cell


def storage_class_rules(errors: FieldErrors, new: Object) -> None:
    _provisioner(errors, new["provisioner"])
    _parameters(errors, new.get("parameters", {}))
    _reclaim_policy(errors, new.get("reclaimPolicy", ""))
    _binding_mode(errors, new.get("volumeBindingMode"))
    _topologies(errors, new.get("allowedTopologies", []))


def storage_class_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    storage_class_rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for part in ("parameters", "provisioner", "reclaimPolicy"):
        if CLASSES_IMMUTABLE in errors.features:
            unchanged(errors, part, new.get(part), old.get(part))
        elif new.get(part) != old.get(part):
            errors.add(forbidden(part, f"updates to {part} are forbidden."))
    unchanged(errors, "volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode"))


def _provisioner(errors: FieldErrors, name: str, field: str = "provisioner") -> None:
    if not name:
        errors.add(required(field))
    else:
        errors.add_each(field, name.lower(), qualified_name(name.lower()))


def _parameters(errors: FieldErrors, parameters: dict[str, str]) -> None:
    if len(parameters) > MAX_PARAMETERS:
        errors.add(too_long("parameters", MAX_PARAMETERS))
        return
    if "" in parameters:
        errors.add(invalid("parameters", "", "field can not be empty."))
    if sum(size(key) + size(value) for key, value in parameters.items()) > MAX_PARAMETER_BYTES:
        errors.add(too_long("parameters", MAX_PARAMETER_BYTES))


def _reclaim_policy(errors: FieldErrors, policy: str) -> None:
    if policy and policy not in RECLAIM_POLICIES:
        errors.add(not_supported("reclaimPolicy", policy, RECLAIM_POLICIES))


def _binding_mode(errors: FieldErrors, mode: str | None) -> None:
    if mode is None:
        errors.add(required("volumeBindingMode"))
    elif mode not in BINDING_MODES:
        errors.add(not_supported("volumeBindingMode", mode, BINDING_MODES))


def _topologies(errors: FieldErrors, terms: list[Object]) -> None:
    """Terms must differ from each other. As in Kubernetes, an empty term gets one duplicate error for each term."""
    seen = Counter({frozenset[tuple[str, frozenset[str]]](): len(terms)})
    for index, term in enumerate(terms):
        field = f"allowedTopologies[{index}].matchLabelExpressions"
        found = frozenset(_term(errors, term, field).items())
        for _ in range(seen[found]):
            errors.add(duplicate(field, ""))
        seen[found] += 1


def _term(errors: FieldErrors, term: Object, field: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for index, requirement in enumerate(term.get("matchLabelExpressions", ())):
        here, key = f"{field}[{index}]", requirement["key"]
        _requirement(errors, requirement, here)
        if key in found:
            errors.add(duplicate(f"{here}.key", key))
        found[key] = frozenset(requirement["values"] or ())
    return found


def _requirement(errors: FieldErrors, requirement: Object, field: str) -> None:
    values = requirement["values"] or []
    if not values:
        errors.add(required(f"{field}.values"))
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.add(duplicate(f"{field}.values[{index}]", value))
        seen.add(value)
    errors.add_each(f"{field}.key", requirement["key"], qualified_name(requirement["key"]))


def storage_class_warnings(known: DeprecatedLabels, new: Object, _: Object | None) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {known[requirement['key']]}"
        for i, term in enumerate(new.get("allowedTopologies", ()))
        for j, requirement in enumerate(term.get("matchLabelExpressions", ()))
        if requirement["key"] in known
    ]


MAX_METADATA_BYTES: Final = 256 * 1024
MAX_MESSAGE_BYTES: Final = 1024
EXACTLY_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"

ATTACHMENT_SOURCE = Struct(
    "storage.v1.VolumeAttachmentSource",
    Field("persistentVolumeName", STRING, 1, pointer=True),
    Field("inlineVolumeSpec", PERSISTENT_VOLUME_SPEC, 2, pointer=True),
)
ATTACHMENT_SPEC = Struct(
    "storage.v1.VolumeAttachmentSpec",
    Field("attacher", STRING, 1, required=True, always=True),
    Field("source", ATTACHMENT_SOURCE, 2, required=True),
    Field("nodeName", STRING, 3, required=True, always=True),
)
ATTACHMENT_ERROR = Struct(
    "storage.v1.VolumeError",
    Field("time", TIME, 1),
    Field("message", STRING, 2),
    Field("errorCode", INT32, 3, pointer=True, since="1.33", gate=MUTABLE_LIMITS),
)
ATTACHMENT_STATUS = Struct(
    "storage.v1.VolumeAttachmentStatus",
    Field("attached", BOOL, 1, required=True, always=True),
    Field("attachmentMetadata", STRING_MAP, 2),
    Field("attachError", ATTACHMENT_ERROR, 3, pointer=True),
    Field("detachError", ATTACHMENT_ERROR, 4, pointer=True),
)
VOLUME_ATTACHMENT = Struct(
    "storage.v1.VolumeAttachment",
    METADATA,
    Field("spec", ATTACHMENT_SPEC, 2, required=True),
    Field("status", ATTACHMENT_STATUS, 3),
)


ATTACHMENT_COLUMNS: Final = (
    NAME,
    Column(
        "Attacher", "string", "CSI driver that attaches the volume.", at("spec", "attacher"), format="name"
    ),
    Column("PV", "string", "PersistentVolume to attach.", at("spec", "source", "persistentVolumeName")),
    Column("Node", "string", "Node to attach the volume to.", at("spec", "nodeName")),
    Column("Attached", "boolean", "Whether the volume is attached.", at("status", "attached")),
    AGE,
)


def define_attachment(names: Names) -> Definition:
    rules = AttachmentRules(names)
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="VolumeAttachment",
        plural="volumeattachments",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=VOLUME_ATTACHMENT,
        subresources=(status_subresource(rules.validate_update),),
        deletion=Deletion(returns_object=True),
        table=Table(ATTACHMENT_COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=partial(clear_status, ATTACHMENT_STATUS),
            prepare_for_update=keep_status,
            validate_create=rules.validate_create,
            validate_update=rules.validate_update,
        ),
    )


class AttachmentRules:
    def __init__(self, names: Names) -> None:
        self._volumes = VolumeRules(names)

    def validate_create(self, errors: FieldErrors, new: Object) -> None:
        """Before 1.36, names of new attachments have stricter rules than those of existing ones."""
        self._validate(errors, new)
        if ATTACHERS_ARE_DRIVERS not in errors.features:
            driver_name_rules(errors, new["spec"]["attacher"], "spec.attacher")
            _volume_name_rules(errors, new)

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        own = errors.added_by(metadata_rules, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        own += errors.added_by(self._validate, new)
        if STORAGE_VALIDATED_ONCE not in errors.features:
            errors.add_all(own)
        if new["spec"] != old["spec"]:
            errors.add(invalid("spec", shown(ATTACHMENT_SPEC, new["spec"]), IMMUTABLE))

    def _validate(self, errors: FieldErrors, new: Object) -> None:
        spec = new["spec"]
        if ATTACHERS_ARE_DRIVERS in errors.features:
            driver_name_rules(errors, spec["attacher"], "spec.attacher")
        elif not spec["attacher"]:
            errors.add(required("spec.attacher"))
        self._source(errors, spec["source"], "spec.source")
        errors.add_each("spec.nodeName", spec["nodeName"], dns_subdomain(spec["nodeName"]))
        _status_rules(errors, new["status"])
        if ATTACHERS_ARE_DRIVERS in errors.features:
            _volume_name_rules(errors, new)

    def _source(self, errors: FieldErrors, source: Object, field: str) -> None:
        name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        if name is None and inline is None:
            errors.add(required(field, EXACTLY_ONE_SOURCE))
            return
        if name is not None and inline is not None:
            errors.add(forbidden(field, EXACTLY_ONE_SOURCE))
            return
        if inline is not None:
            self._volumes.validate_inline(errors, inline, f"{field}.inlineVolumeSpec")
            return
        text = "must specify non empty persistentVolumeName"
        if not name:
            errors.add(required(f"{field}.persistentVolumeName", text))


def _volume_name_rules(errors: FieldErrors, new: Object) -> None:
    name = new["spec"]["source"].get("persistentVolumeName")
    if name is not None:
        errors.add_each("spec.source.persistentVolumeName", name, dns_subdomain(name))


def _status_rules(errors: FieldErrors, status: Object) -> None:
    metadata = status.get("attachmentMetadata", {})
    if sum(size(key) + size(value) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        errors.add(too_long("status.attachmentMetadata", MAX_METADATA_BYTES))
    for part in ("attachError", "detachError"):
        if size(status.get(part, {}).get("message", "")) > MAX_MESSAGE_BYTES:
            # As in Kubernetes, the error names another limit than the one that is enforced.
            errors.add(too_long(f"status.{part}.message", MAX_METADATA_BYTES))
        code = status.get(part, {}).get("errorCode", 0)
        if code < 0:
            errors.add(invalid(f"status.{part}.errorCode", code, between(0, 2**31 - 1)))


def attributes_class(version: str) -> Struct:
    return Struct(
        f"storage.{version}.VolumeAttributesClass",
        METADATA,
        Field("driverName", STRING, 2, required=True, always=True),
        Field("parameters", STRING_MAP, 3),
    )


def define_attributes_classes(names: Names) -> tuple[Definition, ...]:
    """VolumeAttributesClass, whose parameters a driver applies to volumes that exist. v1 is stored."""
    group = names.group("storage")
    stored = Definition(
        group=group,
        version="v1",
        kind="VolumeAttributesClass",
        plural="volumeattributesclasses",
        names=DiscoveryNames(short_names=("vac",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=attributes_class("v1"),
        since="1.34",
        deletion=Deletion(returns_object=True),
        table=Table(
            (NAME, Column("DriverName", "string", "CSI driver of the volumes.", at("driverName")), AGE)
        ),
        strategy=Strategy(
            validate_create=attributes_class_rules, validate_update=attributes_class_update_rules
        ),
    )
    view = replace(
        stored,
        storage=Storage(
            stored_as=stored.type_name, conversion=Conversion(to_storage=dict, from_storage=dict)
        ),
        on_by_default=False,
    )
    described = f"{stored.kind} is deprecated in v"
    alpha = f"{stored.group}/v1alpha1 {described}1.32+, unavailable in v1.35+"
    instead = f"; use {stored.group}/v1 {stored.kind}"
    return (
        stored,
        replace(
            view,
            version="v1beta1",
            fields=attributes_class("v1beta1"),
            since="1.31",
            deprecated="1.34",
            deprecation_warning=f"{stored.group}/v1beta1 {described}1.34+, unavailable in v1.37+{instead}",
        ),
        replace(
            view,
            version="v1alpha1",
            fields=attributes_class("v1alpha1"),
            since="1.29",
            until="1.34",
            deprecated="1.32",
            deprecation_warning=reworded(alpha, CLASSES_STABLE, alpha + instead),
        ),
    )


def attributes_class_rules(errors: FieldErrors, new: Object) -> None:
    _provisioner(errors, new["driverName"], "driverName")
    parameters = new.get("parameters", {})
    _parameters(errors, parameters)
    if not parameters:
        errors.add(required("parameters", "must contain at least one key/value pair"))


def attributes_class_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """Errors of the class itself come first in 1.29, first and last until 1.34, last in later versions."""
    last = STORAGE_VALIDATED_ONCE in errors.features
    own = [] if last else errors.added_by(_changed_class_rules, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for part in ("driverName", "parameters"):
        if new.get(part) != old.get(part):
            errors.add(forbidden(part, f"updates to {part} are forbidden."))
    if CLASSES_VALIDATED_TWICE in errors.features:
        errors.add_all(own)
    if last:
        _changed_class_rules(errors, new)


def _changed_class_rules(errors: FieldErrors, new: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    attributes_class_rules(errors, new)


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return (
        define_csi_driver(names, features),
        define_csi_node(names),
        define_capacity(names),
        define_storage_class(names),
        define_attachment(names),
        define_beta_capacity(names),
        *define_attributes_classes(names),
    )
