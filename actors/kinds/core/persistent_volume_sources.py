"""Sources of persistent volumes, and the rules of those that differ from the sources of pods.

A volume has no namespace, so its sources name secrets with their namespace; the sources of pods do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from actors.kinds.core.pods.paths import without_backsteps
from actors.kinds.core.pods.vendor_sources import (
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
    AZURE_DISK_VOLUME_SOURCE,
    FLOCKER_VOLUME_SOURCE,
    GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    PORTWORX_VOLUME_SOURCE,
    QUOBYTE_VOLUME_SOURCE,
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    needs,
)
from actors.kinds.core.pods.volume_sources import (
    FC_VOLUME_SOURCE,
    HOST_PATH_VOLUME_SOURCE,
    NFS_VOLUME_SOURCE,
    SOURCE_RULES,
    driver_name_rules,
    flex_rules,
    iscsi_name,
    unit_rules,
)
from actors.kinds.core.references import OBJECT_REFERENCE
from actors.kinds.schema.fields import BOOL, INT32, STRING, STRING_MAP, STRINGS, Field, Struct
from actors.kinds.validation import FieldErrors, dns_label, dns_subdomain, forbidden, invalid, required
from actors.messages import Object

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
    Field("monitors", STRINGS, 1, required=True, always=True),
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
    Field("portals", STRINGS, 7),
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
    Field("monitors", STRINGS, 1, required=True, always=True),
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
NAMES: Final = tuple(source.name for source in SOURCES)

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

    `subdomain_secret_names` tolerates secret names that are DNS subdomains, which volumes older than the rule may have.
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
            # The reference does not report a flexVolume as one source too many.
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
    """Whether a CSI source names a secret in the older, wider format."""
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
