"""Where the contents of a volume live: every kind of source that says so in one struct, with its rules.

Sources made of keys and fields are in `projections`, claims that a pod makes in `claim_template`, and disks of
certain makers in `vendor_sources`. Volumes that outlive pods have several of these sources too; their rules start
from those here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from actors.kinds.core.pods.paths import descending, without_backsteps
from actors.kinds.core.pods.vendor_sources import VENDOR_RULES, Rules, needs
from actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from actors.kinds.schema.fields import (
    BOOL,
    INT32,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    Field,
    Struct,
)
from actors.kinds.validation.checks import (
    FieldError,
    between,
    dns_subdomain,
    each,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
    too_long,
)
from actors.messages import Object

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
    Field("portals", STRINGS, 7),
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
    Field("targetWWNs", STRINGS, 1),
    Field("lun", INT32, 2, pointer=True),
    Field("fsType", STRING, 3),
    Field("readOnly", BOOL, 4),
    Field("wwids", STRINGS, 5),
)
CSI_VOLUME_SOURCE = Struct(
    "core.v1.CSIVolumeSource",
    Field("driver", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2, pointer=True),
    Field("fsType", STRING, 3, pointer=True),
    Field("volumeAttributes", STRING_MAP, 4),
    Field("nodePublishSecretRef", LOCAL_OBJECT_REFERENCE, 5, pointer=True),
)


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
    "iqn": r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\f\r ]+\Z",
    "eui": r"^eui.[0-9A-Za-z]{16}\Z",
    "naa": r"^naa.[0-9A-Za-z]{32}\Z",
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
    return [] if re.search(pattern, name) else ["must be valid format"]


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
