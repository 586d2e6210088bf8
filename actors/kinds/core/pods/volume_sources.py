"""Where the contents of a volume live: every kind of source that says so in one struct, with its rules.

Sources made of keys and fields are in `projections`, claims that a pod makes in `claim_template`. Volumes that
outlive pods have several of these sources too; their rules start from those here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from actors.kinds.checks import (
    FieldError,
    between,
    dns_label,
    dns_subdomain,
    each,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
    too_long,
)
from actors.kinds.core.pods.paths import descending, without_backsteps
from actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from actors.kinds.fields import BOOL, INT32, QUANTITY, STRING, STRING_MAP, STRINGS, Field, Struct
from actors.messages import Object

HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
LONGEST_DRIVER_NAME: Final = 63
LONGEST_TENANT: Final = 64

HOST_PATH_VOLUME_SOURCE = Struct(
    "core.v1.HostPathVolumeSource",
    Field("path", STRING, 1, required=True, always=True),
    Field("type", STRING, 2, pointer=True, default=""),
)
EMPTY_DIR_VOLUME_SOURCE = Struct(
    "core.v1.EmptyDirVolumeSource",
    Field("medium", STRING, 1),
    Field("sizeLimit", QUANTITY, 2, pointer=True),
)
GCE_PERSISTENT_DISK_VOLUME_SOURCE = Struct(
    "core.v1.GCEPersistentDiskVolumeSource",
    Field("pdName", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("partition", INT32, 3),
    Field("readOnly", BOOL, 4),
)
AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE = Struct(
    "core.v1.AWSElasticBlockStoreVolumeSource",
    Field("volumeID", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("partition", INT32, 3),
    Field("readOnly", BOOL, 4),
)
GIT_REPO_VOLUME_SOURCE = Struct(
    "core.v1.GitRepoVolumeSource",
    Field("repository", STRING, 1, required=True, always=True),
    Field("revision", STRING, 2),
    Field("directory", STRING, 3),
)
NFS_VOLUME_SOURCE = Struct(
    "core.v1.NFSVolumeSource",
    Field("server", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
)
ISCSI_VOLUME_SOURCE = Struct(
    "core.v1.ISCSIVolumeSource",
    Field("targetPortal", STRING, 1, required=True, always=True),
    Field("iqn", STRING, 2, required=True, always=True),
    Field("lun", INT32, 3, required=True, always=True),
    Field("iscsiInterface", STRING, 4, default="default"),
    Field("fsType", STRING, 5),
    Field("readOnly", BOOL, 6),
    Field("portals", STRINGS, 7),
    Field("chapAuthDiscovery", BOOL, 8),
    Field("chapAuthSession", BOOL, 11),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 10, pointer=True),
    Field("initiatorName", STRING, 12, pointer=True),
)
GLUSTERFS_VOLUME_SOURCE = Struct(
    "core.v1.GlusterfsVolumeSource",
    Field("endpoints", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
)
PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE = Struct(
    "core.v1.PersistentVolumeClaimVolumeSource",
    Field("claimName", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2),
)
RBD_VOLUME_SOURCE = Struct(
    "core.v1.RBDVolumeSource",
    Field("monitors", STRINGS, 1, required=True, always=True),
    Field("image", STRING, 2, required=True, always=True),
    Field("fsType", STRING, 3),
    Field("pool", STRING, 4, default="rbd"),
    Field("user", STRING, 5, default="admin"),
    Field("keyring", STRING, 6, default="/etc/ceph/keyring"),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 7, pointer=True),
    Field("readOnly", BOOL, 8),
)
FLEX_VOLUME_SOURCE = Struct(
    "core.v1.FlexVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 3, pointer=True),
    Field("readOnly", BOOL, 4),
    Field("options", STRING_MAP, 5),
)
CINDER_VOLUME_SOURCE = Struct(
    "core.v1.CinderVolumeSource",
    Field("volumeID", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("readOnly", BOOL, 3),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 4, pointer=True),
)
CEPH_FS_VOLUME_SOURCE = Struct(
    "core.v1.CephFSVolumeSource",
    Field("monitors", STRINGS, 1, required=True, always=True),
    Field("path", STRING, 2),
    Field("user", STRING, 3),
    Field("secretFile", STRING, 4),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 5, pointer=True),
    Field("readOnly", BOOL, 6),
)
FLOCKER_VOLUME_SOURCE = Struct(
    "core.v1.FlockerVolumeSource",
    Field("datasetName", STRING, 1),
    Field("datasetUUID", STRING, 2),
)
FC_VOLUME_SOURCE = Struct(
    "core.v1.FCVolumeSource",
    Field("targetWWNs", STRINGS, 1),
    Field("lun", INT32, 2, pointer=True),
    Field("fsType", STRING, 3),
    Field("readOnly", BOOL, 4),
    Field("wwids", STRINGS, 5),
)
AZURE_FILE_VOLUME_SOURCE = Struct(
    "core.v1.AzureFileVolumeSource",
    Field("secretName", STRING, 1, required=True, always=True),
    Field("shareName", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
)
VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE = Struct(
    "core.v1.VsphereVirtualDiskVolumeSource",
    Field("volumePath", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("storagePolicyName", STRING, 3),
    Field("storagePolicyID", STRING, 4),
)
QUOBYTE_VOLUME_SOURCE = Struct(
    "core.v1.QuobyteVolumeSource",
    Field("registry", STRING, 1, required=True, always=True),
    Field("volume", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
    Field("user", STRING, 4),
    Field("group", STRING, 5),
    Field("tenant", STRING, 6),
)
AZURE_DISK_VOLUME_SOURCE = Struct(
    "core.v1.AzureDiskVolumeSource",
    Field("diskName", STRING, 1, required=True, always=True),
    Field("diskURI", STRING, 2, required=True, always=True),
    Field("cachingMode", STRING, 3, pointer=True, default="ReadWrite"),
    Field("fsType", STRING, 4, pointer=True, default="ext4"),
    Field("readOnly", BOOL, 5, pointer=True, default=False),
    Field("kind", STRING, 6, pointer=True, default="Shared"),
)
PHOTON_PERSISTENT_DISK_VOLUME_SOURCE = Struct(
    "core.v1.PhotonPersistentDiskVolumeSource",
    Field("pdID", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
)
PORTWORX_VOLUME_SOURCE = Struct(
    "core.v1.PortworxVolumeSource",
    Field("volumeID", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("readOnly", BOOL, 3),
)
SCALE_IO_VOLUME_SOURCE = Struct(
    "core.v1.ScaleIOVolumeSource",
    Field("gateway", STRING, 1, required=True, always=True),
    Field("system", STRING, 2, required=True, always=True),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 3, pointer=True, always=True, required=True),
    Field("sslEnabled", BOOL, 4),
    Field("protectionDomain", STRING, 5),
    Field("storagePool", STRING, 6),
    Field("storageMode", STRING, 7, default="ThinProvisioned"),
    Field("volumeName", STRING, 8),
    Field("fsType", STRING, 9, default="xfs"),
    Field("readOnly", BOOL, 10),
)
STORAGE_OS_VOLUME_SOURCE = Struct(
    "core.v1.StorageOSVolumeSource",
    Field("volumeName", STRING, 1),
    Field("volumeNamespace", STRING, 2),
    Field("fsType", STRING, 3),
    Field("readOnly", BOOL, 4),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 5, pointer=True),
)
CSI_VOLUME_SOURCE = Struct(
    "core.v1.CSIVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2, pointer=True),
    Field("fsType", STRING, 3, pointer=True),
    Field("volumeAttributes", STRING_MAP, 4),
    Field("nodePublishSecretRef", LOCAL_OBJECT_REFERENCE, 5, pointer=True),
)

Rules = Callable[[Object, str], list[FieldError]]


def needs(*parts: str) -> Rules:
    """The rule of sources of which certain fields must be there, and nothing more is known."""

    def rules(source: Object, field: str) -> list[FieldError]:
        return [required(f"{field}.{part}") for part in parts if not source.get(part)]

    return rules


def host_path_rules(source: Object, field: str) -> list[FieldError]:
    path, kind = source["path"], source.get("type", "")
    if not path:
        return [required(f"{field}.path")]
    errors = each(f"{field}.path", path, without_backsteps(path))
    if kind not in HOST_PATH_TYPES:
        errors.append(not_supported(f"{field}.type", kind, HOST_PATH_TYPES))
    return errors


def empty_dir_rules(source: Object, field: str) -> list[FieldError]:
    if not source.get("sizeLimit", "").startswith("-"):
        return []
    return [forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def disk_rules(name: str, source: Object, field: str) -> list[FieldError]:
    """Of disks that are named and may have partitions."""
    errors = [] if source[name] else [required(f"{field}.{name}")]
    partition = source.get("partition", 0)
    if not 0 <= partition <= 255:
        errors.append(invalid(f"{field}.partition", partition, between(1, 255)))
    return errors


def git_repo_rules(source: Object, field: str) -> list[FieldError]:
    directory = source.get("directory", "")
    errors = [] if source["repository"] else [required(f"{field}.repository")]
    return errors + each(f"{field}.directory", directory, descending(directory))


def nfs_rules(source: Object, field: str) -> list[FieldError]:
    errors = needs("server", "path")(source, field)
    if not source["path"].startswith("/"):
        errors.append(invalid(f"{field}.path", source["path"], "must be an absolute path"))
    return errors


_QUALIFIED_NAMES: Final = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\f\r ]+\Z"),
    "eui": re.compile(r"^eui.[0-9A-Za-z]{16}\Z"),
    "naa": re.compile(r"^naa.[0-9A-Za-z]{32}\Z"),
}


def iscsi_rules(source: Object, field: str) -> list[FieldError]:
    errors = [] if source["targetPortal"] else [required(f"{field}.targetPortal")]
    if source["iqn"]:
        errors += each(f"{field}.iqn", source["iqn"], iscsi_name(source["iqn"]))
    else:
        errors.append(required(f"{field}.iqn"))
    errors += unit_rules(source["lun"], f"{field}.lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(required(f"{field}.secretRef"))
    if "initiatorName" in source:
        name = source["initiatorName"]
        errors += each(f"{field}.initiatorname", name, iscsi_name(name))
    return errors


def iscsi_name(name: str) -> list[str]:
    """The name of one end of a connection, in one of the three forms there are."""
    pattern = _QUALIFIED_NAMES.get(name[:3])
    if pattern is None:
        return ["must be valid format starting with iqn, eui, or naa"]
    return [] if pattern.search(name) else ["must be valid format"]


def unit_rules(unit: int, field: str) -> list[FieldError]:
    return [] if 0 <= unit <= 255 else [invalid(field, unit, between(0, 255))]


def fc_rules(source: Object, field: str) -> list[FieldError]:
    targets, ids, unit = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    here = f"{field}.targetWWNs"
    errors: list[FieldError] = []
    if not targets and not ids:
        errors.append(required(here, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        errors.append(invalid(here, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and unit is None:
        errors.append(required(f"{field}.lun", "lun is required if targetWWNs is specified"))
    elif targets and unit is not None:
        errors += unit_rules(unit, f"{field}.lun")
    return errors


def flex_rules(domains: Iterable[str], source: Object, field: str) -> list[FieldError]:
    """Options go to the driver as they are; those of the API's own `domains` are added on the way."""
    errors = [] if source["driver"] else [required(f"{field}.driver")]
    reserved = tuple(f".{domain}" for domain in domains)
    text = f"{' and '.join(domains)} namespaces are reserved"
    for key in source.get("options", ()):
        if f".{key.partition('/')[0].lower()}".endswith(reserved):
            errors.append(invalid(f"{field}.options[{key}]", key, text))
    return errors


def cinder_rules(source: Object, field: str) -> list[FieldError]:
    return needs("volumeID")(source, field) + _secret_name(source, field)


def flocker_rules(source: Object, field: str) -> list[FieldError]:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: list[FieldError] = []
    if not name and not uuid:
        errors.append(required(field, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(invalid(field, "resource", text))
    if "/" in name:
        errors.append(invalid(f"{field}.datasetName", name, "must not contain '/'"))
    return errors


def quobyte_rules(source: Object, field: str) -> list[FieldError]:
    registry, pairs = source["registry"], "must be a host:port pair or multiple pairs separated by commas"
    errors: list[FieldError] = []
    if not registry:
        errors.append(required(f"{field}.registry", pairs))
    elif size(source.get("tenant", "")) > LONGEST_TENANT:
        text = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(f"{field}.tenant", text))
    else:
        errors += [
            invalid(f"{field}.registry", registry, pairs)
            for pair in registry.split(",")
            if not _is_host_and_port(pair)
        ]
    return errors if source["volume"] else [*errors, required(f"{field}.volume")]


def _is_host_and_port(pair: str) -> bool:
    host, colon, port = pair.rpartition(":")
    if not colon or set(port) & set("[]"):
        return False
    if host.startswith("["):
        return host.endswith("]") and not set(host[1:-1]) & set("[]")
    return not set(host) & set(":[]")


def azure_disk_rules(source: Object, field: str) -> list[FieldError]:
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source["diskURI"]
    errors = needs("diskName", "diskURI")(source, field)
    if caching is not None and caching not in CACHING_MODES:
        errors.append(not_supported(f"{field}.cachingMode", caching, CACHING_MODES))
    if kind is not None and kind not in DISK_KINDS:
        errors.append(not_supported(f"{field}.kind", kind, DISK_KINDS))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{field}.diskURI", uri, (_MANAGED_DISK,)))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.append(not_supported(f"{field}.diskURI", uri, (_BLOB_DISK,)))
    return errors


def storage_os_rules(source: Object, field: str) -> list[FieldError]:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    errors = each(f"{field}.volumeName", name, dns_label(name)) if name else [required(f"{field}.volumeName")]
    if namespace:
        errors += each(f"{field}.volumeNamespace", namespace, dns_label(namespace))
    return errors + _secret_name(source, field)


def csi_rules(source: Object, field: str) -> list[FieldError]:
    errors = driver_name_rules(source["driver"], f"{field}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return errors
    name = secret.get("name", "")
    if not name:
        return [*errors, required(f"{field}.nodePublishSecretRef.name")]
    return errors + each(f"{field}.name", name, dns_subdomain(name))


def driver_name_rules(name: str, field: str) -> list[FieldError]:
    errors = [] if name else [required(field)]
    if size(name) > LONGEST_DRIVER_NAME:
        errors.append(too_long(field, LONGEST_DRIVER_NAME))
    return errors + each(field, name, dns_subdomain(name.lower()))


def _secret_name(source: Object, field: str) -> list[FieldError]:
    secret = source.get("secretRef")
    return [required(f"{field}.secretRef.name")] if secret is not None and not secret.get("name") else []


SOURCE_RULES: Final[Mapping[str, Rules]] = {
    "hostPath": host_path_rules,
    "emptyDir": empty_dir_rules,
    "gcePersistentDisk": partial(disk_rules, "pdName"),
    "awsElasticBlockStore": partial(disk_rules, "volumeID"),
    "gitRepo": git_repo_rules,
    "nfs": nfs_rules,
    "iscsi": iscsi_rules,
    "glusterfs": needs("endpoints", "path"),
    "persistentVolumeClaim": needs("claimName"),
    "rbd": needs("monitors", "image"),
    "cinder": cinder_rules,
    "cephfs": needs("monitors"),
    "flocker": flocker_rules,
    "fc": fc_rules,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "quobyte": quobyte_rules,
    "azureDisk": azure_disk_rules,
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "scaleIO": needs("gateway", "system", "volumeName"),
    "storageos": storage_os_rules,
    "csi": csi_rules,
}
