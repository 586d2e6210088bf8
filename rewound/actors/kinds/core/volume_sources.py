"""Sources of volumes, with their rules: single structs, those made of keys and fields, and vendors' disks.

Keys and fields become files or variables of containers (secrets, config maps, downward API, tokens): the rules say
where they come from and which are allowed. The sources for vendors' disks and stores are much alike; CSI drivers have
replaced most of them, and they remain for objects that still use them. Persistent volumes have several of these
sources too; their rules build on those here. The claim that a pod creates is in `volumes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from rewound.actors.golang.format import format_selector
from rewound.actors.kinds.certificates import bundle_name, signer_rules
from rewound.actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from rewound.actors.kinds.declaration.meta import LABEL_SELECTOR, label_selector_rules
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    between,
    descending,
    dns_label,
    dns_subdomain,
    forbidden,
    invalid,
    not_supported,
    qualified_name,
    required,
    reworded,
    size,
    too_long,
    unreserved,
    without_backsteps,
)
from rewound.actors.messages import Object
from rewound.actors.versions.features import (
    LOCAL_TOKEN_PATHS,
    ONE_TYPE_PER_SOURCE,
    STORAGE_VALIDATED_ONCE,
)

FILE_MODE: Final = 0o644
HIGHEST_MODE: Final = 0o777
SHORTEST_TOKEN: Final = 10 * 60  # seconds
LONGEST_TOKEN: Final = 1 << 32
SHORTEST_CERTIFICATE: Final = 3600
LONGEST_CERTIFICATE: Final = 91 * 86400
LONGEST_API_CERTIFICATE: Final = 86400  # of signers of the API itself
KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
LONGEST_ANNOTATIONS: Final = 256 * 1024

KEY_TO_PATH = Struct(
    "core.v1.KeyToPath",
    Field("key", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("mode", INT32, 3, pointer=True),
)
OBJECT_FIELD_SELECTOR = Struct(
    "core.v1.ObjectFieldSelector",
    Field("apiVersion", STRING, 1, default="v1"),
    Field("fieldPath", STRING, 2, required=True, always=True),
    atomic=True,
)
RESOURCE_FIELD_SELECTOR = Struct(
    "core.v1.ResourceFieldSelector",
    Field("containerName", STRING, 1),
    Field("resource", STRING, 2, required=True, always=True),
    Field("divisor", QUANTITY, 3),
    atomic=True,
)
DOWNWARD_API_VOLUME_FILE = Struct(
    "core.v1.DownwardAPIVolumeFile",
    Field("path", STRING, 1, required=True, always=True),
    Field("fieldRef", OBJECT_FIELD_SELECTOR, 2, pointer=True),
    Field("resourceFieldRef", RESOURCE_FIELD_SELECTOR, 3, pointer=True),
    Field("mode", INT32, 4, pointer=True),
)
SECRET_VOLUME_SOURCE = Struct(
    "core.v1.SecretVolumeSource",
    Field("secretName", STRING, 1),
    Field("items", ListOf(KEY_TO_PATH), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("defaultMode", INT32, 3, pointer=True, default=FILE_MODE),
    Field("optional", BOOL, 4, pointer=True),
)
CONFIG_MAP_VOLUME_SOURCE = Struct(
    "core.v1.ConfigMapVolumeSource",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("defaultMode", INT32, 3, pointer=True, default=FILE_MODE),
    Field("optional", BOOL, 4, pointer=True),
)
DOWNWARD_API_VOLUME_SOURCE = Struct(
    "core.v1.DownwardAPIVolumeSource",
    Field(
        "items",
        ListOf(DOWNWARD_API_VOLUME_FILE),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("defaultMode", INT32, 2, pointer=True, default=FILE_MODE),
)
SECRET_PROJECTION = Struct(
    "core.v1.SecretProjection",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("optional", BOOL, 4, pointer=True),
)
DOWNWARD_API_PROJECTION = Struct(
    "core.v1.DownwardAPIProjection",
    Field(
        "items",
        ListOf(DOWNWARD_API_VOLUME_FILE),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
CONFIG_MAP_PROJECTION = Struct(
    "core.v1.ConfigMapProjection",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("optional", BOOL, 4, pointer=True),
)
SERVICE_ACCOUNT_TOKEN_PROJECTION = Struct(
    "core.v1.ServiceAccountTokenProjection",
    Field("audience", STRING, 1),
    Field("expirationSeconds", INT64, 2, pointer=True, default=3600),
    Field("path", STRING, 3, required=True, always=True),
)
POD_CERTIFICATE_PROJECTION = Struct(
    "core.v1.PodCertificateProjection",
    Field("signerName", STRING, 1, required=True),
    Field("keyType", STRING, 2, required=True),
    Field("maxExpirationSeconds", INT32, 3, pointer=True),
    Field("credentialBundlePath", STRING, 4),
    Field("keyPath", STRING, 5),
    Field("certificateChainPath", STRING, 6),
    Field("userAnnotations", STRING_MAP, 7, since="1.35"),
)
CLUSTER_TRUST_BUNDLE_PROJECTION = Struct(
    "core.v1.ClusterTrustBundleProjection",
    Field("name", STRING, 1, pointer=True),
    Field("signerName", STRING, 2, pointer=True),
    Field("labelSelector", LABEL_SELECTOR, 3, pointer=True),
    Field("optional", BOOL, 5, pointer=True),
    Field("path", STRING, 4, required=True, always=True),
)
VOLUME_PROJECTION = Struct(
    "core.v1.VolumeProjection",
    Field("secret", SECRET_PROJECTION, 1, pointer=True),
    Field("downwardAPI", DOWNWARD_API_PROJECTION, 2, pointer=True),
    Field("configMap", CONFIG_MAP_PROJECTION, 3, pointer=True),
    Field("serviceAccountToken", SERVICE_ACCOUNT_TOKEN_PROJECTION, 4, pointer=True),
    Field(
        "clusterTrustBundle",
        CLUSTER_TRUST_BUNDLE_PROJECTION,
        5,
        pointer=True,
        since="1.29",
        gate="ClusterTrustBundleProjection",
    ),
    Field(
        "podCertificate",
        POD_CERTIFICATE_PROJECTION,
        6,
        pointer=True,
        since="1.34",
        gate="PodCertificateRequest",
    ),
)
PROJECTED_VOLUME_SOURCE = Struct(
    "core.v1.ProjectedVolumeSource",
    Field(
        "sources",
        ListOf(VOLUME_PROJECTION),
        1,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("defaultMode", INT32, 2, pointer=True, default=FILE_MODE),
)

# Fields of a pod that fieldPath can name; files and variables support only those listed below.
_POD_FIELDS: Final = frozenset(
    (
        *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
        *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName"),
        *("status.phase", "status.hostIP", "status.podIP", "status.podIPs"),
    )
)
IN_FILES: Final = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
)
IN_VARIABLES: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.podIP", "status.podIPs"),
)
IN_VARIABLES_WITH_HOST_IPS: Final = tuple(sorted((*IN_VARIABLES, "status.hostIPs")))
_AMOUNTS: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_DECIMAL_DIVISORS: Final = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E")))
_DIVISORS: Final[tuple[str, ...]] = (
    *_DECIMAL_DIVISORS,
    *(f"1{unit}i" for unit in ("K", "M", "G", "T", "P", "E")),
)
_RESOURCE_TITLES: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def secret_rules(errors: FieldErrors, source: Object, field: str) -> None:
    if not source.get("secretName"):
        errors.add(required(f"{field}.secretName"))
    _mode_rules(errors, source, field)
    _item_list_rules(errors, source, field)


def config_map_rules(errors: FieldErrors, source: Object, field: str) -> None:
    if not source.get("name"):
        errors.add(required(f"{field}.name"))
    _mode_rules(errors, source, field)
    _item_list_rules(errors, source, field)


def downward_api_rules(errors: FieldErrors, source: Object, field: str) -> None:
    _mode_rules(errors, source, field)
    for file in source.get("items", ()):
        _file_rules(errors, file, field)


def projected_rules(errors: FieldErrors, source: Object, field: str, *, domains: tuple[str, ...]) -> None:
    """Certificates of signers under `domains`, those of the API itself, are valid for at most a day."""
    _mode_rules(errors, source, field)
    taken: set[str] = set()
    for index, projection in enumerate(source["sources"] or ()):
        _projection_rules(errors, projection, f"{field}.sources[{index}]", field, taken, domains)


def _mode_rules(errors: FieldErrors, holder: Object, field: str, name: str = "defaultMode") -> None:
    mode = holder.get(name)
    if mode is not None and not (0 <= mode <= HIGHEST_MODE):
        errors.add(
            invalid(f"{field}.{name}", mode, "must be a number between 0 and 0777 (octal), both inclusive")
        )


def _item_list_rules(errors: FieldErrors, source: Object, field: str) -> None:
    for index, item in enumerate(source.get("items", ())):
        _item_rules(errors, item, f"{field}.items[{index}]")


def _item_rules(errors: FieldErrors, item: Object, field: str) -> None:
    for part in ("key", "path"):
        if not item[part]:
            errors.add(required(f"{field}.{part}"))
    errors.add_each(f"{field}.path", item["path"], unreserved(item["path"]))
    _mode_rules(errors, item, field, "mode")


def _file_rules(errors: FieldErrors, file: Object, field: str) -> None:
    """Errors name the volume, not the file in it, as clients expect."""
    path, reference, amount = file["path"], file.get("fieldRef"), file.get("resourceFieldRef")
    if not path:
        errors.add(required(f"{field}.path"))
    errors.add_each(f"{field}.path", path, unreserved(path))
    if reference is not None:
        field_reference_rules(errors, reference, IN_FILES, f"{field}.fieldRef")
        if amount is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.add(invalid(field, "resource", text))
    elif amount is not None:
        amount_reference_rules(errors, amount, f"{field}.resourceFieldRef", needs_container=True)
    else:
        errors.add(required(field, "one of fieldRef and resourceFieldRef is required"))
    _mode_rules(errors, file, field, "mode")


def field_reference_rules(
    errors: FieldErrors, reference: Object, supported: tuple[str, ...], field: str
) -> None:
    version, path = reference.get("apiVersion", ""), reference["fieldPath"]
    if version == "v1" and path in supported:
        return
    if not version or not path:
        errors.add(required(f"{field}.{'fieldPath' if version else 'apiVersion'}"))
        return
    owner, key = _subscript(path)
    if version != "v1":
        errors.add(_conversion_error(path, f"unsupported pod version: {version}", field))
        return
    if key is not None:
        _subscript_rules(errors, path, owner, key, field)
        return
    path = "spec.nodeName" if path == "spec.host" else path
    if path not in _POD_FIELDS:
        errors.add(_conversion_error(path, f"field label not supported: {path}", field))
    elif path not in supported:
        errors.add(not_supported(f"{field}.fieldPath", path, supported))


def _subscript(path: str) -> tuple[str, str | None]:
    """Split `metadata.labels['a']` into the map and the key of one value."""
    owner, opening, key = path.removesuffix("']").partition("['")
    if not path.endswith("']") or not opening or not owner:
        return path, None
    return owner, key


def _subscript_rules(errors: FieldErrors, path: str, owner: str, key: str, field: str) -> None:
    if owner == "metadata.annotations":
        errors.add_each(field, key.lower(), qualified_name(key.lower()))
        return
    if owner == "metadata.labels":
        errors.add_each(field, key, qualified_name(key))
    else:
        errors.add(_conversion_error(path, f"field label does not support subscript: {path}", field))


def _conversion_error(path: str, why: str, field: str) -> FieldError:
    return invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {why}")


def amount_reference_rules(
    errors: FieldErrors, reference: Object, field: str, *, needs_container: bool = False
) -> None:
    name = reference["resource"]
    if needs_container and not reference.get("containerName"):
        errors.add(required(f"{field}.containerName"))
    elif not name:
        errors.add(required(f"{field}.resource"))
    elif name not in _AMOUNTS and not name.startswith(_HUGE_PAGES):
        errors.add(not_supported(f"{field}.resource", name, _AMOUNTS))
    _divisor_rules(errors, name, reference["divisor"], field)


def _divisor_rules(errors: FieldErrors, name: str, divisor: str, field: str) -> None:
    if divisor == "0":
        return
    supported, listed = _DIVISORS, ", ".join(_DIVISORS)
    what = "hugepages" if name.startswith(_HUGE_PAGES) else _RESOURCE_TITLES.get(name.partition(".")[2], "")
    if what == "cpu":
        supported, listed = ("1m", "1"), "1m and 1"
    if divisor in supported or (what != "hugepages" and name not in _AMOUNTS):
        return
    text = f"only divisor's values {listed} are supported with the {what} resource"
    errors.add(invalid(f"{field}.divisor", name, text))


def _projection_rules(
    errors: FieldErrors, source: Object, field: str, volume: str, taken: set[str], domains: tuple[str, ...]
) -> None:
    for part in ("secret", "configMap"):
        if part in source:
            _projected_key_rules(errors, source[part], f"{field}.{part}", volume, taken)
    if "downwardAPI" in source:
        for file in source["downwardAPI"].get("items", ()):
            _file_rules(errors, file, f"{field}.downwardAPI")
            _path_conflict_rules(errors, file["path"], file["path"], volume, taken)
    if "serviceAccountToken" in source:
        _token_rules(errors, source["serviceAccountToken"], f"{field}.serviceAccountToken", volume)
    if "clusterTrustBundle" in source:
        name = "clusterTrustBundle" if ONE_TYPE_PER_SOURCE in errors.features else "clusterTrustBundlePEM"
        _trust_bundle_rules(errors, source["clusterTrustBundle"], f"{field}.{name}", volume, taken)
    if "podCertificate" in source:
        here = f"{field}.podCertificate"
        _certificate_rules(errors, source["podCertificate"], here, volume, taken, domains)
    if len(source) > 1:
        text = "may not specify more than 1 volume type"
        errors.add(forbidden(field, reworded(text, ONE_TYPE_PER_SOURCE, f"{text} per source")))


def _trust_bundle_rules(
    errors: FieldErrors, source: Object, field: str, volume: str, taken: set[str]
) -> None:
    name, signer, path = source.get("name"), source.get("signerName"), source["path"]
    selector = source.get("labelSelector")
    if name is not None and signer is not None:
        text = "only one of name and signerName may be used"
        errors.add(invalid(field, shown(CLUSTER_TRUST_BUNDLE_PROJECTION, source), text))
    elif name is not None:
        if not name:
            errors.add(required(f"{field}.name", "must be a valid object name"))
        of_signer = name.rpartition(":")[0].replace(":", "/")
        for text in bundle_name(of_signer, name, prefix=False):
            errors.add(invalid(f"{field}.name", name, f"not a valid clustertrustbundlename: {text}"))
        if selector is not None:
            text = "labelSelector must be unset if name is specified"
            errors.add(invalid(f"{field}.labelSelector", format_selector(selector), text))
    elif signer is not None:
        if not signer:
            errors.add(required(f"{field}.signerName", "must be a valid signer name"))
        signer_rules(errors, signer, f"{field}.signerName")
        label_selector_rules(errors, selector, f"{field}.labelSelector")
    else:
        errors.add(required(field, "either name or signerName must be specified"))
    if not path:
        errors.add(required(f"{field}.path"))
    _new_path_rules(errors, path, f"{field}.path", volume, taken)


def _new_path_rules(errors: FieldErrors, path: str, field: str, volume: str, taken: set[str]) -> None:
    errors.add_each(field, path, unreserved(path))
    if path in taken:
        errors.add(invalid(volume, path, "conflicting duplicate paths"))
    taken.add(path)


def _certificate_rules(
    errors: FieldErrors,
    source: Object,
    field: str,
    volume: str,
    taken: set[str],
    domains: tuple[str, ...],
) -> None:
    signer, seconds = source.get("signerName", ""), source.get("maxExpirationSeconds")
    signer_rules(errors, signer, f"{field}.signerName")
    _user_annotation_rules(errors, source.get("userAnnotations", {}), f"{field}.userAnnotations")
    if source.get("keyType", "") not in KEY_TYPES:
        errors.add(not_supported(f"{field}.keyType", source.get("keyType", ""), KEY_TYPES))
    if seconds is not None:
        of_api = f".{signer.partition('/')[0]}".endswith(tuple(f".{domain}" for domain in domains))
        longest = LONGEST_API_CERTIFICATE if of_api else LONGEST_CERTIFICATE
        here = f"{field}.maxExpirationSeconds"
        if seconds < SHORTEST_CERTIFICATE:
            text = f"if provided, maxExpirationSeconds must be >= {SHORTEST_CERTIFICATE}"
            errors.add(invalid(here, seconds, text))
        if seconds > longest:
            errors.add(invalid(here, seconds, f"if provided, maxExpirationSeconds must be <= {longest}"))
    paths = ("credentialBundlePath", "keyPath", "certificateChainPath")
    for part in paths:
        if source.get(part):
            _new_path_rules(errors, source[part], f"{field}.{part}", volume, taken)
    if not any(source.get(part) for part in paths):
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.add(required(field, text))


def _user_annotation_rules(errors: FieldErrors, annotations: Mapping[str, str], field: str) -> None:
    for key in sorted(annotations):
        name = key.lower()
        if not name:
            errors.add(required(field))
        elif wrong := qualified_name(name):
            errors.add_each(field, name, wrong)
        elif "/" not in name:
            errors.add(invalid(field, name, 'must be a domain-prefixed key (such as "acme.io/foo")'))
    if sum(size(key) + size(value) for key, value in annotations.items()) > LONGEST_ANNOTATIONS:
        errors.add(too_long(field, LONGEST_ANNOTATIONS))


def _projected_key_rules(
    errors: FieldErrors, source: Object, field: str, volume: str, taken: set[str]
) -> None:
    name = source.get("name", "")
    if not name:
        errors.add(required(f"{field}.name"))
    for index, item in enumerate(source.get("items", ())):
        _item_rules(errors, item, f"{field}.items[{index}]")
        _path_conflict_rules(errors, item["path"], name, volume, taken)


def _path_conflict_rules(errors: FieldErrors, path: str, value: str, volume: str, taken: set[str]) -> None:
    if path in taken:
        errors.add(invalid(volume, value, "conflicting duplicate paths"))
        return
    if path:
        taken.add(path)


def _token_rules(errors: FieldErrors, token: Object, field: str, volume: str) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < SHORTEST_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        errors.add(invalid(f"{field}.expirationSeconds", seconds, text))
    if seconds > LONGEST_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.add(invalid(f"{field}.expirationSeconds", seconds, text))
    path = token["path"]
    if not path:
        errors.add(required(f"{volume}.path"))
    elif LOCAL_TOKEN_PATHS in errors.features:
        errors.add_each(f"{volume}.path", path, unreserved(path))


def tokens_of(volumes: list[Object], field: str) -> Iterator[tuple[str, Any]]:
    """Yield every projected service account token with the path of its field."""
    for at, volume in enumerate(volumes):
        for index, source in enumerate(volume.get("projected", {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                here = f"{field}[{at}].projected.sources[{index}].serviceAccountToken"
                yield here, source["serviceAccountToken"]


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
    """Return the rule of sources that only require certain fields."""

    def rules(errors: FieldErrors, source: Object, field: str) -> None:
        for part in parts:
            if not source.get(part):
                errors.add(required(f"{field}.{part}"))

    return rules


def disk_rules(errors: FieldErrors, source: Object, field: str, *, name: str) -> None:
    """Validate disks that have a name and may have partitions."""
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


HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
LONGEST_DRIVER_NAME: Final = 63

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
    Field("portals", STRINGS, 7, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("chapAuthDiscovery", BOOL, 8),
    Field("chapAuthSession", BOOL, 11),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 10, pointer=True),
    Field("initiatorName", STRING, 12, pointer=True),
)
PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE = Struct(
    "core.v1.PersistentVolumeClaimVolumeSource",
    Field("claimName", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2),
)
FLEX_VOLUME_SOURCE = Struct(
    "core.v1.FlexVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("fsType", STRING, 2),
    Field("secretRef", LOCAL_OBJECT_REFERENCE, 3, pointer=True),
    Field("readOnly", BOOL, 4),
    Field("options", STRING_MAP, 5),
)
FC_VOLUME_SOURCE = Struct(
    "core.v1.FCVolumeSource",
    Field("targetWWNs", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("lun", INT32, 2, pointer=True),
    Field("fsType", STRING, 3),
    Field("readOnly", BOOL, 4),
    Field("wwids", STRINGS, 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
CSI_VOLUME_SOURCE = Struct(
    "core.v1.CSIVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2, pointer=True),
    Field("fsType", STRING, 3, pointer=True),
    Field("volumeAttributes", STRING_MAP, 4),
    Field("nodePublishSecretRef", LOCAL_OBJECT_REFERENCE, 5, pointer=True),
)


def host_path_rules(errors: FieldErrors, source: Object, field: str) -> None:
    path, kind = source["path"], source.get("type", "")
    if not path:
        errors.add(required(f"{field}.path"))
        return
    errors.add_each(f"{field}.path", path, without_backsteps(path))
    if kind not in HOST_PATH_TYPES:
        errors.add(not_supported(f"{field}.type", kind, HOST_PATH_TYPES))


def empty_dir_rules(errors: FieldErrors, source: Object, field: str) -> None:
    if source.get("sizeLimit", "").startswith("-"):
        errors.add(forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def git_repo_rules(errors: FieldErrors, source: Object, field: str) -> None:
    directory = source.get("directory", "")
    if not source["repository"]:
        errors.add(required(f"{field}.repository"))
    errors.add_each(f"{field}.directory", directory, descending(directory))


def nfs_rules(errors: FieldErrors, source: Object, field: str) -> None:
    needs("server", "path")(errors, source, field)
    if not source["path"].startswith("/"):
        errors.add(invalid(f"{field}.path", source["path"], "must be an absolute path"))


_QUALIFIED_NAMES: Final = {
    "iqn": r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\f\r ]+\Z",
    "eui": r"^eui.[0-9A-Za-z]{16}\Z",
    "naa": r"^naa.[0-9A-Za-z]{32}\Z",
}


def iscsi_rules(errors: FieldErrors, source: Object, field: str) -> None:
    if not source["targetPortal"]:
        errors.add(required(f"{field}.targetPortal"))
    if source["iqn"]:
        errors.add_each(f"{field}.iqn", source["iqn"], iscsi_name(source["iqn"]))
    else:
        errors.add(required(f"{field}.iqn"))
    unit_rules(errors, source["lun"], f"{field}.lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.add(required(f"{field}.secretRef"))
    if "initiatorName" in source:
        name = source["initiatorName"]
        errors.add_each(f"{field}.initiatorname", name, iscsi_name(name))


def iscsi_name(name: str) -> list[str]:
    """The name of an iSCSI initiator or target, in one of three formats."""
    pattern = _QUALIFIED_NAMES.get(name[:3])
    if pattern is None:
        return ["must be valid format starting with iqn, eui, or naa"]
    return [] if re.search(pattern, name) else ["must be valid format"]


def unit_rules(errors: FieldErrors, unit: int, field: str) -> None:
    if not (0 <= unit <= 255):
        errors.add(invalid(field, unit, between(0, 255)))


def fc_rules(errors: FieldErrors, source: Object, field: str) -> None:
    targets, ids, unit = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    here = f"{field}.targetWWNs"
    if not targets and not ids:
        errors.add(required(here, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        errors.add(invalid(here, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and unit is None:
        errors.add(required(f"{field}.lun", "lun is required if targetWWNs is specified"))
    elif targets and unit is not None:
        unit_rules(errors, unit, f"{field}.lun")


def flex_rules(errors: FieldErrors, source: Object, field: str, *, domains: Iterable[str]) -> None:
    """Options are passed to the driver unchanged; options under the API's own `domains` are reserved."""
    if not source["driver"]:
        errors.add(required(f"{field}.driver"))
    reserved = tuple(f".{domain}" for domain in domains)
    text = f"{' and '.join(domains)} namespaces are reserved"
    for key in source.get("options", ()):
        if f".{key.partition('/')[0].lower()}".endswith(reserved):
            errors.add(invalid(f"{field}.options[{key}]", key, text))


def csi_rules(errors: FieldErrors, source: Object, field: str) -> None:
    driver_name_rules(errors, source["driver"], f"{field}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    name = secret.get("name", "")
    if not name:
        errors.add(required(f"{field}.nodePublishSecretRef.name"))
    else:
        errors.add_each(f"{field}.name", name, dns_subdomain(name))


def driver_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    if not name:
        errors.add(required(field))
        if STORAGE_VALIDATED_ONCE in errors.features:
            return
    if size(name) > LONGEST_DRIVER_NAME:
        errors.add(too_long(field, LONGEST_DRIVER_NAME))
    errors.add_each(field, name, dns_subdomain(name.lower()))


SOURCE_RULES: Final[Mapping[str, Rules]] = {
    **VENDOR_RULES,
    "hostPath": host_path_rules,
    "emptyDir": empty_dir_rules,
    "gitRepo": git_repo_rules,
    "nfs": nfs_rules,
    "iscsi": iscsi_rules,
    "persistentVolumeClaim": needs("claimName"),
    "fc": fc_rules,
    "csi": csi_rules,
}
