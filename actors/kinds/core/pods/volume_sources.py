"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from actors.kinds.fields import BOOL, INT32, QUANTITY, STRING, STRING_MAP, STRINGS, Field, Struct

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
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 3, pointer=True, required=True),
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
