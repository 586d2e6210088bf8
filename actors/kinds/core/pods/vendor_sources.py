"""Volume sources on disks and stores of certain vendors: fields and rules, all much alike.

CSI drivers have replaced most of them; they remain for objects that still use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from actors.kinds.schema.fields import BOOL, INT32, STRING, STRINGS, Field, Struct
from actors.kinds.validation import FieldErrors, between, dns_label, invalid, not_supported, required, size
from actors.messages import Object

CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
LONGEST_TENANT: Final = 64

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
GLUSTERFS_VOLUME_SOURCE = Struct(
    "core.v1.GlusterfsVolumeSource",
    Field("endpoints", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("readOnly", BOOL, 3),
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

Rules = Callable[[FieldErrors, Object, str], None]


def needs(*parts: str) -> Rules:
    """The rule of sources that only require certain fields to be set."""

    def rules(errors: FieldErrors, source: Object, field: str) -> None:
        for part in parts:
            if not source.get(part):
                errors.add(required(f"{field}.{part}"))

    return rules


def disk_rules(errors: FieldErrors, source: Object, field: str, *, name: str) -> None:
    """Rules of disks that have a name and may have partitions."""
    if not source[name]:
        errors.add(required(f"{field}.{name}"))
    partition = source.get("partition", 0)
    if not 0 <= partition <= 255:
        errors.add(invalid(f"{field}.partition", partition, between(1, 255)))


def cinder_rules(errors: FieldErrors, source: Object, field: str) -> None:
    needs("volumeID")(errors, source, field)
    _secret_name(errors, source, field)


def flocker_rules(errors: FieldErrors, source: Object, field: str) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        errors.add(required(field, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        errors.add(invalid(field, "resource", text))
    if "/" in name:
        errors.add(invalid(f"{field}.datasetName", name, "must not contain '/'"))


def quobyte_rules(errors: FieldErrors, source: Object, field: str) -> None:
    registry, pairs = source["registry"], "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        errors.add(required(f"{field}.registry", pairs))
    elif size(source.get("tenant", "")) > LONGEST_TENANT:
        text = "must be a UUID and may not exceed a length of 64 characters"
        errors.add(required(f"{field}.tenant", text))
    else:
        for pair in registry.split(","):
            if not _is_host_and_port(pair):
                errors.add(invalid(f"{field}.registry", registry, pairs))
    if not source["volume"]:
        errors.add(required(f"{field}.volume"))


def _is_host_and_port(pair: str) -> bool:
    host, colon, port = pair.rpartition(":")
    if not colon or set(port) & set("[]"):
        return False
    if host.startswith("["):
        return host.endswith("]") and not set(host[1:-1]) & set("[]")
    return not set(host) & set(":[]")


def azure_disk_rules(errors: FieldErrors, source: Object, field: str) -> None:
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source["diskURI"]
    needs("diskName", "diskURI")(errors, source, field)
    if caching is not None and caching not in CACHING_MODES:
        errors.add(not_supported(f"{field}.cachingMode", caching, CACHING_MODES))
    if kind is not None and kind not in DISK_KINDS:
        errors.add(not_supported(f"{field}.kind", kind, DISK_KINDS))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.add(not_supported(f"{field}.diskURI", uri, (_MANAGED_DISK,)))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.add(not_supported(f"{field}.diskURI", uri, (_BLOB_DISK,)))


def storage_os_rules(errors: FieldErrors, source: Object, field: str) -> None:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    if name:
        errors.add_each(f"{field}.volumeName", name, dns_label(name))
    else:
        errors.add(required(f"{field}.volumeName"))
    if namespace:
        errors.add_each(f"{field}.volumeNamespace", namespace, dns_label(namespace))
    _secret_name(errors, source, field)


def _secret_name(errors: FieldErrors, source: Object, field: str) -> None:
    secret = source.get("secretRef")
    if secret is not None and not secret.get("name"):
        errors.add(required(f"{field}.secretRef.name"))


VENDOR_RULES: Final[Mapping[str, Rules]] = {
    "gcePersistentDisk": partial(disk_rules, name="pdName"),
    "awsElasticBlockStore": partial(disk_rules, name="volumeID"),
    "glusterfs": needs("endpoints", "path"),
    "rbd": needs("monitors", "image"),
    "cinder": cinder_rules,
    "cephfs": needs("monitors"),
    "flocker": flocker_rules,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "quobyte": quobyte_rules,
    "azureDisk": azure_disk_rules,
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "scaleIO": needs("gateway", "system", "volumeName"),
    "storageos": storage_os_rules,
}
