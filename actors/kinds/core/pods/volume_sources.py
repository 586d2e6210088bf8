"""Volume sources that consist of one struct, with their rules.

Sources made of keys and fields are in `projections`, claims that a pod creates in `claim_template`, and disks of
certain vendors in `vendor_sources`. Persistent volumes have several of these sources too; their rules build on
those here.
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
from actors.kinds.validation import (
    FieldErrors,
    between,
    dns_subdomain,
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
    """Options go to the driver as they are; options under the API's own `domains` are reserved."""
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
