"""PersistentVolume, storage that exists independently of the claims to it, and PersistentVolumeClaim, a request for
storage.

The source and the volume mode of a volume are immutable; its class, size and claim reference can change. A volume has
no namespace, so its sources name secrets with their namespace; the sources of pods do not. The secret with which
nodes expand a volume and the ReadWriteOncePod access mode depend on feature gates.

A claim is bound to a matching volume. Its spec is immutable after creation, except that bound claims may grow.
`dataSource` and `dataSourceRef` mirror each other; the older one accepts only claims and snapshots and silently drops
anything else. Two fields of the status depend on a feature gate: while it is off they are dropped, and while it is on
a claim may shrink again to a size above its capacity.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rewound.actors.golang.format import Formatted
from rewound.actors.kinds.core.node_selector import (
    NODE_SELECTOR,
    deprecated_labels,
    has_invalid_values,
    newer_labels,
    node_selector_rules,
    requirement_warnings,
)
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.core.resources import round_up
from rewound.actors.kinds.core.volume_sources import (
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
    AZURE_DISK_VOLUME_SOURCE,
    FC_VOLUME_SOURCE,
    FLOCKER_VOLUME_SOURCE,
    GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    HOST_PATH_VOLUME_SOURCE,
    NFS_VOLUME_SOURCE,
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    PORTWORX_VOLUME_SOURCE,
    QUOBYTE_VOLUME_SOURCE,
    SOURCE_RULES,
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    driver_name_rules,
    flex_rules,
    iscsi_name,
    needs,
    unit_rules,
)
from rewound.actors.kinds.core.volumes import (
    ACCESS_MODES,
    PERSISTENT_VOLUME_CLAIM_SPEC,
    VOLUME_MODES,
    access_modes,
    claim_spec_rules,
)
from rewound.actors.kinds.declaration.columns import AGE, NAME, Cell, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    QUANTITIES,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import internal_difference, shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    dns_label,
    dns_subdomain,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    unchanged,
    without_backsteps,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import NANOS, nanos_of
from rewound.actors.versions.features import (
    AFFINITY_VALUES,
    ATTRIBUTES_CLASSES,
    CLAIM_WARNINGS,
    CLASS_OF_BOUND_CLAIMS,
    CLASS_REMOVABLE,
    DROPPED_CLASSES,
    FOREIGN_SOURCES,
    GROUPS_OF_SOURCES,
    INFEASIBLE_RESIZES,
    JSON_IN_TEXTS,
    MOUNT_OPTIONS_WARNING,
    MUTABLE_AFFINITY,
    NAMED_RESOURCE_STATUSES,
    NODE_EXPAND_SECRET,
    PHASE_TIMES,
    READ_WRITE_ONCE_POD,
    RECOVER_EXPANSION,
    RECYCLE_WARNING,
    RELABELLED_AFFINITY,
    RESOURCE_STATUSES,
    RETROACTIVE_CLASS,
    STORAGE_VALIDATED_ONCE,
    VOLUME_WARNINGS,
)

ONE_SOURCE: Final = "may not specify more than 1 volume type"
LONGEST_INITIATOR: Final = 64

SECRET_REFERENCE = Struct(
    "core.v1.SecretReference", Field("name", STRING, 1), Field("namespace", STRING, 2), atomic=True
)
GLUSTERFS = Struct(
    "core.v1.GlusterfsPersistentVolumeSource",
    Field("endpoints", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
    Field("endpointsNamespace", STRING, 4, pointer=True),
)
RBD = Struct(
    "core.v1.RBDPersistentVolumeSource",
    Field(
        "monitors",
        STRINGS,
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("image", STRING, 2, required=True, always=True),
    Field("fsType", STRING, 3),
    Field("pool", STRING, 4, default="rbd"),
    Field("user", STRING, 5, default="admin"),
    Field("keyring", STRING, 6, default="/etc/ceph/keyring"),
    Field("secretRef", SECRET_REFERENCE, 7, pointer=True),
    Field("readOnly", BOOL, 8),
)
ISCSI = Struct(
    "core.v1.ISCSIPersistentVolumeSource",
    Field("targetPortal", STRING, 1, required=True, always=True),
    Field("iqn", STRING, 2, required=True, always=True),
    Field("lun", INT32, 3, required=True, always=True),
    Field("iscsiInterface", STRING, 4, default="default"),
    Field("fsType", STRING, 5),
    Field("readOnly", BOOL, 6),
    Field("portals", STRINGS, 7, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("chapAuthDiscovery", BOOL, 8),
    Field("chapAuthSession", BOOL, 11),
    Field("secretRef", SECRET_REFERENCE, 10, pointer=True),
    Field("initiatorName", STRING, 12, pointer=True),
)
CINDER = Struct(
    "core.v1.CinderPersistentVolumeSource",
    Field("volumeID", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("readOnly", BOOL, 3),
    Field("secretRef", SECRET_REFERENCE, 4, pointer=True),
)
CEPH_FS = Struct(
    "core.v1.CephFSPersistentVolumeSource",
    Field(
        "monitors",
        STRINGS,
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("path", STRING, 2),
    Field("user", STRING, 3),
    Field("secretFile", STRING, 4),
    Field("secretRef", SECRET_REFERENCE, 5, pointer=True),
    Field("readOnly", BOOL, 6),
)
FLEX = Struct(
    "core.v1.FlexPersistentVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("secretRef", SECRET_REFERENCE, 3, pointer=True),
    Field("readOnly", BOOL, 4),
    Field("options", STRING_MAP, 5),
)
AZURE_FILE = Struct(
    "core.v1.AzureFilePersistentVolumeSource",
    Field("secretName", STRING, 1, required=True, always=True),
    Field("shareName", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
    Field("secretNamespace", STRING, 4, pointer=True, always=True),
)
SCALE_IO = Struct(
    "core.v1.ScaleIOPersistentVolumeSource",
    Field("gateway", STRING, 1, required=True, always=True),
    Field("system", STRING, 2, required=True, always=True),
    Field("secretRef", SECRET_REFERENCE, 3, required=True, pointer=True, always=True),
    Field("sslEnabled", BOOL, 4),
    Field("protectionDomain", STRING, 5),
    Field("storagePool", STRING, 6),
    Field("storageMode", STRING, 7, default="ThinProvisioned"),
    Field("volumeName", STRING, 8),
    Field("fsType", STRING, 9, default="xfs"),
    Field("readOnly", BOOL, 10),
)
LOCAL = Struct(
    "core.v1.LocalVolumeSource",
    Field("path", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2, pointer=True),
)
STORAGE_OS = Struct(
    "core.v1.StorageOSPersistentVolumeSource",
    Field("volumeName", STRING, 1),
    Field("volumeNamespace", STRING, 2),
    Field("fsType", STRING, 3),
    Field("readOnly", BOOL, 4),
    Field("secretRef", OBJECT_REFERENCE, 5, pointer=True),
)
CSI = Struct(
    "core.v1.CSIPersistentVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("volumeHandle", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
    Field("fsType", STRING, 4),
    Field("volumeAttributes", STRING_MAP, 5),
    Field("controllerPublishSecretRef", SECRET_REFERENCE, 6, pointer=True),
    Field("nodeStageSecretRef", SECRET_REFERENCE, 7, pointer=True),
    Field("nodePublishSecretRef", SECRET_REFERENCE, 8, pointer=True),
    Field("controllerExpandSecretRef", SECRET_REFERENCE, 9, pointer=True),
    Field("nodeExpandSecretRef", SECRET_REFERENCE, 10, pointer=True),
)
SOURCES: Final = (
    Field("gcePersistentDisk", GCE_PERSISTENT_DISK_VOLUME_SOURCE, 1, embedded=2, pointer=True),
    Field("awsElasticBlockStore", AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, 2, embedded=2, pointer=True),
    Field("hostPath", HOST_PATH_VOLUME_SOURCE, 3, embedded=2, pointer=True),
    Field("glusterfs", GLUSTERFS, 4, embedded=2, pointer=True),
    Field("nfs", NFS_VOLUME_SOURCE, 5, embedded=2, pointer=True),
    Field("rbd", RBD, 6, embedded=2, pointer=True),
    Field("iscsi", ISCSI, 7, embedded=2, pointer=True),
    Field("cinder", CINDER, 8, embedded=2, pointer=True),
    Field("cephfs", CEPH_FS, 9, embedded=2, pointer=True),
    Field("fc", FC_VOLUME_SOURCE, 10, embedded=2, pointer=True),
    Field("flocker", FLOCKER_VOLUME_SOURCE, 11, embedded=2, pointer=True),
    Field("flexVolume", FLEX, 12, embedded=2, pointer=True),
    Field("azureFile", AZURE_FILE, 13, embedded=2, pointer=True),
    Field("vsphereVolume", VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE, 14, embedded=2, pointer=True),
    Field("quobyte", QUOBYTE_VOLUME_SOURCE, 15, embedded=2, pointer=True),
    Field("azureDisk", AZURE_DISK_VOLUME_SOURCE, 16, embedded=2, pointer=True),
    Field("photonPersistentDisk", PHOTON_PERSISTENT_DISK_VOLUME_SOURCE, 17, embedded=2, pointer=True),
    Field("portworxVolume", PORTWORX_VOLUME_SOURCE, 18, embedded=2, pointer=True),
    Field("scaleIO", SCALE_IO, 19, embedded=2, pointer=True),
    Field("local", LOCAL, 20, embedded=2, pointer=True),
    Field("storageos", STORAGE_OS, 21, embedded=2, pointer=True),
    Field("csi", CSI, 22, embedded=2, pointer=True),
)
SOURCE_NAMES: Final = tuple(source.name for source in SOURCES)

# In the order of their errors.
_VALIDATION_ORDER: Final = (
    *(
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "flocker",
        "nfs",
        "rbd",
        "quobyte",
    ),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
# Names of sources in messages where they differ: in paths of fields inside, and for a surplus source.
_NAME_IN_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
_NAME_AS_SURPLUS: Final = {"cephfs": "cephFS"}

Rules = Callable[[FieldErrors, Object, str], None]


class SourceRules:
    """A volume has exactly one valid source. `domains` are the API's own.

    `subdomain_secret_names` accepts secret names that are DNS subdomains. Before 1.27 only volumes older than the rule
    may have them.
    """

    def __init__(self, domains: tuple[str, ...]) -> None:
        self._rules: Mapping[str, Rules] = {
            **SOURCE_RULES,
            "glusterfs": _glusterfs_rules,
            "cinder": partial(_with_secret_rules, rules=needs("volumeID")),
            "flexVolume": partial(flex_rules, domains=domains),
            "azureFile": _azure_file_rules,
            "local": _local_rules,
            "storageos": partial(_with_secret_rules, rules=_storage_os_rules),
        }

    def validate(
        self, errors: FieldErrors, spec: Object, volume: str, field: str, *, subdomain_secret_names: bool
    ) -> None:
        found = 0
        for name in _VALIDATION_ORDER:
            if name not in spec:
                continue
            # Kubernetes does not report a flexVolume as a surplus source.
            if found and name != "flexVolume":
                errors.add(forbidden(f"{field}.{_NAME_AS_SURPLUS.get(name, name)}", ONE_SOURCE))
                continue
            found += 1
            here = f"{field}.{_NAME_IN_PATHS.get(name, name)}"
            self._one(errors, name, spec, volume, here, subdomain_secret_names)
            if name == "local" and "nodeAffinity" not in spec:
                errors.add(required(f"{field}.nodeAffinity", "Local volume requires node affinity"))
        if not found:
            errors.add(required(field, "must specify a volume type"))

    def _one(
        self,
        errors: FieldErrors,
        name: str,
        spec: Object,
        volume: str,
        field: str,
        subdomain_secret_names: bool,
    ) -> None:
        if name == "iscsi":
            _iscsi_rules(errors, spec[name], volume, field)
            return
        if name == "csi":
            _csi_rules(errors, spec[name], field, subdomain_secret_names=subdomain_secret_names)
        else:
            self._rules[name](errors, spec[name], field)


def has_subdomain_secret_name(source: Object | None) -> bool:
    """Whether a CSI source names a secret in the older, more permissive format."""
    parts = (
        *("controllerExpandSecretRef", "controllerPublishSecretRef"),
        *("nodeStageSecretRef", "nodePublishSecretRef"),
    )
    names = ((source or {}).get(part, {}).get("name") for part in parts)
    return any(name and dns_label(name) for name in names)


def _glusterfs_rules(errors: FieldErrors, source: Object, field: str) -> None:
    needs("endpoints", "path")(errors, source, field)
    namespace, here = source.get("endpointsNamespace"), f"{field}.endpointsNamespace"
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.add(invalid(here, "", text))
    elif namespace is not None:
        errors.add_each(here, namespace, dns_label(namespace))


def _azure_file_rules(errors: FieldErrors, source: Object, field: str) -> None:
    needs("secretName", "shareName")(errors, source, field)
    if source["secretNamespace"] == "":
        errors.add(required(f"{field}.secretNamespace"))


def _local_rules(errors: FieldErrors, source: Object, field: str) -> None:
    path, here = source["path"], f"{field}.path"
    if path:
        errors.add_each(here, path, without_backsteps(path))
    else:
        errors.add(required(here))


def _storage_os_rules(errors: FieldErrors, source: Object, field: str) -> None:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    if not name:
        errors.add(required(f"{field}.volumeName"))
    for part, value in (("volumeName", name), ("volumeNamespace", namespace)):
        if value:
            errors.add_each(f"{field}.{part}", value, dns_label(value))


def _with_secret_rules(errors: FieldErrors, source: Object, field: str, *, rules: Rules) -> None:
    rules(errors, source, field)
    if "secretRef" in source:
        needs("name", "namespace")(errors, source["secretRef"], f"{field}.secretRef")


def _iscsi_rules(errors: FieldErrors, source: Object, volume: str, field: str) -> None:
    portal, initiator = source["targetPortal"], source.get("initiatorName")
    if not portal:
        errors.add(required(f"{field}.targetPortal"))
    if initiator is not None and len(f"{volume}:{portal}".encode()) > LONGEST_INITIATOR:
        text = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
            "if iscsi.initiatorName is specified."
        )
        errors.add(invalid(f"{field}.targetportal", portal, text))
    if source["iqn"]:
        _iscsi_name_rules(errors, source["iqn"], f"{field}.iqn")
    else:
        errors.add(required(f"{field}.iqn"))
    unit_rules(errors, source["lun"], f"{field}.lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.add(required(f"{field}.secretRef"))
    if "secretRef" in source:
        needs("name")(errors, source["secretRef"], f"{field}.secretRef")
    if initiator is not None:
        _iscsi_name_rules(errors, initiator, f"{field}.initiatorname")


def _iscsi_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    if iscsi_name(name):
        errors.add(invalid(field, name, "must be valid format"))


def _csi_rules(errors: FieldErrors, source: Object, field: str, *, subdomain_secret_names: bool) -> None:
    driver_name_rules(errors, source["driver"], f"{field}.driver")
    needs("volumeHandle")(errors, source, field)
    for part in (
        *("controllerPublishSecretRef", "controllerExpandSecretRef"),
        *("nodePublishSecretRef", "nodeExpandSecretRef"),
    ):
        if part in source:
            _secret_reference_rules(
                errors, source[part], f"{field}.{part}", subdomain_secret_names=subdomain_secret_names
            )


def _secret_reference_rules(
    errors: FieldErrors, secret: Object, field: str, *, subdomain_secret_names: bool
) -> None:
    for part, check in (
        ("name", dns_subdomain if subdomain_secret_names else dns_label),
        ("namespace", dns_label),
    ):
        value = secret.get(part, "")
        if value:
            errors.add_each(f"{field}.{part}", value, check(value))
        else:
            errors.add(required(f"{field}.{part}"))


RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
OLD_CLASS_ANNOTATION: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'
PHASES: Final = ("Available", "Bound", "Failed", "Pending", "Released")
INLINE: Final = "in the context of inline volumes"
NOT_INLINE: Final = f"may not be specified {INLINE}"
SOURCES_WITH_MOUNT_OPTIONS: Final = frozenset(
    (
        *(
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "glusterfs",
            "nfs",
            "rbd",
            "quobyte",
            "iscsi",
            "cinder",
        ),
        *("cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
    )
)

NODE_AFFINITY = Struct("core.v1.VolumeNodeAffinity", Field("required", NODE_SELECTOR, 1, pointer=True))
VOLUME_SPEC = Struct(
    "core.v1.PersistentVolumeSpec",
    Field("capacity", QUANTITIES, 1),
    *SOURCES,
    Field("accessModes", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("claimRef", OBJECT_REFERENCE, 4, pointer=True, map_type="granular"),
    Field("persistentVolumeReclaimPolicy", STRING, 5, enum=RECLAIM_POLICIES),
    Field("storageClassName", STRING, 6),
    Field("mountOptions", STRINGS, 7, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("volumeMode", STRING, 8, pointer=True),
    Field("nodeAffinity", NODE_AFFINITY, 9, pointer=True),
    Field("volumeAttributesClassName", STRING, 10, pointer=True, since="1.29"),
)
VOLUME_SOURCE = Struct(VOLUME_SPEC.of, *SOURCES)
VOLUME_STATUS = Struct(
    "core.v1.PersistentVolumeStatus",
    Field("phase", STRING, 1, default="Pending", enum=PHASES),
    Field("message", STRING, 2),
    Field("reason", STRING, 3),
    Field("lastPhaseTransitionTime", TIME, 4, pointer=True, since="1.28", gate=PHASE_TIMES),
)
PERSISTENT_VOLUME = Struct(
    "core.v1.PersistentVolume", METADATA, Field("spec", VOLUME_SPEC, 2), Field("status", VOLUME_STATUS, 3)
)


def define_volume(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    rules = VolumeRules(names, features)
    has_times = PHASE_TIMES in features
    drop = partial(
        drop_disabled,
        NODE_EXPAND_SECRET not in features,
        ATTRIBUTES_CLASSES not in features and DROPPED_CLASSES in features,
    )
    return Definition(
        group="",
        version="v1",
        kind="PersistentVolume",
        plural="persistentvolumes",
        names=DiscoveryNames(short_names=("pv",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=PERSISTENT_VOLUME,
        set_defaults=set_volume_defaults,
        subresources=(
            Subresource(
                name="status",
                stamp=stamp_phase if has_times else None,
                prepare=keep_spec,
                validate=volume_status_rules,
            ),
        ),
        deletion=Deletion(returns_object=True),
        table=Table(volume_columns(names)),
        strategy=Strategy(
            stamp=stamp_new_phase if has_times else None,
            prepare_for_create=partial(prepare_create_volume, has_times, drop),
            prepare_for_update=partial(prepare_update_volume, drop),
            validate_create=rules.validate,
            validate_update=rules.validate_update,
            canonicalize=complete_phase,
            warnings=VolumeWarnings(names, features),
        ),
    )


def set_volume_defaults(new: Object) -> None:
    spec = new["spec"]
    round_up(spec.get("capacity", {}))
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    new["spec"] = VOLUME_SPEC.arranged(spec)


def stamp_new_phase(new: Object, old: Object | None, now: str) -> None:
    if old is None:
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def stamp_phase(new: Object, old: Object, now: str) -> None:
    """Record when the phase changed, unless the client did."""
    status, before = new["status"], old["status"]
    sent, known = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    time = sent or known
    if status.get("phase") != before.get("phase") and time == known:
        time = now
    if time is not None:
        new["status"] = {**status, "lastPhaseTransitionTime": time}


Drop = Callable[[Object, Object], None]  # (spec, before)


def prepare_create_volume(has_times: bool, drop: Drop, new: Object) -> None:
    if not has_times:
        new["status"] = {}
    drop(new["spec"], {})


def complete_phase(new: Object) -> None:
    """Set the phase after admission: webhooks review a new volume or claim without it."""
    new["status"].setdefault("phase", "Pending")


def prepare_update_volume(drop: Drop, new: Object, old: Object) -> None:
    keep_status(new, old)
    drop(new["spec"], old["spec"])


def drop_disabled(secret: bool, attributes_class: bool, spec: Object, before: Object) -> None:
    """Drop fields of features that are off; parts of other kinds keep them, so that no gate is declared for them."""
    if secret and "csi" in spec and "nodeExpandSecretRef" not in before.get("csi", {}):
        spec["csi"] = {part: value for part, value in spec["csi"].items() if part != "nodeExpandSecretRef"}
    if attributes_class and "volumeAttributesClassName" not in before:
        spec.pop("volumeAttributesClassName", None)


class VolumeRules:
    """Validates volumes, and specs of volumes inside other objects."""

    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        self._features = features
        domains = tuple(dict.fromkeys((names.key_domain, names.group_domain)))
        self._sources = SourceRules(domains)
        self._options_key = names.key("mount-options", "volume.beta")
        self._newer_labels = newer_labels(names)

    def validate(self, errors: FieldErrors, new: Object) -> None:
        self._spec(errors, new, {})
        self._mount_options(errors, new)

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        own = errors.added_by(metadata_rules, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        own += errors.added_by(self._spec, new, old["spec"])
        self._mount_options(errors, new)
        errors.add_all(own)
        self._immutable_rules(errors, new["spec"], old["spec"])

    def validate_inline(self, errors: FieldErrors, spec: Object, field: str) -> None:
        """Validate a spec that is part of a VolumeAttachment and not an object of its own."""
        for part in ("claimRef", "capacity"):
            if part in spec:
                errors.add(forbidden(f"{field}.{part}", NOT_INLINE))
        if "csi" not in spec:
            errors.add(required(f"{field}.csi", f"has to be specified {INLINE}"))
        modes = access_modes({}, self._features)
        _access_mode_rules(errors, spec.get("accessModes", []), modes, f"{field}.accessModes")
        if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
            text = f"may only be Retain {INLINE}"
            errors.add(forbidden(f"{field}.persistentVolumeReclaimPolicy", text))
        if "nodeAffinity" in spec:
            errors.add(forbidden(f"{field}.nodeAffinity", NOT_INLINE))
        # A forbidden affinity counts as missing for a source that needs one.
        sources = {part: value for part, value in spec.items() if part != "nodeAffinity"}
        relaxed = RELABELLED_AFFINITY in errors.features
        self._sources.validate(errors, sources, "", field, subdomain_secret_names=relaxed)
        if "storageClassName" in spec:
            errors.add(forbidden(f"{field}.storageClassName", NOT_INLINE))
        if spec.get("volumeMode", "Filesystem") != "Filesystem":
            text = f"may not specify volumeMode other than Filesystem {INLINE}"
            errors.add(forbidden(f"{field}.volumeMode", text))

    def _spec(self, errors: FieldErrors, new: Object, before: Object) -> None:
        spec = new["spec"]
        modes = access_modes(before, self._features)
        policy, mode, class_name = (
            spec.get(part, "") for part in ("persistentVolumeReclaimPolicy", "volumeMode", "storageClassName")
        )
        _access_mode_rules(errors, spec.get("accessModes", []), modes, "spec.accessModes")
        _capacity_rules(errors, spec.get("capacity", {}), "spec.capacity")
        if policy not in RECLAIM_POLICIES:
            errors.add(not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES))
        _node_affinity_rules(
            errors, spec.get("nodeAffinity"), before.get("nodeAffinity"), "spec.nodeAffinity"
        )
        name = new["metadata"].get("name", "")
        subdomain_names = RELABELLED_AFFINITY in errors.features or has_subdomain_secret_name(
            before.get("csi")
        )
        self._sources.validate(errors, spec, name, "spec", subdomain_secret_names=subdomain_names)
        if policy == "Recycle" and _is_root(spec.get("hostPath")):
            text = "may not be 'recycle' for a hostPath mount of '/'"
            errors.add(forbidden("spec.persistentVolumeReclaimPolicy", text))
        if class_name:
            errors.add_each("spec.storageClassName", class_name, dns_subdomain(class_name))
        if mode not in VOLUME_MODES:
            errors.add(not_supported("spec.volumeMode", mode, VOLUME_MODES))
        if ATTRIBUTES_CLASSES in self._features or "volumeAttributesClassName" in before:
            _attributes_class_rules(errors, spec)

    def _immutable_rules(self, errors: FieldErrors, spec: Object, before: Object) -> None:
        """Source, volume mode and node affinity are immutable; controllerExpandSecretRef may be set later, once."""
        sources, stored = (
            {name: one[name] for name in SOURCE_NAMES if name in one} for one in (spec, before)
        )
        if "csi" in sources and "csi" in before and "controllerExpandSecretRef" not in before["csi"]:
            kept = {k: v for k, v in sources["csi"].items() if k != "controllerExpandSecretRef"}
            sources["csi"] = kept
        if sources != stored:
            text = "spec.persistentvolumesource is immutable after creation"
            if JSON_IN_TEXTS in errors.features:
                text += "\n" + internal_difference(VOLUME_SOURCE, stored, sources)
            errors.add(forbidden("spec.persistentvolumesource", text))
        if spec["volumeMode"] != before["volumeMode"]:
            errors.add(invalid("volumeMode", spec["volumeMode"], IMMUTABLE))
        if "nodeAffinity" in before and MUTABLE_AFFINITY not in self._features:
            self._affinity_rules(errors, spec.get("nodeAffinity"), before["nodeAffinity"])
        after, class_before = (one.get("volumeAttributesClassName") for one in (spec, before))
        if after != class_before:
            _class_change_rules(errors, self._features)
            if class_before is not None and after is None:
                errors.add(forbidden("spec.volumeAttributesClassName", CLASS_REMOVED))

    def _affinity_rules(self, errors: FieldErrors, affinity: Object | None, before: Object) -> None:
        text = IMMUTABLE
        if RELABELLED_AFFINITY in errors.features:
            before = self._relabelled(before, affinity or {})
            text += ", except for updating from beta label to GA"
        if affinity != before:
            errors.add(invalid("nodeAffinity", shown(NODE_AFFINITY, affinity), text))

    def _relabelled(self, before: Object, after: Object) -> Object:
        """Return the affinity before an update, with the present keys of labels if the update replaces old ones."""
        terms, new_terms = (one.get("required", {}).get("nodeSelectorTerms") or () for one in (before, after))
        if not terms or len(terms) != len(new_terms):
            return before
        relabelled = [self._relabelled_term(*both) for both in zip(terms, new_terms, strict=True)]
        return {**before, "required": {**before["required"], "nodeSelectorTerms": relabelled}}

    def _relabelled_term(self, term: Object, new: Object) -> Object:
        old, wanted = (one.get("matchExpressions", []) for one in (term, new))
        if not old or len(old) != len(wanted):
            return term
        expressions = [
            {**one, "key": other["key"]} if self._newer_labels.get(one["key"]) == other["key"] else one
            for one, other in zip(old, wanted, strict=True)
        ]
        return {**term, "matchExpressions": expressions}

    def _mount_options(self, errors: FieldErrors, new: Object) -> None:
        """Validate mount options in the annotation that preceded the field; only some sources support them."""
        if self._options_key not in new["metadata"].get("annotations", {}):
            return
        if not SOURCES_WITH_MOUNT_OPTIONS.isdisjoint(new["spec"]):
            return
        text = "may not specify mount options for this volume type"
        errors.add(forbidden(f"metadata.annotations.{self._options_key}", text))


def volume_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])


CLASS_REMOVED: Final = "update from non-nil value to nil is forbidden"


def _class_change_rules(errors: FieldErrors, features: frozenset[str]) -> None:
    if ATTRIBUTES_CLASSES not in features:
        text = "update is forbidden when the VolumeAttributesClass feature gate is disabled"
        errors.add(forbidden("spec.volumeAttributesClassName", text))


def _attributes_class_rules(errors: FieldErrors, spec: Object) -> None:
    name, field = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return
    if name:
        errors.add_each(field, name, dns_subdomain(name))
    else:
        errors.add(required(field, "an empty string is disallowed"))
    if "csi" not in spec:
        errors.add(required("spec.csi", "has to be specified when using volumeAttributesClassName"))


# Sources that no longer work: name -> (name in warnings, since when it is deprecated, since when it does not work).
_FORMER_SOURCES: Final = {
    "cephfs": ("cephfs", "v1.28", "v1.31"),
    "photonPersistentDisk": ("photonPersistentDisk", "v1.11", "v1.16"),
    "scaleIO": ("scaleIO", "v1.16", "v1.22"),
    "storageos": ("storageOS", "v1.22", "v1.25"),
    "glusterfs": ("glusterfs", "v1.25", "v1.26"),
    "rbd": ("rbd", "v1.28", "v1.31"),
}


class VolumeWarnings:
    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._labels = deprecated_labels(names)
        self._annotations: dict[str, str] = {}
        if VOLUME_WARNINGS in features:
            self._annotations[names.key("storage-class", "volume.beta")] = OLD_CLASS_ANNOTATION
        if MOUNT_OPTIONS_WARNING in features:
            text = 'deprecated since v1.31; use "mountOptions" attribute instead'
            self._annotations[names.key("mount-options", "volume.beta")] = text
        self._features = features

    def __call__(self, new: Object, _: Object | None) -> list[str]:
        spec, annotations = new["spec"], new["metadata"].get("annotations", {})
        found = [
            f"metadata.annotations[{key}]: {text}"
            for key, text in self._annotations.items()
            if key in annotations
        ]
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle" and RECYCLE_WARNING in self._features:
            found.append(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
                "Instead, the recommended approach is to use dynamic provisioning."
            )
        found += self._affinity(spec.get("nodeAffinity", {}).get("required", {}))
        if VOLUME_WARNINGS in self._features:
            found += [
                f"spec.{field}: deprecated in {deprecated}, non-functional in {removed}+"
                for name, (field, deprecated, removed) in _FORMER_SOURCES.items()
                if name in spec
            ]
        return found

    def _affinity(self, selector: Object) -> list[str]:
        field = "spec.nodeAffinity.required.nodeSelectorTerms"
        return [
            warning
            for index, term in enumerate(selector.get("nodeSelectorTerms") or ())
            for warning in requirement_warnings(
                self._labels, term.get("matchExpressions", ()), f"{field}[{index}].matchExpressions"
            )
        ]


def _access_mode_rules(errors: FieldErrors, modes: list[str], supported: tuple[str, ...], field: str) -> None:
    if not modes:
        errors.add(required(field))
    for mode in modes:
        if mode not in supported:
            errors.add(not_supported(field, mode, supported))
    if READ_WRITE_ONCE_POD in modes and not set(ACCESS_MODES).isdisjoint(modes):
        errors.add(forbidden(field, f"may not use {READ_WRITE_ONCE_POD} with other access modes"))


def _capacity_rules(errors: FieldErrors, capacity: Mapping[str, str], field: str) -> None:
    if not capacity:
        errors.add(required(field))
    if list(capacity) != ["storage"]:
        value = dict(capacity) if capacity else Formatted("core.ResourceList(nil)", None)
        errors.add(not_supported(field, value, ("storage",)))
    for name, amount in capacity.items():
        basic_amount_rules(errors, amount, f"{field}[{name}]")
        if nanos_of(amount) <= 0:
            errors.add(invalid(f"{field}[{name}]", amount, "must be greater than zero"))


def basic_amount_rules(errors: FieldErrors, amount: str, field: str) -> None:
    units = nanos_of(amount) // NANOS  # if negative, rounded away from zero
    if units < 0:
        errors.add(invalid(field, units, "must be a valid resource quantity"))


def _node_affinity_rules(
    errors: FieldErrors, affinity: Object | None, before: Object | None, field: str
) -> None:
    if affinity is None:
        return
    if "required" not in affinity:
        errors.add(required(f"{field}.required", "must specify required node constraints"))
    else:
        checks_values = AFFINITY_VALUES in errors.features and not has_invalid_values(
            (before or {}).get("required")
        )
        node_selector_rules(errors, affinity["required"], f"{field}.required", checks_values=checks_values)


def _is_root(host_path: Object | None) -> bool:
    return host_path is not None and posixpath.normpath(host_path["path"] or ".") in ("/", "//")


RESIZE_STATUSES: Final = (
    "",
    *("ControllerExpansionFailed", "ControllerExpansionInProgress"),
    *("NodeExpansionFailed", "NodeExpansionInProgress", "NodeExpansionPending"),
)
FORMER_RESOURCE_STATES: Final = (
    *("ControllerResizeFailed", "ControllerResizeInProgress"),
    *("NodeResizeFailed", "NodeResizeInProgress", "NodeResizePending"),
)
RESOURCE_STATES: Final = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)

CLAIM_CONDITION = Struct(
    "core.v1.PersistentVolumeClaimCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastProbeTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
MODIFY_VOLUME_STATUS = Struct(
    "core.v1.ModifyVolumeStatus",
    Field("targetVolumeAttributesClassName", STRING, 1),
    Field("status", STRING, 2, required=True, always=True),
)
CLAIM_STATUS = Struct(
    "core.v1.PersistentVolumeClaimStatus",
    Field("phase", STRING, 1, default="Pending", enum=("Bound", "Lost", "Pending")),
    Field("accessModes", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("capacity", QUANTITIES, 3),
    Field(
        "conditions",
        ListOf(CLAIM_CONDITION),
        4,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("allocatedResources", QUANTITIES, 5),
    Field(
        "allocatedResourceStatuses",
        STRING_MAP,
        7,
        map_type="granular",
        since="1.28",
    ),
    Field(
        "currentVolumeAttributesClassName",
        STRING,
        8,
        pointer=True,
        since="1.29",
    ),
    Field(
        "modifyVolumeStatus",
        MODIFY_VOLUME_STATUS,
        9,
        pointer=True,
        since="1.29",
    ),
    Field("resizeStatus", STRING, 6, pointer=True, until="1.27"),
)
PERSISTENT_VOLUME_CLAIM = Struct(
    "core.v1.PersistentVolumeClaim",
    METADATA,
    Field("spec", PERSISTENT_VOLUME_CLAIM_SPEC, 2),
    Field("status", CLAIM_STATUS, 3),
)


def define_claim(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    rules = ClaimRules(names, features)
    snapshots = f"snapshot.{names.group('storage')}"
    return Definition(
        group="",
        version="v1",
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        names=DiscoveryNames(short_names=("pvc",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=PERSISTENT_VOLUME_CLAIM,
        set_defaults=set_claim_defaults,
        subresources=(
            Subresource(
                name="status",
                prepare=partial(prepare_claim_status, _disabled_in_status(features)),
                validate=rules.validate_status,
            ),
        ),
        deletion=Deletion(returns_object=True),
        table=Table(claim_columns(names)),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create_claim, snapshots, features),
            prepare_for_update=partial(prepare_update_claim, snapshots, features),
            validate_create=rules.validate,
            validate_update=rules.validate_update,
            canonicalize=complete_phase,
            warnings=partial(claim_warnings, names.key("storage-class", "volume.beta"), features),
        ),
    )


def set_claim_defaults(new: Object) -> None:
    """Round amounts to the precision in which they are stored."""
    spec, status = new["spec"], new["status"]
    wanted = [spec["resources"].get(part) for part in ("limits", "requests")]
    for amounts in (*wanted, status.get("capacity"), status.get("allocatedResources")):
        round_up(amounts or {})


def prepare_create_claim(snapshots: str, features: frozenset[str], new: Object) -> None:
    new["status"] = {}
    _prepare_claim_spec(new, {}, snapshots, features)


def prepare_update_claim(snapshots: str, features: frozenset[str], new: Object, old: Object) -> None:
    keep_status(new, old)
    _prepare_claim_spec(new, old["spec"], snapshots, features)


def _disabled_in_status(features: frozenset[str]) -> tuple[str, ...]:
    return (
        *(() if RECOVER_EXPANSION in features else _EXPANSION),
        *(() if ATTRIBUTES_CLASSES in features else _MODIFICATION),
    )


_EXPANSION: Final = ("allocatedResources", "allocatedResourceStatuses", "resizeStatus")
_MODIFICATION: Final = ("currentVolumeAttributesClassName", "modifyVolumeStatus")


def prepare_claim_status(disabled: tuple[str, ...], new: Object, old: Object) -> None:
    keep_spec(new, old)
    for part in disabled:
        if part not in old["status"]:
            new["status"].pop(part, None)


def _prepare_claim_spec(new: Object, before: Object, snapshots: str, features: frozenset[str]) -> None:
    """Drop what features that are off would need; copy the data source from one of its fields to the other."""
    spec = new["spec"]
    if ATTRIBUTES_CLASSES not in features and "volumeAttributesClassName" not in before:
        spec.pop("volumeAttributesClassName", None)
    if "claims" in spec["resources"]:
        spec["resources"] = {part: one for part, one in spec["resources"].items() if part != "claims"}
    had_one = "dataSource" in before or "dataSourceRef" in before
    foreign = bool(spec.get("dataSourceRef", {}).get("namespace"))
    if foreign and FOREIGN_SOURCES not in features and "dataSourceRef" not in before:
        del spec["dataSourceRef"]
    if (
        not had_one
        and "dataSourceRef" not in spec
        and not _is_claim_or_snapshot(spec.get("dataSource"), snapshots)
    ):
        spec.pop("dataSource", None)
    source = spec.get("dataSource") or spec.get("dataSourceRef")
    if source is not None:
        copied = {part: one for part, one in source.items() if part != "namespace"}
        if not spec.get("dataSourceRef", {}).get("namespace"):
            spec.setdefault("dataSource", copied)
        spec.setdefault("dataSourceRef", dict(copied))
        new["spec"] = PERSISTENT_VOLUME_CLAIM_SPEC.arranged(spec)


def claim_warnings(class_key: str, features: frozenset[str], new: Object, _: Object | None) -> list[str]:
    found = []
    if VOLUME_WARNINGS in features and class_key in new["metadata"].get("annotations", {}):
        found.append(f"metadata.annotations[{class_key}]: {OLD_CLASS_ANNOTATION}")
    if CLAIM_WARNINGS in features:
        for part in ("requests", "limits"):
            amount = new["spec"]["resources"].get(part, {}).get("storage", "0")
            if nanos_of(amount) % NANOS:
                field = f"spec.resources.{part}[storage]"
                found.append(f'{field}: fractional byte value "{amount}" is invalid, must be an integer')
    return found


def _is_claim_or_snapshot(source: Object | None, snapshots: str) -> bool:
    """Whether the older field accepts it: another claim, or a snapshot."""
    if source is None:
        return False
    kinds = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", snapshots))
    return (source["kind"], source.get("apiGroup") or "") in kinds


class ClaimRules:
    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._class_key = names.key("storage-class", "volume.beta")
        self._domain = names.key_domain
        self._features = features

    def validate(self, errors: FieldErrors, new: Object) -> None:
        claim_spec_rules(errors, new["spec"], "spec")

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        own = []
        if STORAGE_VALIDATED_ONCE not in errors.features:
            own = errors.added_by(self._changed_rules, new, old)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        if STORAGE_VALIDATED_ONCE in errors.features:
            self._changed_rules(errors, new, old)
        errors.add_all(own)
        self._immutable_rules(errors, new, old)

    def _changed_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        claim_spec_rules(errors, new["spec"], "spec", before=old["spec"])

    def validate_status(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        if not new["spec"].get("accessModes"):
            errors.add(required("Spec.accessModes"))
        for name, amount in new["status"].get("capacity", {}).items():
            basic_amount_rules(errors, amount, f"status.capacity[{name}]")
        if self._recovers_expansion(old):
            _expansion_rules(errors, new["status"], self._domain)

    def _recovers_expansion(self, old: Object) -> bool:
        """Whether a claim may shrink again to its capacity; one that already does may go on."""
        if RECOVER_EXPANSION in self._features:
            return True
        return RESOURCE_STATUSES in self._features and any(part in old["status"] for part in _EXPANSION)

    def _immutable_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        spec, before = dict(new["spec"]), dict(old["spec"])
        if not before.get("volumeName") and "volumeName" in spec:
            before["volumeName"] = spec["volumeName"]  # the binder sets it, once
        if self._moves_class_to_spec(new, old):
            del spec["storageClassName"]
        else:
            _class_annotation_rules(errors, self._class_key, new, old)
            if self._sets_class_later(new, old):
                del spec["storageClassName"]
        size, old_size = _requested_size(spec), _requested_size(before)
        bound = new["status"].get("phase") == "Bound"
        if bound and "requests" in spec["resources"]:
            spec["resources"] = _with_size(spec["resources"], old_size)
        if self._may_change_class(spec, bound=bound):
            _copy(before, spec, "volumeAttributesClassName")
        if _comparable(spec) != _comparable(before):
            errors.add(forbidden("spec", self._immutable_text(before, spec)))
        self._shrink_rules(errors, size, old_size, old)
        unchanged(errors, "volumeMode", new["spec"].get("volumeMode"), old["spec"].get("volumeMode"))
        if new["spec"].get("volumeAttributesClassName") != old["spec"].get("volumeAttributesClassName"):
            self._class_rules(errors, new, old)

    def _immutable_text(self, before: Object, spec: Object) -> str:
        mutable = "resources.requests"
        if GROUPS_OF_SOURCES in self._features:
            mutable += " and volumeAttributesClassName"
        text = f"spec is immutable after creation except {mutable} for bound claims"
        if JSON_IN_TEXTS in self._features:
            text += "\n" + internal_difference(PERSISTENT_VOLUME_CLAIM_SPEC, before, spec)
        return text

    def _may_change_class(self, spec: Object, *, bound: bool) -> bool:
        if CLASS_OF_BOUND_CLAIMS not in self._features:
            return True
        return bound and ("volumeAttributesClassName" in spec or CLASS_REMOVABLE in self._features)

    def _class_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        name, field = new["spec"].get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
        _class_change_rules(errors, self._features)
        if CLASS_REMOVABLE in self._features:
            checks = ATTRIBUTES_CLASSES in self._features or "volumeAttributesClassName" in old["spec"]
            checks = checks and "currentVolumeAttributesClassName" in old["status"]
            text = "update to {} is forbidden when status.currentVolumeAttributesClassName is not nil"
        else:
            checks = "volumeAttributesClassName" in old["spec"]
            text = "update from non-nil value to {} is forbidden"
        if not checks or name:
            return
        if name is None:
            errors.add(forbidden(field, text.format("nil")))
        else:
            empty = "empty string" if CLASS_REMOVABLE in self._features else "an empty string"
            errors.add(forbidden(field, text.format(empty)))

    def _shrink_rules(self, errors: FieldErrors, size: str, before: str, old: Object) -> None:
        if nanos_of(size) >= nanos_of(before):
            return
        limit = "previous value"
        if self._recovers_expansion(old):
            if nanos_of(size) > nanos_of(old["status"].get("capacity", {}).get("storage", "0")):
                return
            limit = "status.capacity"
        errors.add(forbidden("spec.resources.requests.storage", f"field can not be less than {limit}"))

    def _moves_class_to_spec(self, new: Object, old: Object) -> bool:
        """Whether the class moves from the annotation of old claims to the field; the annotation may remain."""
        named = old["metadata"].get("annotations", {}).get(self._class_key)
        still = new["metadata"].get("annotations", {}).get(self._class_key, named)
        unset = "storageClassName" not in old["spec"]
        return named is not None and unset and new["spec"].get("storageClassName") == named == still

    def _sets_class_later(self, new: Object, old: Object) -> bool:
        """Whether a claim that was created without a default class now gets one."""
        if RETROACTIVE_CLASS not in self._features or "storageClassName" in old["spec"]:
            return False
        name = new["spec"].get("storageClassName")
        named = old["metadata"].get("annotations", {}).get(self._class_key, name)
        return name is not None and name == named


def _expansion_rules(errors: FieldErrors, status: Object, domain: str) -> None:
    field = "status.allocatedResources"
    if RESOURCE_STATUSES in errors.features:
        _resource_status_rules(errors, status.get("allocatedResourceStatuses", {}), domain)
        for name, amount in status.get("allocatedResources", {}).items():
            if not errors.added_by(_resource_name_rules, name, field, domain):
                basic_amount_rules(errors, amount, f"{field}[{name}]")
        return
    resize = status.get("resizeStatus", "")
    if resize not in RESIZE_STATUSES:
        errors.add(not_supported("status.resizeStatus", resize, RESIZE_STATUSES))
    for name, amount in status.get("allocatedResources", {}).items():
        if name != "storage":
            errors.add(not_supported(field, name, ("storage",)))
        else:
            basic_amount_rules(errors, amount, f"{field}[{name}]")


def _resource_status_rules(errors: FieldErrors, states: Mapping[str, str], domain: str) -> None:
    named = NAMED_RESOURCE_STATUSES in errors.features
    field = "status.allocatedResourceStatuses" if named else "status.allocatedResourceStatus"
    supported = RESOURCE_STATES if INFEASIBLE_RESIZES in errors.features else FORMER_RESOURCE_STATES
    for name, state in sorted(states.items()):
        _resource_name_rules(errors, name, field, domain)
        if state not in supported:
            errors.add(not_supported(field, name, supported))  # as in Kubernetes, it names the resource


def _resource_name_rules(errors: FieldErrors, name: str, field: str, domain: str) -> None:
    wrong = qualified_name(name)
    errors.add_each(field, name, wrong)
    native = "/" not in name or f"{domain}/" in name
    if not wrong and native and name != "storage":
        errors.add(not_supported(field, name, ("storage",)))


def _copy(source: Object, target: Object, part: str) -> None:
    if part in source:
        target[part] = source[part]
    else:
        target.pop(part, None)


def _requested_size(spec: Object) -> str:
    return str(spec["resources"].get("requests", {}).get("storage", "0"))


def _with_size(resources: Object, size: str) -> Object:
    return {**resources, "requests": {**resources["requests"], "storage": size}}


def _comparable(spec: Object) -> dict[str, Any]:
    """Return the spec with its amounts in canonical units, for comparison."""
    comparable = {part: value for part, value in spec.items() if value is not None}
    amounts = {part: spec["resources"].get(part) or {} for part in ("limits", "requests")}
    comparable["resources"] = {
        **spec["resources"],
        **{part: {name: nanos_of(one) for name, one in found.items()} for part, found in amounts.items()},
    }
    return comparable


def _class_annotation_rules(errors: FieldErrors, class_key: str, new: Object, old: Object) -> None:
    after, before = (one["metadata"].get("annotations", {}).get(class_key, "") for one in (new, old))
    if after != before:
        errors.add(invalid(f"metadata.annotations.{class_key}", after, IMMUTABLE))


UNSET: Final = "<unset>"
SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ATTRIBUTES_CLASS: Final = Column(
    "VolumeAttributesClass",
    "string",
    "Volume attributes class.",
    at("spec", "volumeAttributesClassName", missing=UNSET),
    since="1.29",
)
_VOLUME_MODE: Final = Column(
    "VolumeMode", "string", "Filesystem or Block.", at("spec", "volumeMode", missing=UNSET), priority=1
)


def volume_columns(names: Names) -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Capacity", "string", "Capacity of the volume.", at("spec", "capacity", "storage", missing="0")
        ),
        Column(
            "Access Modes",
            "string",
            "Access modes.",
            lambda stored, _: _short_modes(stored["spec"].get("accessModes", ())),
        ),
        Column(
            "Reclaim Policy",
            "string",
            "What the reclaim policy does with the volume after its claim is deleted.",
            at("spec", "persistentVolumeReclaimPolicy"),
        ),
        Column("Status", "string", "Phase.", _phase_cell),
        Column("Claim", "string", "Namespace and name of its claim.", _claim_cell),
        Column("StorageClass", "string", "Storage class of the volume.", _class_cell(names)),
        _ATTRIBUTES_CLASS,
        Column("Reason", "string", "Reason of the failure.", at("status", "reason")),
        AGE,
        _VOLUME_MODE,
    )


def claim_columns(names: Names) -> tuple[Column, ...]:
    return (
        NAME,
        Column("Status", "string", "Phase.", _phase_cell),
        Column("Volume", "string", "Volume that the claim is bound to.", at("spec", "volumeName")),
        Column("Capacity", "string", "Capacity of the bound volume.", _bound_size_cell),
        Column("Access Modes", "string", "Access modes.", _bound_modes_cell),
        Column("StorageClass", "string", "Storage class that the claim requests.", _class_cell(names)),
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    )


def _short_modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in SHORT_MODES.items() if mode in modes)


def _phase_cell(stored: Object, _: int) -> str:
    return (
        "Terminating" if "deletionTimestamp" in stored["metadata"] else str(stored["status"].get("phase", ""))
    )


def _claim_cell(stored: Object, _: int) -> str:
    claim = stored["spec"].get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def _class_cell(names: Names) -> Cell:
    key = names.key("storage-class", "volume.beta")

    def cell(stored: Object, _: int) -> str:
        annotated = stored["metadata"].get("annotations", {}).get(key)
        return str(stored["spec"].get("storageClassName", "") if annotated is None else annotated)

    return cell


def _bound_size_cell(stored: Object, _: int) -> str:
    if not stored["spec"].get("volumeName"):
        return ""
    return str(stored["status"].get("capacity", {}).get("storage", "0"))


def _bound_modes_cell(stored: Object, _: int) -> str:
    return _short_modes(stored["status"].get("accessModes", ())) if stored["spec"].get("volumeName") else ""
