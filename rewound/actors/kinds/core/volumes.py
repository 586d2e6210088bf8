"""Volumes of a pod, each with one source, and the spec of claims, which claims and their templates share.

A volume without a source is an empty directory. An ephemeral volume has the template of a claim that is created for
the pod: the claim is named after pod and volume, so both names together must form a valid name of a claim, and is
owned by the pod; the template sets only its labels and annotations.

In the spec of a claim `dataSource` and `dataSourceRef` mean the same; when both are set they must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.resources import RESOURCE_REQUIREMENTS, round_up
from rewound.actors.kinds.core.volume_sources import (
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
    AZURE_DISK_VOLUME_SOURCE,
    AZURE_FILE_VOLUME_SOURCE,
    CEPH_FS_VOLUME_SOURCE,
    CINDER_VOLUME_SOURCE,
    CONFIG_MAP_VOLUME_SOURCE,
    CSI_VOLUME_SOURCE,
    DOWNWARD_API_VOLUME_SOURCE,
    EMPTY_DIR_VOLUME_SOURCE,
    FC_VOLUME_SOURCE,
    FLEX_VOLUME_SOURCE,
    FLOCKER_VOLUME_SOURCE,
    GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    GIT_REPO_VOLUME_SOURCE,
    GLUSTERFS_VOLUME_SOURCE,
    HOST_PATH_VOLUME_SOURCE,
    ISCSI_VOLUME_SOURCE,
    NFS_VOLUME_SOURCE,
    PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE,
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    PORTWORX_VOLUME_SOURCE,
    PROJECTED_VOLUME_SOURCE,
    QUOBYTE_VOLUME_SOURCE,
    RBD_VOLUME_SOURCE,
    SCALE_IO_VOLUME_SOURCE,
    SECRET_VOLUME_SOURCE,
    SOURCE_RULES,
    STORAGE_OS_VOLUME_SOURCE,
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    config_map_rules,
    downward_api_rules,
    flex_rules,
    projected_rules,
    secret_rules,
)
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    TEMPLATE_META,
    annotation_rules,
    label_rules,
    label_selector_rules,
)
from rewound.actors.kinds.schema.fields import (
    QUANTITIES,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    Struct,
)
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
)
from rewound.actors.messages import Object
from rewound.actors.quantity import nanos_of
from rewound.actors.versions.features import (
    ATTRIBUTES_CLASSES,
    GROUPS_OF_SOURCES,
    READ_WRITE_ONCE_POD,
    SOURCES_OF_CLAIMS,
)

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
VOLUME_MODES: Final = ("Block", "Filesystem")

TYPED_LOCAL_OBJECT_REFERENCE = Struct(
    "core.v1.TypedLocalObjectReference",
    Field("apiGroup", STRING, 1, pointer=True, always=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    atomic=True,
)
TYPED_OBJECT_REFERENCE = Struct(
    "core.v1.TypedObjectReference",
    Field("apiGroup", STRING, 1, pointer=True, always=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    Field("namespace", STRING, 4, pointer=True),
)
VOLUME_RESOURCE_REQUIREMENTS = Struct(
    "core.v1.VolumeResourceRequirements", Field("limits", QUANTITIES, 1), Field("requests", QUANTITIES, 2)
)
PERSISTENT_VOLUME_CLAIM_SPEC = Struct(
    "core.v1.PersistentVolumeClaimSpec",
    Field("accessModes", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("selector", LABEL_SELECTOR, 4, pointer=True),
    Field("resources", VOLUME_RESOURCE_REQUIREMENTS, 2, before=(Before("1.29", type=RESOURCE_REQUIREMENTS),)),
    Field("volumeName", STRING, 3),
    Field("storageClassName", STRING, 5, pointer=True),
    Field("volumeMode", STRING, 6, pointer=True, default="Filesystem"),
    Field("dataSource", TYPED_LOCAL_OBJECT_REFERENCE, 7, pointer=True),
    Field(
        "dataSourceRef",
        TYPED_OBJECT_REFERENCE,
        8,
        pointer=True,
        before=(Before("1.26", type=TYPED_LOCAL_OBJECT_REFERENCE),),
    ),
    Field("volumeAttributesClassName", STRING, 9, pointer=True, since="1.29"),
)


def access_modes(before: Object, features: frozenset[str]) -> tuple[str, ...]:
    """Return the access modes that a volume or claim may have; an object with the newest one may keep it."""
    newest = READ_WRITE_ONCE_POD in features or READ_WRITE_ONCE_POD in before.get("accessModes", ())
    return (*ACCESS_MODES, READ_WRITE_ONCE_POD) if newest else ACCESS_MODES


def claim_spec_rules(errors: FieldErrors, spec: Object, field: str, before: Object | None = None) -> None:
    """Validate a claim; it may keep some invalid values that it had `before`."""
    before = before or {}
    _access_mode_rules(errors, spec, field, before)
    _storage_rules(errors, spec, f"{field}.resources[storage]")
    class_name, mode = spec.get("storageClassName"), spec.get("volumeMode")
    if class_name:
        errors.add_each(f"{field}.storageClassName", class_name, dns_subdomain(class_name))
    if mode is not None and mode not in VOLUME_MODES:
        errors.add(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    _data_source_rules(errors, spec, field, before)
    attributes = spec.get("volumeAttributesClassName")
    if attributes and (ATTRIBUTES_CLASSES in errors.features or "volumeAttributesClassName" in before):
        errors.add_each(f"{field}.volumeAttributesClassName", attributes, dns_subdomain(attributes))


def _access_mode_rules(errors: FieldErrors, spec: Object, field: str, before: Object) -> None:
    here, modes = f"{field}.accessModes", spec.get("accessModes", ())
    supported = access_modes(before, errors.features)
    if not modes:
        errors.add(required(here, "at least 1 access mode is required"))
    label_selector_rules(errors, spec.get("selector"), f"{field}.selector", before.get("selector"))
    for mode in modes:
        if mode not in supported:
            errors.add(not_supported(here, mode, supported))
    if READ_WRITE_ONCE_POD in modes and any(mode in ACCESS_MODES for mode in modes):
        errors.add(forbidden(here, "may not use ReadWriteOncePod with other access modes"))


def _storage_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    amount = spec["resources"].get("requests", {}).get("storage")
    if amount is None:
        errors.add(required(field))
    elif nanos_of(amount) <= 0:
        errors.add(invalid(field, amount, "must be greater than zero"))


def _data_source_rules(errors: FieldErrors, spec: Object, field: str, before: Object) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    checks_group = GROUPS_OF_SOURCES in errors.features and not any(
        before.get(part, {}).get("apiGroup") is not None for part in ("dataSource", "dataSourceRef")
    )
    if source is not None:
        _one_data_source_rules(errors, source, f"{field}.dataSource", checks_group)
    if reference is not None:
        _one_data_source_rules(errors, reference, f"{field}.dataSourceRef", checks_group)
        namespace = reference.get("namespace")
        if namespace:
            errors.add_each(f"{field}.dataSourceRef.namespace", namespace, dns_label(namespace))
    if source is None or reference is None:
        return
    shown_path = Formatted(
        f'"{field}.dataSource"', {}
    )  # in later versions the JSON of a path, which has no members
    if reference.get("namespace"):
        text = "may not be specified when dataSourceRef.namespace is specified"
        errors.add(invalid(field, shown_path, text))
    elif any(source.get(part) != reference.get(part) for part in ("apiGroup", "kind", "name")):
        errors.add(invalid(field, shown_path, "must match dataSourceRef"))


def _one_data_source_rules(errors: FieldErrors, source: Object, field: str, checks_group: bool) -> None:
    for part in ("name", "kind"):
        if not source[part]:
            errors.add(required(f"{field}.{part}"))
    group = source.get("apiGroup")
    if not group and source["kind"] != "PersistentVolumeClaim":
        explained = SOURCES_OF_CLAIMS in errors.features
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup" if explained else ""
        errors.add(invalid(field, source["kind"], text))
    if group and checks_group:
        errors.add_each(f"{field}.apiGroup", group, dns_subdomain(group))


PERSISTENT_VOLUME_CLAIM_TEMPLATE = Struct(
    "core.v1.PersistentVolumeClaimTemplate",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", PERSISTENT_VOLUME_CLAIM_SPEC, 2, required=True, always=True),
)
EPHEMERAL_VOLUME_SOURCE = Struct(
    "core.v1.EphemeralVolumeSource",
    Field("volumeClaimTemplate", PERSISTENT_VOLUME_CLAIM_TEMPLATE, 1, pointer=True),
)

_ALLOWED_METADATA: Final = frozenset(("labels", "annotations"))
_CLAIM_NAME_IN_PATHS: Final = {"uid": "uID"}  # error messages spell it differently


def ephemeral_rules(errors: FieldErrors, source: Object, field: str) -> None:
    template = source.get("volumeClaimTemplate")
    field = f"{field}.volumeClaimTemplate"
    if template is None:
        errors.add(required(field))
    else:
        later = SOURCES_OF_CLAIMS in errors.features
        text = "cannot be set" if later else "cannot be set for an ephemeral volume"
        template_metadata_rules(errors, template["metadata"], f"{field}.metadata", text)
        claim_spec_rules(errors, template["spec"], f"{field}.spec")


def template_metadata_rules(errors: FieldErrors, metadata: Object, field: str, text: str) -> None:
    """Validate the metadata of objects that are made from a template: `text` is the error of other parts."""
    annotation_rules(errors, metadata.get("annotations", {}), f"{field}.annotations")
    label_rules(errors, metadata.get("labels", {}), f"{field}.labels")
    for part, value in metadata.items():
        if part not in _ALLOWED_METADATA and value is not None:
            errors.add(forbidden(f"{field}.{_CLAIM_NAME_IN_PATHS.get(part, part)}", text))


IMAGE_VOLUME_SOURCE = Struct(
    "core.v1.ImageVolumeSource",
    Field("reference", STRING, 1),
    Field("pullPolicy", STRING, 2),
)
VOLUME = Struct(
    "core.v1.Volume",
    Field("name", STRING, 1, required=True, always=True),
    Field("hostPath", HOST_PATH_VOLUME_SOURCE, 1, embedded=2, pointer=True),
    Field("emptyDir", EMPTY_DIR_VOLUME_SOURCE, 2, embedded=2, pointer=True),
    Field("gcePersistentDisk", GCE_PERSISTENT_DISK_VOLUME_SOURCE, 3, embedded=2, pointer=True),
    Field("awsElasticBlockStore", AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, 4, embedded=2, pointer=True),
    Field("gitRepo", GIT_REPO_VOLUME_SOURCE, 5, embedded=2, pointer=True),
    Field("secret", SECRET_VOLUME_SOURCE, 6, embedded=2, pointer=True),
    Field("nfs", NFS_VOLUME_SOURCE, 7, embedded=2, pointer=True),
    Field("iscsi", ISCSI_VOLUME_SOURCE, 8, embedded=2, pointer=True),
    Field("glusterfs", GLUSTERFS_VOLUME_SOURCE, 9, embedded=2, pointer=True),
    Field("persistentVolumeClaim", PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE, 10, embedded=2, pointer=True),
    Field("rbd", RBD_VOLUME_SOURCE, 11, embedded=2, pointer=True),
    Field("flexVolume", FLEX_VOLUME_SOURCE, 12, embedded=2, pointer=True),
    Field("cinder", CINDER_VOLUME_SOURCE, 13, embedded=2, pointer=True),
    Field("cephfs", CEPH_FS_VOLUME_SOURCE, 14, embedded=2, pointer=True),
    Field("flocker", FLOCKER_VOLUME_SOURCE, 15, embedded=2, pointer=True),
    Field("downwardAPI", DOWNWARD_API_VOLUME_SOURCE, 16, embedded=2, pointer=True),
    Field("fc", FC_VOLUME_SOURCE, 17, embedded=2, pointer=True),
    Field("azureFile", AZURE_FILE_VOLUME_SOURCE, 18, embedded=2, pointer=True),
    Field("configMap", CONFIG_MAP_VOLUME_SOURCE, 19, embedded=2, pointer=True),
    Field("vsphereVolume", VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE, 20, embedded=2, pointer=True),
    Field("quobyte", QUOBYTE_VOLUME_SOURCE, 21, embedded=2, pointer=True),
    Field("azureDisk", AZURE_DISK_VOLUME_SOURCE, 22, embedded=2, pointer=True),
    Field("photonPersistentDisk", PHOTON_PERSISTENT_DISK_VOLUME_SOURCE, 23, embedded=2, pointer=True),
    Field("projected", PROJECTED_VOLUME_SOURCE, 26, embedded=2, pointer=True),
    Field("portworxVolume", PORTWORX_VOLUME_SOURCE, 24, embedded=2, pointer=True),
    Field("scaleIO", SCALE_IO_VOLUME_SOURCE, 25, embedded=2, pointer=True),
    Field("storageos", STORAGE_OS_VOLUME_SOURCE, 27, embedded=2, pointer=True),
    Field("csi", CSI_VOLUME_SOURCE, 28, embedded=2, pointer=True),
    Field("ephemeral", EPHEMERAL_VOLUME_SOURCE, 29, embedded=2, pointer=True),
    Field("image", IMAGE_VOLUME_SOURCE, 30, embedded=2, pointer=True, since="1.31"),
)

Volumes = Mapping[str, Object]  # valid volumes by name, for mounts to refer to

LONGEST_INITIATOR: Final = 64
ONE_SOURCE: Final = "may not specify more than 1 volume type"

# Sources in the order of validation; if there are several, the first one counts.
_ORDER: Final = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs"),
    *("iscsi", "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte"),
    *("downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume"),
    *("photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO"),
    *("csi", "ephemeral", "image"),
)
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
# Names of sources in messages where they differ: in paths of fields inside, and for a surplus source.
_NAME_IN_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
_NAME_AS_SURPLUS: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}


class VolumeRules:
    """The rules of volumes; options under `domains`, those of the API itself, are reserved."""

    def __init__(self, domains: tuple[str, ...]) -> None:
        self._rules: dict[str, Callable[[FieldErrors, Object, str], None]] = {
            **SOURCE_RULES,
            "secret": secret_rules,
            "configMap": config_map_rules,
            "downwardAPI": downward_api_rules,
            "projected": partial(projected_rules, domains=domains),
            "flexVolume": partial(flex_rules, domains=domains),
            "ephemeral": ephemeral_rules,
        }

    def validate(self, errors: FieldErrors, volumes: list[Object], field: str, pod: str) -> Volumes:
        """Add the errors of all volumes; return the valid volumes by name. `pod` is empty in a template."""
        usable: dict[str, Object] = {}
        created_claims = {f"{pod}-{one['name']}" for one in volumes if pod and "ephemeral" in one}
        for index, volume in enumerate(volumes):
            here, before = f"{field}[{index}]", len(errors.found)
            self._one(errors, volume, here, pod)
            _name_rules(errors, volume["name"], here, usable)
            if len(errors.found) == before:
                usable[volume["name"]] = volume
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim in created_claims:
                text = "must not reference a PVC that gets created for an ephemeral volume"
                errors.add(invalid(f"{here}.persistentVolumeClaim.claimName", claim, text))
        return usable

    def _one(self, errors: FieldErrors, volume: Object, field: str, pod: str) -> None:
        sources = [name for name in _ORDER if name in volume] if len(volume) > 2 else [*volume][1:]
        if not sources:
            errors.add(required(field, "must specify a volume type"))
            return
        for index, name in enumerate(sources):
            if index:
                errors.add(forbidden(f"{field}.{_NAME_AS_SURPLUS.get(name, name)}", ONE_SOURCE))
            elif name == "image":
                image_rules(errors, volume[name], f"{field}.image", of_pod=bool(pod))
            else:
                self._rules[name](errors, volume[name], f"{field}.{_NAME_IN_PATHS.get(name, name)}")
        if "iscsi" in volume:
            _initiator_rules(errors, volume, field)
        if sources[0] == "ephemeral" and pod and volume["name"]:
            _claim_name_rules(errors, volume["name"], pod, field)


def _name_rules(errors: FieldErrors, name: str, field: str, taken: Volumes) -> None:
    if name:
        errors.add_each(f"{field}.name", name, dns_label(name))
    else:
        errors.add(required(f"{field}.name"))
    if name in taken:
        errors.add(duplicate(f"{field}.name", name))


def _initiator_rules(errors: FieldErrors, volume: Object, field: str) -> None:
    name, source = volume["name"], volume["iscsi"]
    if "initiatorName" not in source or size(f"{name}:{source['targetPortal']}") <= LONGEST_INITIATOR:
        return
    text = (
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
        "if iscsi.initiatorName is specified."
    )
    errors.add(invalid(f"{field}.name", name, text))


def _claim_name_rules(errors: FieldErrors, name: str, pod: str, field: str) -> None:
    claim = f"{pod}-{name}"
    for text in dns_subdomain(claim):
        errors.add(invalid(f"{field}.name", name, f"PVC name {quoted_start(claim)}: {text}"))


def image_rules(errors: FieldErrors, source: Object, field: str, *, of_pod: bool) -> None:
    """Validate an image that is mounted as a volume; templates may lack its reference."""
    if of_pod and not source.get("reference"):
        errors.add(required(f"{field}.reference"))
    policy = source.get("pullPolicy", "")
    if policy not in PULL_POLICIES:
        here = f"{field}.pullPolicy"
        errors.add(not_supported(here, policy, PULL_POLICIES) if policy else required(here))


def set_volume_defaults(volumes: list[Object]) -> None:
    for volume in volumes:
        if len(volume) == 1:
            volume["emptyDir"] = {}
        elif "ephemeral" in volume:
            template = volume["ephemeral"].get("volumeClaimTemplate", {})
            resources = template.get("spec", {}).get("resources", {})
            for part in ("limits", "requests"):
                round_up(resources.get(part) or {})


def shared_disk_rules(errors: FieldErrors, volumes: list[Object], field: str) -> None:
    """Validate pods with several replicas: some disks can only be mounted read-only on several nodes."""
    text = (
        "must be true for replicated pods > 1; "
        "GCE PD can only be mounted on multiple machines if it is read-only"
    )
    for index, volume in enumerate(volumes):
        if "gcePersistentDisk" in volume and not volume["gcePersistentDisk"].get("readOnly"):
            errors.add(invalid(f"{field}[{index}].gcePersistentDisk.readOnly", False, text))
